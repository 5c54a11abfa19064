"""The window of a rule: a length of time, a long one with a start in steps, or the local day, week or month.

All are one function from the time of a payment to the start of its window. Both ends of a window are included.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.day import DAY_MS
from fraud_rules.model.expressions.columnwise import both_valid
from fraud_rules.model.expressions.local_time import UTC_ZONE
from fraud_rules.model.transaction import Column
from fraud_rules.runtime.zones import CALENDAR_END_MS, utc_offsets

Ints = NDArray[np.int64]

_HOUR_MS: Final = 3_600_000
_FIRST_WEEKDAY: Final = 3  # 1970-01-01 was a Thursday


class Calendar(StrEnum):
    """A period of the local calendar. A week starts on Monday."""

    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"

    @property
    def reach_ms(self) -> int:
        """A bound on the length of the period: changes of the clock make it up to three hours longer. Since 1970, only
        one day of one zone was longer: 1994-02-01 in Antarctica/Vostok, with 31 hours. Retention cuts it."""
        return {Calendar.DAY: 27, Calendar.WEEK: 171, Calendar.MONTH: 747}[self] * _HOUR_MS

    def number(self, days: Ints) -> Ints:
        """The number of the period of each local date, in days since 1970-01-01."""
        if self is Calendar.DAY:
            return days
        if self is Calendar.WEEK:
            return (days + _FIRST_WEEKDAY) // 7
        return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


@dataclass(frozen=True, slots=True)
class Window:
    """A window of `reach_ms`, or with `calendar` the part of the period of `zone` up to the payment.

    A window starts at most `reach_ms` before its payment. A long window, whose `step_ms` is above 1, starts at the last
    multiple of `step_ms` that is not after this time.
    """

    reach_ms: int
    calendar: Calendar | None = None
    zone: str = UTC_ZONE
    step_ms: int = 1

    @classmethod
    def of_calendar(cls, calendar: Calendar, zone: str) -> Window:
        """The calendar window of a zone that exists."""
        return cls(calendar.reach_ms, calendar, zone)

    @property
    def is_long(self) -> bool:
        """Whether sums by step stand for the older rows of the window."""
        return self.step_ms > 1

    @property
    def calendar_text(self) -> str:
        """The words for a calendar window, such as `one calendar day (Europe/Berlin)`; empty for a length of time."""
        return "" if self.calendar is None else f"one calendar {self.calendar.lower()} ({self.zone})"

    def starts(self, times: Column) -> Column:
        """The start of the window of each time, in epoch ms.

        A calendar window starts at the earliest instant from which all times to the payment's are in its local day,
        week or month. It is null outside the years 1970 to 2099 (UTC).
        """
        ms, valid = times.values, times.valid
        if self.calendar is None or not len(ms):
            return Column((ms - self.reach_ms) // self.step_ms * self.step_ms, valid, None)
        first_ms, last_ms = int(ms.min()), int(ms.max())
        if first_ms < 0 or last_ms >= CALENDAR_END_MS:
            valid = both_valid(valid, (ms >= 0) & (ms < CALENDAR_END_MS))
            ms = np.clip(ms, 0, CALENDAR_END_MS - 1)
            first_ms, last_ms = int(ms.min()), int(ms.max())
        starts_ms = _calendar_starts(self.calendar, self.zone)
        first, last = (np.searchsorted(starts_ms, (first_ms, last_ms), "right") - 1).tolist()
        # Most batches are within one period, or two.
        number = np.searchsorted(starts_ms[first + 1 : last + 1], ms, "right")
        return Column(starts_ms[first : last + 1][number], valid, None)

    def start_ms(self, time_ms: int) -> int | None:
        """`starts` for one time."""
        if self.calendar is None:
            return (time_ms - self.reach_ms) // self.step_ms * self.step_ms
        if not 0 <= time_ms < CALENDAR_END_MS:
            return None
        starts_ms = _calendar_starts(self.calendar, self.zone)
        return int(starts_ms[np.searchsorted(starts_ms, time_ms, "right") - 1])

    def over_ms(self, time_ms: int) -> int:
        """The first time whose window does not contain a payment of this time."""
        if self.calendar is None or not 0 <= time_ms < CALENDAR_END_MS:
            return (time_ms // self.step_ms + 1) * self.step_ms + self.reach_ms
        starts_ms = _calendar_starts(self.calendar, self.zone)
        following = starts_ms[np.searchsorted(starts_ms, time_ms, "right") :]
        return int(following[0]) if len(following) else CALENDAR_END_MS


@lru_cache(maxsize=64)
def _calendar_starts(calendar: Calendar, zone: str) -> Ints:
    """The starts of the periods that have a time in the years 1970 to 2099 (UTC), ascending.

    A period is a longest run of instants whose local dates are in one day, week or month. If the clock goes back over
    midnight, the date that it shows again is another run.
    """
    changes_ms, offsets_ms = utc_offsets(zone)
    moments = [changes_ms]
    for since_ms, until_ms, offset_ms in zip(changes_ms, [*changes_ms[1:], CALENDAR_END_MS], offsets_ms, strict=True):
        first_day, end_day = -(-(since_ms + offset_ms) // DAY_MS), -(-(until_ms + offset_ms) // DAY_MS)
        moments.append(np.arange(first_day, end_day) * DAY_MS - offset_ms)
    starts_ms = np.unique(np.concatenate(moments))
    local_ms = starts_ms + offsets_ms[np.searchsorted(changes_ms, starts_ms, "right") - 1]
    numbers = calendar.number(local_ms // DAY_MS)
    found: Ints = starts_ms[np.append(True, numbers[1:] != numbers[:-1])]
    return found
