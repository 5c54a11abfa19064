"""The parts of local times over whole columns: hours, weekdays and dates in a zone of the tz database."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.day import DAY_MS
from fraud_rules.model.expressions.columnwise import both_valid
from fraud_rules.model.transaction import Column
from fraud_rules.runtime.zones import CALENDAR_END_MS, utc_offsets

Ints = NDArray[np.int64]

UTC_ZONE: Final = "UTC"

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_FIRST_WEEKDAY: Final = 3  # 1970-01-01 was a Thursday


def hour(times: Column, zone: str) -> Column:
    """The hours, 0 to 23."""
    local = _local(times, zone)
    return Column(_in_day(local.values) // _HOUR_MS, local.valid, None)


def minute_of_day(times: Column, zone: str) -> Column:
    """The minutes since midnight by the clock, 0 to 1439."""
    local = _local(times, zone)
    return Column(_in_day(local.values) // _MINUTE_MS, local.valid, None)


def weekday(times: Column, zone: str) -> Column:
    """The weekdays, 1 (Monday) to 7."""
    local = _local(times, zone)
    return Column((local.values // DAY_MS + _FIRST_WEEKDAY) % 7 + 1, local.valid, None)


def day(times: Column, zone: str) -> Column:
    """The days of the month, 1 to 31."""
    local = _local(times, zone)
    return Column(_dates()[0][local.values // DAY_MS + 1], local.valid, None)


def month(times: Column, zone: str) -> Column:
    """The months, 1 to 12."""
    local = _local(times, zone)
    return Column(_dates()[1][local.values // DAY_MS + 1], local.valid, None)


def _local(times: Column, zone: str) -> Column:
    """The times as ms of the local clock since 1970-01-01T00:00 by that clock. Times outside the years 1970 to 2099
    (UTC) are null."""
    ms, valid = times.values, times.valid
    if not len(ms):
        return times
    first_ms, last_ms = int(ms.min()), int(ms.max())
    if first_ms < 0 or last_ms >= CALENDAR_END_MS:
        valid = both_valid(valid, (ms >= 0) & (ms < CALENDAR_END_MS))
        ms = np.clip(ms, 0, CALENDAR_END_MS - 1)
        first_ms, last_ms = int(ms.min()), int(ms.max())
    if zone == UTC_ZONE:
        return Column(ms, valid, None)
    starts_ms, offsets_ms = utc_offsets(zone)
    first, last = (np.searchsorted(starts_ms, (first_ms, last_ms), "right") - 1).tolist()
    if first == last:
        return Column(ms + offsets_ms[first], valid, None)
    # Only the changes between the first and the last time matter: none or one, in most batches.
    number = np.searchsorted(starts_ms[first + 1 : last + 1], ms, "right")
    return Column(ms + offsets_ms[first : last + 1][number], valid, None)


def _in_day(local_ms: Ints) -> Ints:
    """The ms since midnight. A remainder of numpy takes twice the time."""
    return local_ms - local_ms // DAY_MS * DAY_MS


@lru_cache(maxsize=1)
def _dates() -> tuple[Ints, Ints]:
    """The day of the month and the month, from the day before 1970 to the day after 2099."""
    days = np.arange(-1, CALENDAR_END_MS // DAY_MS + 1).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    return (days - months.astype("datetime64[D]")).astype(np.int64) + 1, months.astype(np.int64) % 12 + 1
