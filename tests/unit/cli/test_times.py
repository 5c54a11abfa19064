"""Times of options: ages, ISO times and epoch ms."""

from __future__ import annotations

import pytest

from fraud_rules.cli.alerts import alert_filters
from fraud_rules.cli.options import time_ms_of
from fraud_rules.errors import InputInvalid
from fraud_rules.runtime.clock import now_ms

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-20T12:00", 1_795_176_000_000),
        ("2026-11-20T12:00+02:00", 1_795_168_800_000),
        ("2026-11-20", 1_795_132_800_000),
        ("1795176000000", 1_795_176_000_000),
    ],
)
def test_a_time_is_epoch_ms_or_an_iso_time_in_utc(text: str, time_ms: int) -> None:
    assert time_ms_of(text) == time_ms


def test_an_age_counts_back_from_now() -> None:
    before_ms = now_ms()
    assert before_ms - 24 * HOUR_MS <= time_ms_of("24h") <= now_ms() - 24 * HOUR_MS
    filters = alert_filters(["severity=high", "since=1d", "severity=low", "text=a=b"])
    assert filters.pop("since") == [pytest.approx(before_ms - 24 * HOUR_MS, abs=60_000)]
    assert filters == {"severity": ["high", "low"], "text": ["a=b"]}


@pytest.mark.parametrize("text", ["yesterday", "", "12", "24 h", "2026-13-01", "9" * 40 + "d"])
def test_another_text_is_named_with_the_forms_that_work(text: str) -> None:
    with pytest.raises(InputInvalid, match=r"is not a time: write 30m, 12h, 7d, or 2026-11-20T12:00"):
        time_ms_of(text)


@pytest.mark.parametrize("text", ["severity", "sevrity=high", "=high"])
def test_another_filter_is_named_with_the_names_that_work(text: str) -> None:
    with pytest.raises(InputInvalid, match=rf"'{text}' is no filter NAME=VALUE; the names are ruleId, since"):
        alert_filters([text])
