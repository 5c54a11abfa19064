"""Calendar windows and long windows, against the definition of their start for one time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.model.transaction import Column
from fraud_rules.model.window import Calendar, Window
from fraud_rules.runtime.zones import CALENDAR_END_MS, utc_offsets, zone_of
from tests.support.oracle.moments import zone_named
from tests.support.oracle.rules import calendars

HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu"]


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def local_date(time_ms: int, zone: str) -> date:
    return (EPOCH + timedelta(milliseconds=time_ms)).astimezone(zone_of(zone)).date()


def period(time_ms: int, window: Window) -> object:
    local = local_date(time_ms, window.zone)
    match window.calendar:
        case Calendar.WEEK:
            return local.isocalendar()[:2]
        case Calendar.MONTH:
            return local.year, local.month
        case _:
            return local


def starts(window: Window, times_ms: list[int]) -> list[int | None]:
    found = window.starts(Column(np.array(times_ms, dtype=np.int64), None, None))
    valid = [True] * len(times_ms) if found.valid is None else found.valid.tolist()
    return [value if known else None for value, known in zip(found.values.tolist(), valid, strict=True)]


@given(st.integers(-(10**12), CALENDAR_END_MS), st.sampled_from([1_000, 7_000, 86_400_000]), st.integers(1, 10**6))
def test_a_long_window_starts_at_a_step(time_ms: int, step_ms: int, seconds: int) -> None:
    window = Window(seconds * 1_000, step_ms=step_ms)
    (start_ms,) = starts(window, [time_ms])
    assert start_ms == window.start_ms(time_ms)
    assert start_ms is not None
    assert start_ms % step_ms == 0
    assert 0 <= time_ms - window.reach_ms - start_ms < step_ms
    assert window.start_ms(window.over_ms(time_ms)) > time_ms >= window.start_ms(window.over_ms(time_ms) - 1)


@given(st.sampled_from(list(Calendar)), st.sampled_from(ZONES), st.integers(0, CALENDAR_END_MS - 1), st.data())
def test_a_calendar_window_starts_where_its_period_begins(
    calendar: Calendar, zone: str, time_ms: int, data: st.DataObject
) -> None:
    window = Window.of_calendar(calendar, zone)
    changes_ms = [each for each in utc_offsets(zone)[0].tolist() if each > 0]
    if changes_ms and data.draw(st.booleans()):
        time_ms = data.draw(st.sampled_from(changes_ms)) + data.draw(st.integers(-30 * HOUR_MS, 30 * HOUR_MS))
    start_ms = window.start_ms(time_ms)
    assert start_ms is not None
    assert start_ms <= time_ms < window.over_ms(time_ms)
    assert time_ms - start_ms <= window.reach_ms
    of_payment = period(time_ms, window)
    between = [*range(start_ms, time_ms, HOUR_MS // 4), *(e for e in changes_ms if start_ms <= e <= time_ms)]
    assert {period(each, window) for each in between} <= {of_payment}
    assert period(start_ms - 1, window) != of_payment
    assert start_ms < 0 or window.start_ms(start_ms) == start_ms


@pytest.mark.parametrize(
    ("calendar", "zone", "payment", "start"),
    [
        ("DAY", "UTC", "2024-05-01T00:00", "2024-05-01T00:00"),
        ("DAY", "UTC", "2024-05-01T23:59:59.999", "2024-05-01T00:00"),
        ("DAY", "Europe/Berlin", "2024-03-31T21:59:59.999", "2024-03-30T23:00"),  # 23 hours
        ("DAY", "Europe/Berlin", "2024-10-27T22:59:59.999", "2024-10-26T22:00"),  # 25 hours
        ("DAY", "America/Havana", "2024-11-03T05:30", "2024-11-03T04:00"),  # 01:00 is 00:00 again: one day
        ("DAY", "America/Havana", "2024-03-10T06:00", "2024-03-10T05:00"),  # the day begins at 01:00
        ("DAY", "America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T03:00"),  # a day without midnight
        ("DAY", "America/St_Johns", "2006-10-29T02:30:30", "2006-10-29T02:30"),  # a minute of the 29th, then 23:01
        ("DAY", "America/St_Johns", "2006-10-29T03:00", "2006-10-29T02:31"),  # the 28th again
        ("DAY", "America/St_Johns", "2006-10-29T12:00", "2006-10-29T03:30"),
        ("DAY", "Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00"),  # the 30th is left out
        ("DAY", "Africa/Monrovia", "1972-01-07T12:00", "1972-01-07T00:44:30"),  # 00:00 is 00:44:30
        ("DAY", "America/New_York", "1970-01-01T00:00", "1969-12-31T05:00"),
        ("DAY", "UTC", "1969-12-31T23:59:59.999", None),
        ("WEEK", "UTC", "2023-11-13T00:00", "2023-11-13T00:00"),
        ("WEEK", "UTC", "2023-11-12T23:59:59.999", "2023-11-06T00:00"),
        ("WEEK", "Europe/Berlin", "2024-10-27T22:59:59.999", "2024-10-20T22:00"),
        ("WEEK", "Pacific/Apia", "2012-01-01T00:00", "2011-12-26T10:00"),  # without its Friday
        ("MONTH", "UTC", "2024-02-29T12:00", "2024-02-01T00:00"),
        ("MONTH", "Europe/Berlin", "2023-10-31T22:59:59.999", "2023-09-30T22:00"),  # 745 hours
        ("MONTH", "America/New_York", "1970-01-01T04:00", "1969-12-01T05:00"),
        ("MONTH", "Asia/Kathmandu", "2099-12-31T23:59", "2099-12-31T18:15"),
        ("MONTH", "UTC", "2100-01-01T00:00", None),
    ],
)
def test_a_calendar_window_starts_at_the_same_time_in_the_oracle(
    calendar: str, zone: str, payment: str, start: str | None
) -> None:
    start_ms = None if start is None else at(start + "Z")
    assert Window.of_calendar(Calendar(calendar), zone).start_ms(at(payment + "Z")) == start_ms
    assert (
        calendars.CalendarWindow(calendars.Calendar(calendar), zone_named(zone)).start_ms(at(payment + "Z")) == start_ms
    )


def test_times_of_many_periods_and_outside_the_calendar_have_their_own_starts() -> None:
    window = Window.of_calendar(Calendar.DAY, "Europe/Berlin")
    times_ms = [at("2024-03-31T12:00Z"), -1, at("2024-03-30T12:00Z"), CALENDAR_END_MS, at("2024-03-31T22:00Z")]
    assert starts(window, times_ms) == [
        at("2024-03-30T23:00Z"), None, at("2024-03-29T23:00Z"), None, at("2024-03-31T22:00Z"),
    ]  # fmt: skip
    assert starts(window, []) == []
    assert window.start_ms(CALENDAR_END_MS) is None


def test_a_window_with_a_length_starts_so_long_before_its_payment() -> None:
    assert starts(Window(5), [7, -9]) == [2, -14]
    assert (Window(5).start_ms(7), Window(5).over_ms(7)) == (2, 13)


@pytest.mark.parametrize("calendar", list(Calendar))
@pytest.mark.parametrize(
    "zone", [*ZONES, "Antarctica/Casey", "Antarctica/Troll", "Africa/Casablanca", "Asia/Pyongyang"]
)
def test_no_period_since_2000_is_longer_than_its_reach(calendar: Calendar, zone: str) -> None:
    """These zones have the greatest changes. In 1994, a day of Antarctica/Vostok had 31 hours."""
    times = Column(np.arange(at("2000-01-01T00:59:59.999Z"), CALENDAR_END_MS, HOUR_MS, dtype=np.int64), None, None)
    starts_ms = Window.of_calendar(calendar, zone).starts(times).values
    assert int((times.values - starts_ms).max()) < calendar.reach_ms
