"""Hours, weekdays and dates of whole columns, against the same for one time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.model.expressions import local_time
from fraud_rules.model.transaction import Column
from fraud_rules.runtime.zones import CALENDAR_END_MS, utc_offsets, zone_of

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Kiritimati",
    "Asia/Gaza",
    "Africa/Monrovia",
    "Asia/Kathmandu",
]
PARTS: dict[str, Callable[[datetime], int]] = {
    "hour": lambda local: local.hour,
    "minute_of_day": lambda local: local.hour * 60 + local.minute,
    "weekday": lambda local: local.isoweekday(),
    "day": lambda local: local.day,
    "month": lambda local: local.month,
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parts(name: str, times_ms: list[int], zone: str) -> list[int | None]:
    column = Column(np.array(times_ms, dtype=np.int64), None, None)
    found = getattr(local_time, name)(column, zone)
    valid = [True] * len(times_ms) if found.valid is None else found.valid.tolist()
    return [value if known else None for value, known in zip(found.values.tolist(), valid, strict=True)]


def expected(name: str, time_ms: int, zone: str) -> int | None:
    if not 0 <= time_ms < CALENDAR_END_MS:
        return None
    return PARTS[name]((EPOCH + timedelta(milliseconds=time_ms)).astimezone(zone_of(zone)))


TIMES = st.integers(-(10**12), 5 * 10**12)


@given(
    st.sampled_from(sorted(PARTS)), st.sampled_from(ZONES), st.lists(TIMES | st.integers(-5, 5), max_size=5), st.data()
)
def test_a_column_has_the_parts_of_each_time(name: str, zone: str, times_ms: list[int], data: st.DataObject) -> None:
    changes_ms = st.sampled_from(utc_offsets(zone)[0].tolist())
    times_ms += [data.draw(changes_ms) + data.draw(st.integers(-1, 1)) for _ in range(2)]
    times_ms += [data.draw(st.sampled_from([CALENDAR_END_MS, CALENDAR_END_MS - 1]))]
    assert parts(name, times_ms, zone) == [expected(name, each, zone) for each in times_ms]


def test_a_column_without_rows() -> None:
    assert parts("hour", [], "Europe/Berlin") == []


@pytest.mark.parametrize("name", sorted(PARTS))
def test_times_outside_the_years_1970_to_2099_are_null(name: str) -> None:
    assert parts(name, [-1, CALENDAR_END_MS], "America/New_York") == [None, None]
