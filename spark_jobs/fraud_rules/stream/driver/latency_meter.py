"""The average latency of every ten seconds, in the format of the Flink demo's topic `latency`: plain text, in ms.

The latency of a batch is known once its outputs are readable, so the next batch writes the average in its transaction.
A crash loses the current ten seconds.
"""

from __future__ import annotations

from typing import Final

from fraud_rules.runtime import clock
from fraud_rules.runtime.clock import SteadyClock

_SPAN_MS: Final = 10_000


class LatencyMeter:
    """Accumulates latencies until the average is due by `steady_ms`."""

    def __init__(self, steady_ms: SteadyClock = clock.steady_ms) -> None:
        self._steady_ms = steady_ms
        self._since_ms: int | None = None
        self._rows = 0
        self._total_ms = 0

    def add(self, rows: int, append_total_ms: int, now_ms: int) -> None:
        """Add the transactions of a batch whose outputs are readable now. `append_total_ms` sums their append times.

        All times are in epoch ms.
        """
        if not rows:
            return
        self._since_ms = self._steady_ms() if self._since_ms is None else self._since_ms
        self._rows += rows
        self._total_ms += rows * now_ms - append_total_ms

    def due_average(self) -> str | None:
        """Return the average as text and start a new one, ten seconds after the first latency. Else return None."""
        if self._since_ms is None or self._steady_ms() - self._since_ms < _SPAN_MS:
            return None
        average_ms = self._total_ms / self._rows
        self._since_ms, self._rows, self._total_ms = None, 0, 0
        return f"{average_ms:.1f}"
