"""The patterns of `like`, as regular expressions whose time grows with the text times the pattern, not faster."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MAX_PATTERN_CHARS: Final = 256

_PARTS: Final = re.compile(r"\\(?P<literal>[%_\\])|(?P<wild>[%_])|(?P<wrong>\\)|(?P<plain>[^%_\\])", re.DOTALL)


@lru_cache(maxsize=512)
def like_expression(pattern: str) -> re.Pattern[str]:
    r"""Compile a pattern: `%` is any characters, `_` is one character, and `\` takes `%`, `_` or `\` literally.

    Raises ValueError with the reason for a pattern that has another `\` or is too long. Each piece between two `%`
    matches at its first place, and never at a later one, because a later one leaves the following pieces less text.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"has {len(pattern)} characters, at most {MAX_PATTERN_CHARS} are allowed")
    pieces = [""]
    for part in _PARTS.finditer(pattern):
        if part["wrong"]:
            raise ValueError(f"has a \\ at its character {part.start() + 1}; a \\ is allowed before %, _ and \\ only")
        if part["wild"] == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if part["wild"] else re.escape(part["literal"] or part["plain"])
    first, *others = pieces
    *inner, last = others or [""]
    expression = first + "".join(f"(?>.*?{piece})" for piece in inner if piece) + (f".*{last}" if others else "")
    return re.compile(expression, re.DOTALL)
