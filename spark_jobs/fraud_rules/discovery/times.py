"""Recognizes times in the values of a place: the unit, and the zone of times without an offset. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fraud_rules.codec.scalar import EPOCH_BOUNDS, epoch_ms_of, parse_timestamp
from fraud_rules.discovery.profile import ValueKind, ValuePlace
from fraud_rules.discovery.sample import quantile
from fraud_rules.model.declared.field_source import TimeUnit, WrittenAs
from fraud_rules.runtime.clock import MS_PER_S

_PLAUSIBLE_MS: Final = (946_684_800_000, 4_102_444_800_000)
"""The years 2000 to 2099."""

_HOUR_MS: Final = 3_600 * MS_PER_S
_SHIFT_TOLERANCE_MS: Final = 10 * 60 * MS_PER_S
_MOST_SHIFT_H: Final = 14
_OFFSET = re.compile(r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$")


@dataclass(frozen=True, slots=True)
class TimeGuess:
    """How a place holds times. `times_ms` has one for each value that is one, `lags_ms` how long after it the record
    arrived, where that is known. `shift_h`: the times seem to be local ones, so many hours ahead of UTC."""

    unit: TimeUnit | None
    zone: str
    written_as: WrittenAs | None
    times_ms: Sequence[int]
    lags_ms: Sequence[int]
    shift_h: int = 0

    @property
    def median_lag_ms(self) -> int | None:
        """Half of the records arrived later than so long after their time."""
        return quantile(sorted(self.lags_ms), 0.5) if self.lags_ms else None


def time_of(place: ValuePlace, append_ms: Sequence[int | None]) -> TimeGuess | None:
    """The times of a place; None if its values are no times. `append_ms` has the append time of each record."""
    if place.is_only(ValueKind.TIME):
        return _guess(place, append_ms, TimeUnit.MS, None, declared=None)
    if place.is_only(ValueKind.WHOLE, ValueKind.FRACTION) or place.is_only(ValueKind.WHOLE_TEXT):
        form = WrittenAs.TEXT if ValueKind.WHOLE_TEXT in place.kinds else None
        for unit in EPOCH_BOUNDS:
            if ValueKind.FRACTION not in place.kinds or unit is TimeUnit.S:
                found = _guess(place, append_ms, unit, form, declared=unit)
                if found is not None:
                    return found
        return None
    if place.is_only(ValueKind.TIME_TEXT):
        return _of_text(place, append_ms)
    return None


def _guess(
    place: ValuePlace,
    append_ms: Sequence[int | None],
    unit: TimeUnit,
    form: WrittenAs | None,
    declared: TimeUnit | None,
) -> TimeGuess | None:
    times = [None if value is None else epoch_ms_of(value, unit) for value in place.values]
    known = [time for time in times if time is not None]
    low, high = _PLAUSIBLE_MS
    if len(known) < len(place.present) or not all(low <= time < high for time in known):
        return None
    return TimeGuess(declared, "", form, known, _lags(times, append_ms))


def _of_text(place: ValuePlace, append_ms: Sequence[int | None]) -> TimeGuess:
    times = [None if value is None else parse_timestamp(value) for value in place.values]
    known = [time for time in times if time is not None]
    lags = _lags(times, append_ms)
    hours = 0 if all(map(_OFFSET.search, place.present)) else shift_h(lags)
    # The zones Etc/GMT have the opposite sign of an offset: Etc/GMT-1 is one hour ahead of UTC.
    zone = f"Etc/GMT{-hours:+d}" if hours else ""
    shifted = [time - hours * _HOUR_MS for time in known]
    return TimeGuess(TimeUnit.ISO8601, zone, None, shifted, [lag + hours * _HOUR_MS for lag in lags], hours)


def shift_h(lags_ms: Sequence[int]) -> int:
    """The whole hours by which most times are ahead of their arrival; negative for behind, 0 for no whole hours."""
    if not lags_ms:
        return 0
    median = quantile(sorted(lags_ms), 0.5)
    hours = round(-median / _HOUR_MS)
    is_shift = abs(median + hours * _HOUR_MS) <= _SHIFT_TOLERANCE_MS and abs(hours) <= _MOST_SHIFT_H
    return hours if is_shift else 0


def _lags(times_ms: Sequence[int | None], append_ms: Sequence[int | None]) -> list[int]:
    return [
        append - time
        for time, append in zip(times_ms, append_ms, strict=True)
        if time is not None and append is not None
    ]
