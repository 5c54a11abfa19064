"""JSON in one form only: members sorted, no spaces, decimals with their digits. Equal values are equal bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import msgspec

__all__ = ["canonical", "decoded", "document_of", "encoded"]

_SORTED: Final = msgspec.json.Encoder(decimal_format="number", order="sorted")
_AS_GIVEN: Final = msgspec.json.Encoder(decimal_format="number")
_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


def canonical(value: object) -> bytes:
    """The canonical JSON of plain values."""
    return _SORTED.encode(value)


def encoded(document: object) -> str:
    """JSON as text, members in the order they have."""
    return _AS_GIVEN.encode(document).decode()


def decoded(text: str | bytes) -> Any:
    """What JSON of ours stands for, numbers as `int` or `Decimal`. Raises msgspec.DecodeError."""
    return _DECODER.decode(text)


def document_of(text: str | bytes) -> dict[str, Any]:
    """The same where it is an object."""
    return _OBJECT.decode(text)
