"""Estimates the number of transactions in a span of event time from earlier traffic. Pure; the rate is a value.

Windows are in event time, and so is this rate: a history loaded in a minute counts as the months that it covers. The
rate ages with event time. One average follows the last minutes and another the last day.
"""

from __future__ import annotations

from typing import Final

import msgspec

_MEMORIES_MS: Final = (600_000, 86_400_000)
_LEAST_SPAN_MS: Final = 60_000
_HORIZON: Final = 100
"""An average extrapolates to at most this multiple of its observed span: ten minutes do not predict a month."""


class _Average(msgspec.Struct, frozen=True, array_like=True):
    """A number of rows and the event time that they span. Both shrink together with age."""

    rows: float = 0.0
    span_ms: float = 0.0

    def after(self, rows: int, advance_ms: int, memory_ms: int) -> _Average:
        total_rows, span_ms = self.rows + rows, self.span_ms + advance_ms
        kept = min(1.0, memory_ms / span_ms) if span_ms else 1.0
        return _Average(total_rows * kept, span_ms * kept)

    def rows_in(self, length_ms: int) -> float:
        span_ms = max(self.span_ms, _LEAST_SPAN_MS)
        return self.rows / span_ms * min(length_ms, _HORIZON * span_ms)


class EventRate(msgspec.Struct, frozen=True, rename="camel"):
    """The observed traffic up to the event time `until_ms`, which is None before any traffic."""

    until_ms: int | None = None
    averages: tuple[_Average, ...] = (_Average(), _Average())

    def after(self, rows: int, first_ms: int, last_ms: int) -> EventRate:
        """The rate after a batch whose event times are between `first_ms` and `last_ms`. Event time before `until_ms`
        does not count again; a burst counts as spread over a minute."""
        until_ms = first_ms if self.until_ms is None else self.until_ms
        gap_ms = max(0, first_ms - until_ms)
        own_ms = max(0, last_ms - max(first_ms, until_ms))
        averages = tuple(
            average.after(0, gap_ms, memory_ms).after(rows, own_ms, memory_ms)
            for average, memory_ms in zip(self.averages, _MEMORIES_MS, strict=True)
        )
        return EventRate(max(until_ms, last_ms), averages)

    def rows_in(self, length_ms: int) -> int:
        """The expected number of transactions in `length_ms` of event time; 0 before any traffic."""
        return round(max(average.rows_in(length_ms) for average in self.averages))
