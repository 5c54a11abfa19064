"""Quiet hours and the times of digests, in the time zone of a subscription. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from fraud_rules.runtime.clock import utc


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A quiet period of each day, from `start` (inclusive) to `end` (exclusive). It may span midnight."""

    start: time
    end: time
    zone: ZoneInfo

    def end_ms(self, at_ms: int) -> int | None:
        """The end of the quiet hours that contain a time, in epoch ms; None outside of them."""
        local = _local(at_ms, self.zone)
        clock = local.time().replace(fold=0)
        ends_today = clock < self.end
        if not (self.start <= clock and ends_today if self.start < self.end else self.start <= clock or ends_today):
            return None
        # Where clocks go back, they show the end twice.
        again_ms = _at_ms(local.date(), self.end.replace(fold=1), self.zone)
        if again_ms > at_ms and _local(again_ms, self.zone).fold:
            return min(again_ms, next_local_time_ms(self.end, self.zone, at_ms))
        return next_local_time_ms(self.end, self.zone, at_ms)


def next_local_time_ms(clock: time, zone: ZoneInfo, after_ms: int) -> int:
    """The first time after `after_ms` at which clocks in the zone show `clock` for the first time on a day. On a day
    when clocks skip this time, it is the time that clocks would show without the change.
    """
    day = _local(after_ms, zone).date()
    found_ms = [_at_ms(day + timedelta(days=days), clock, zone) for days in range(3)]
    return next(each for each in found_ms if each > after_ms)


def _local(at_ms: int, zone: ZoneInfo) -> datetime:
    return utc(at_ms).astimezone(zone)


def _at_ms(day: date, clock: time, zone: ZoneInfo) -> int:
    return int(datetime.combine(day, clock, zone).timestamp() * 1_000)
