"""Quiet hours and digests follow the clocks of their time zone, also where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from fraud_control.domain.notification_models import QuietHours, next_local_time_ms

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = QuietHours(time(22), time(7), BERLIN)
NOON = QuietHours(time(12), time(13, 30), BERLIN)


def at(text: str) -> int:
    """A UTC time, in epoch ms."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


@pytest.mark.parametrize(
    ("hours", "now", "end"),
    [
        (NIGHT, "2026-01-10T20:59:59", None),
        (NIGHT, "2026-01-10T21:00:00", "2026-01-11T06:00:00"),
        (NIGHT, "2026-01-11T05:59:59", "2026-01-11T06:00:00"),
        (NIGHT, "2026-01-11T06:00:00", None),
        (NIGHT, "2026-07-10T20:00:00", "2026-07-11T05:00:00"),  # summer: two hours ahead of UTC
        (NIGHT, "2026-03-28T22:00:00", "2026-03-29T05:00:00"),  # the night before summer time
        (NOON, "2026-01-10T12:00:00", "2026-01-10T12:30:00"),
        (NOON, "2026-01-10T12:30:00", None),
    ],
)
def test_quiet_hours_end_at_the_local_time(hours: QuietHours, now: str, end: str | None) -> None:
    assert hours.end_ms(at(now)) == (None if end is None else at(end))


@pytest.mark.parametrize("end", ["02:00", "02:15", "02:45", "03:00", "03:30"])
@pytest.mark.parametrize("day", ["2026-03-28T22:00:00", "2026-10-24T20:00:00"])
def test_an_end_is_later_and_no_longer_quiet_when_clocks_change(day: str, end: str) -> None:
    hours = QuietHours(time(1), time.fromisoformat(end), BERLIN)
    for minute in range(600):
        now_ms = at(day) + minute * 60_000
        found_ms = hours.end_ms(now_ms)
        assert found_ms is None or now_ms < found_ms <= now_ms + 4 * 3_600_000


@pytest.mark.parametrize(
    ("clock", "after", "found"),
    [
        ("08:00", "2026-01-10T06:59:59", "2026-01-10T07:00:00"),
        ("08:00", "2026-01-10T07:00:00", "2026-01-11T07:00:00"),
        ("02:30", "2026-03-28T22:00:00", "2026-03-29T01:30:00"),  # clocks skip this time
        ("02:30", "2026-10-25T00:30:00", "2026-10-26T01:30:00"),  # clocks show this time twice
    ],
)
def test_the_next_digest_is_at_the_local_time_once_a_day(clock: str, after: str, found: str) -> None:
    assert next_local_time_ms(time.fromisoformat(clock), BERLIN, at(after)) == at(found)
