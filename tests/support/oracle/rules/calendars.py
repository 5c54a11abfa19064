"""The oracle's calendar windows: the local day, week or month of a transaction, up to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

from tests.support.oracle.moments import CLOCKS_END_MS, EPOCH

HOUR_MS = 3_600_000


class Calendar(Enum):
    """A span of the calendar, in the order of their lengths."""

    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"


REACH_HOURS = {Calendar.DAY: 27, Calendar.WEEK: 171, Calendar.MONTH: 747}


@dataclass(frozen=True)
class CalendarWindow:
    """A window from the start of the local day, week or month, both ends included."""

    calendar: Calendar
    zone: ZoneInfo

    @property
    def reach_ms(self) -> int:
        """The longest time from a start to its transaction."""
        return REACH_HOURS[self.calendar] * HOUR_MS

    def start_ms(self, event_ms: int) -> int | None:
        """The earliest instant such that all instants from there to the event time are in its local day, week or
        month; None outside the years 1970 to 2099 in UTC.

        The search goes back from one change of the clock to the one before, as long as the local time right before the
        change is in the same day, week or month.
        """
        if not 0 <= event_ms < CLOCKS_END_MS:
            return None
        own = self._first_day(event_ms)
        instant_ms = event_ms
        while True:
            midnight_ms = self._midnight_ms(own, instant_ms)
            change_ms = self._last_change_ms(midnight_ms, instant_ms)
            if change_ms is None:
                return midnight_ms
            if self._first_day(change_ms - 1) != own:
                return change_ms
            instant_ms = change_ms - 1

    def _first_day(self, at_ms: int) -> date:
        """The first day of the local day, week or month of an instant."""
        day = self._local(at_ms).date()
        match self.calendar:
            case Calendar.DAY:
                return day
            case Calendar.WEEK:
                return day - timedelta(days=day.weekday())
            case Calendar.MONTH:
                return day.replace(day=1)

    def _midnight_ms(self, day: date, instant_ms: int) -> int:
        """The instant at which the day begins on the clock as it goes at another instant."""
        midnight = datetime(day.year, day.month, day.day, tzinfo=EPOCH.tzinfo)
        return (midnight - EPOCH - self._offset(instant_ms)) // timedelta(milliseconds=1)

    def _last_change_ms(self, first_ms: int, last_ms: int) -> int | None:
        """The last instant in a range, both ends included, at which the clock changes: once an hour at most."""
        later_ms = last_ms
        while later_ms >= first_ms:
            earlier_ms = max(later_ms - HOUR_MS, first_ms - 1)
            if self._offset(earlier_ms) != self._offset(later_ms):
                return self._change_ms(earlier_ms, later_ms)
            later_ms = earlier_ms
        return None

    def _change_ms(self, before_ms: int, after_ms: int) -> int:
        """The first instant of the offset of `after_ms`, by halving."""
        while after_ms - before_ms > 1:
            middle_ms = (before_ms + after_ms) // 2
            if self._offset(middle_ms) == self._offset(after_ms):
                after_ms = middle_ms
            else:
                before_ms = middle_ms
        return after_ms

    def _offset(self, at_ms: int) -> timedelta:
        offset = self._local(at_ms).utcoffset()
        assert offset is not None
        return offset

    def _local(self, at_ms: int) -> datetime:
        return (EPOCH + timedelta(milliseconds=at_ms)).astimezone(self.zone)
