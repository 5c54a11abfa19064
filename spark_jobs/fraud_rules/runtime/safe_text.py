"""Formats foreign text and values for messages: bounded, printable, and without raising errors."""

from __future__ import annotations

import re
from decimal import Decimal

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")
_QUOTED_CHARS = 40
_SHOWN_BITS = 512


def is_unprintable(text: str) -> bool:
    """Whether the text contains a NUL or half of a surrogate pair, which stores and messages cannot carry unchanged."""
    return _UNPRINTABLE.search(text) is not None


def quote(text: str) -> str:
    """Format text as printable ASCII in quotes, cut to a bounded length."""
    cut = text[:_QUOTED_CHARS]
    return ascii(cut) + ("..." if len(text) > len(cut) else "")


def scalar_text(value: object) -> str:
    """A value of a payment as text: `true` and `false` as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def without_formula(value: object) -> object:
    """A cell of a CSV file: a quote precedes text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def describe_value(value: object) -> str:
    """Format a JSON value for a message: short scalars as in JSON, any other value by its kind."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return quote(value)
        case int():
            return str(value) if value.bit_length() <= _SHOWN_BITS else "a huge number"
        case Decimal():
            return str(value)[:_QUOTED_CHARS]
        case list():
            return "a list"
        case dict():
            return "an object"
    return f"a {type(value).__name__}"
