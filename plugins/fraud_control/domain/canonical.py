"""Canonical JSON: sorted members, no spaces, decimals with all digits. Equal values give equal bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import msgspec

_SORTED: Final = msgspec.json.Encoder(decimal_format="number", order="sorted")
_AS_GIVEN: Final = msgspec.json.Encoder(decimal_format="number")
_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


def canonical(value: object) -> bytes:
    """Encode plain values as canonical JSON."""
    return _SORTED.encode(value)


def encoded(document: object) -> str:
    """Encode a document as JSON text and keep the order of its members."""
    return _AS_GIVEN.encode(document).decode()


def decoded(text: str | bytes) -> Any:
    """Decode JSON; numbers become `int` or `Decimal`. Raises msgspec.DecodeError."""
    return _DECODER.decode(text)


def document_of(text: str | bytes) -> dict[str, Any]:
    """Decode a JSON object. Raises msgspec.DecodeError."""
    return _OBJECT.decode(text)
