"""Numbers in texts for users have grouped digits."""

from __future__ import annotations

import pytest

from fraud_rules.runtime.grouped_number import grouped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("999", "999"),
        ("20000", "20,000"),
        ("-1234567.8900", "-1,234,567.8900"),
        ("1E+3", "1E+3"),
        ("NaN", "NaN"),
        ("v1234", "v1234"),
        ("", ""),
    ],
)
def test_only_decimal_numbers_are_grouped(text: str, shown: str) -> None:
    assert grouped(text) == shown
