"""The patterns of `like`."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.model.expressions.text_pattern import like_expression


def matches(text: str, pattern: str) -> bool:
    """The definition: `%` is any characters, `_` is one, a backslash takes the next literally."""
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(matches(text[count:], rest) for count in range(len(text) + 1))
    if head == "\\":
        return text[:1] == rest[0] and matches(text[1:], rest[1:])
    return text != "" and head in ("_", text[0]) and matches(text[1:], rest)


PATTERNS = st.lists(st.sampled_from(["%", "%", "_", "a", "b", "\n", ".", "\\%", "\\_", "\\\\", "Ä"]), max_size=7)


@given(st.text(alphabet="ab%_\\.\nÄ", max_size=8), PATTERNS.map("".join))
def test_a_pattern_matches_the_whole_text(text: str, pattern: str) -> None:
    assert (like_expression(pattern).fullmatch(text) is not None) is matches(text, pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a\\b", "has a \\ at its character 2"),
        ("\\", "has a \\ at its character 1"),
        ("%\\\\\\", "has a \\ at its character 4"),
        ("a" * 257, "has 257 characters, at most 256 are allowed"),
    ],
)
def test_a_wrong_pattern_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        like_expression(pattern)


def test_a_hostile_pattern_takes_little_time() -> None:
    began = time.perf_counter()
    assert like_expression("%a" * 127 + "b").fullmatch("a" * 5_000) is None
    assert like_expression("%a%_" * 64).fullmatch("ab" * 2_500) is not None
    assert time.perf_counter() - began < 1
