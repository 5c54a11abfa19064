"""Bounds on what a rule may ask for: every one of them keeps a hostile or mistaken rule cheap to refuse."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")
_QUOTED_CHARS = 40


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """Bounds on one rule record and its filter; all inclusive.

    Depth counts nested parentheses. Tokens are the words, literals and signs of a filter; they bound the time to parse
    it. A limit's digits are those of the number written out without an exponent.
    """

    max_window_minutes: int = 43_200
    max_cooldown_seconds: int = 31_622_400
    max_record_bytes: int = 65_536
    max_members: int = 64
    max_nesting: int = 4
    max_limit_digits: int = 38
    max_fields: int = 16
    max_text_chars: int = 2_000
    max_filter_chars: int = 8_000
    max_filter_depth: int = 32
    max_filter_tokens: int = 400


def unprintable(text: str) -> bool:
    """Whether the text holds a NUL or half of a surrogate pair, which no store or message can carry faithfully."""
    return _UNPRINTABLE.search(text) is not None


def quoted(value: object) -> str:
    """Somebody else's value for a message: printable ASCII, quoted, cut to a bounded length."""
    text = value if isinstance(value, str) else str(value)
    cut = text[:_QUOTED_CHARS]
    return ascii(cut) + ("..." if len(text) > len(cut) else "")
