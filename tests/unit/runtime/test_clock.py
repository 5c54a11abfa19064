from __future__ import annotations

import time

import pytest

from fraud_rules.runtime.clock import now_ms, utc


def test_the_clock_gives_epoch_milliseconds() -> None:
    before_s = time.time()
    read_ms = now_ms()
    assert isinstance(read_ms, int)
    assert before_s * 1_000 - 1 <= read_ms <= time.time() * 1_000


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (1_700_000_000_123, "2023-11-14T22:13:20.123000+00:00"),
        (-1, "1969-12-31T23:59:59.999000+00:00"),
        (-62_135_596_800_000, "0001-01-01T00:00:00+00:00"),
        (-62_135_600_400_000, "0001-01-01T00:00:00+00:00"),  # an hour before the first year
        (-(2**63), "0001-01-01T00:00:00+00:00"),
        (2**63 - 1, "9999-12-31T23:59:59.999999+00:00"),
    ],
)
def test_any_number_of_milliseconds_has_a_time_that_can_be_displayed(epoch_ms: int, text: str) -> None:
    assert utc(epoch_ms).isoformat() == text
