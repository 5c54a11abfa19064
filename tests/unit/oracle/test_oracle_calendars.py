"""The oracle's calendar windows against starts worked out by hand."""

from __future__ import annotations

import pytest

from tests.support.oracle.moments import epoch_ms, zone_named
from tests.support.oracle.rules.calendars import Calendar, CalendarWindow


@pytest.mark.parametrize(
    ("calendar", "zone", "event", "start"),
    [
        ("DAY", "UTC", "2024-05-01T00:00:00", "2024-05-01T00:00:00"),
        ("DAY", "UTC", "2024-05-01T23:59:59.999", "2024-05-01T00:00:00"),
        ("DAY", "Europe/Berlin", "2024-03-31T21:59:59.999", "2024-03-30T23:00:00"),  # 23 hours
        ("DAY", "Europe/Berlin", "2024-10-27T22:59:59.999", "2024-10-26T22:00:00"),  # 25 hours
        ("DAY", "America/Havana", "2024-11-03T05:30:00", "2024-11-03T04:00:00"),  # 01:00 is 00:00 again: one day
        ("DAY", "America/Havana", "2024-03-10T06:00:00", "2024-03-10T05:00:00"),  # the day begins at 01:00
        ("DAY", "America/St_Johns", "2006-10-29T02:30:30", "2006-10-29T02:30:00"),  # a minute of the 29th, then 23:01
        ("DAY", "America/St_Johns", "2006-10-29T03:00:00", "2006-10-29T02:31:00"),  # the 28th again
        ("DAY", "America/St_Johns", "2006-10-29T12:00:00", "2006-10-29T03:30:00"),
        ("DAY", "Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T10:00:00"),  # the 30th is left out
        ("DAY", "Africa/Monrovia", "1972-01-07T12:00:00", "1972-01-07T00:44:30"),  # 00:00 is 00:44:30
        ("WEEK", "UTC", "2024-05-05T12:00:00", "2024-04-29T00:00:00"),
        ("WEEK", "Europe/Berlin", "2024-10-27T22:59:59.999", "2024-10-20T22:00:00"),
        ("MONTH", "UTC", "2024-02-29T12:00:00", "2024-02-01T00:00:00"),
        ("MONTH", "Europe/Berlin", "2023-10-31T22:59:59.999", "2023-09-30T22:00:00"),
        ("DAY", "America/New_York", "1970-01-01T00:00:00", "1969-12-31T05:00:00"),
        ("MONTH", "UTC", "2099-12-31T23:59:59.999", "2099-12-01T00:00:00"),
        ("MONTH", "UTC", "2100-01-01T00:00:00", None),
        ("DAY", "UTC", "1969-12-31T23:59:59.999", None),
    ],
)
def test_a_window_starts_with_the_local_span(calendar: str, zone: str, event: str, start: str | None) -> None:
    window = CalendarWindow(Calendar(calendar), zone_named(zone))
    assert window.start_ms(epoch_ms(event)) == (None if start is None else epoch_ms(start))
