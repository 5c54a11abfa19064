"""The average latency of every ten seconds, as the Flink demo writes it to its topic `latency`: plain text, in ms.

A batch's latency is known once its outputs can be read, so the batch after it writes the average, in its own
transaction. A crash loses the ten seconds that were being counted. Pure; the clock is passed in.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LatencyMeter"]

_SPAN_MS: Final = 10_000


class LatencyMeter:
    """Adds latencies up until they are due."""

    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._rows = 0
        self._total_ms = 0

    def note(self, rows: int, append_total_ms: int, now_ms: int) -> None:
        """Add the transactions of a batch whose outputs can be read now; `append_total_ms` sums their append times."""
        if not rows:
            return
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        self._rows += rows
        self._total_ms += rows * now_ms - append_total_ms

    def take(self, now_ms: int) -> str | None:
        """The average as text, ten seconds after the first latency it counts; a new one begins then. Else None."""
        if self._since_ms is None or now_ms - self._since_ms < _SPAN_MS:
            return None
        average_ms = self._total_ms / self._rows
        self._since_ms, self._rows, self._total_ms = None, 0, 0
        return f"{average_ms:.1f}"
