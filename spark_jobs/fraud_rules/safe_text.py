"""Other people's text and values in our messages: bounded, printable, and never the cause of an error themselves."""

from __future__ import annotations

import re
from decimal import Decimal

_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")
_QUOTED_CHARS = 40
_SHOWN_BITS = 512


def unprintable(text: str) -> bool:
    """Whether the text holds a NUL or half of a surrogate pair, which no store or message can carry faithfully."""
    return _UNPRINTABLE.search(text) is not None


def quoted(text: str) -> str:
    """Text as printable ASCII in quotes, cut to a bounded length."""
    cut = text[:_QUOTED_CHARS]
    return ascii(cut) + ("..." if len(text) > len(cut) else "")


def shown(value: object) -> str:
    """A JSON value in a message: short scalars as JSON has them, anything else by its kind."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return quoted(value)
        case int():
            return str(value) if value.bit_length() <= _SHOWN_BITS else "a huge number"
        case Decimal():
            return str(value)[:_QUOTED_CHARS]
        case list():
            return "a list"
        case dict():
            return "an object"
    return f"a {type(value).__name__}"
