"""Groups the digits of numbers in texts for users."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_GROUPS = re.compile(r"(?<=\d)(?=(\d{3})+$)")


def grouped(text: str) -> str:
    """Group the digits of a decimal number: `27114.6` becomes `27,114.6`. Return any other text unchanged."""
    if _NUMBER.fullmatch(text) is None:
        return text
    whole, point, rest = text.partition(".")
    return f"{_GROUPS.sub(',', whole)}{point}{rest}"
