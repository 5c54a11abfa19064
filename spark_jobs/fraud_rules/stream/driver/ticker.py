"""Triggers batches of an idle detector, and tracks the ends of the transactions.

Spark starts no batch without records. So a thread of the driver writes a tick at the start, and then whenever no batch
has ended for `tick_ms`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.ticks import TickWriter
from fraud_rules.runtime.clock import MS_PER_S

_log = logging.getLogger(__name__)

_POLL_S = 1.0
_WARM_BATCHES = 30
"""The first batches of a new JVM take several times as long, so this many run at once, before they matter."""


class Ticker:
    """A daemon thread."""

    def __init__(self, ticks: TickWriter, ends: TopicEnds, transactions: str, tick_ms: int) -> None:
        """`ends` reads the ends of the topic `transactions`."""
        self._ticks = ticks
        self._reader = ends
        self._transactions = transactions
        self._tick_s = tick_ms / MS_PER_S
        self._last_batch_s = time.monotonic()
        self._batches = 0
        self._ends: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def start(self) -> None:
        """Write a tick and start the thread."""
        self._ticks.tick()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join()

    def wake(self) -> None:
        """Trigger a batch."""
        self._ticks.tick()

    def record_batch(self) -> None:
        """Record the end of a batch."""
        self._last_batch_s = time.monotonic()
        self._batches += 1
        if self._batches <= _WARM_BATCHES:
            self._ticks.tick()

    def lag(self, end_offsets: Mapping[str, int]) -> int | None:
        """The number of transactions after these offsets, at most a second old. None while unknown.

        It includes the transactions that a producer's open transaction hides from the batches.
        """
        ends = self._ends
        if not ends:
            return None
        return sum(max(0, end - end_offsets.get(partition, 0)) for partition, end in ends.items())

    def _run(self) -> None:
        while not self._stop.wait(min(_POLL_S, self._tick_s / 4)):
            try:
                self._tick_if_due()
            except Exception:  # noqa: BLE001 - without this thread an idle detector runs no batch and counts as stalled
                _log.exception("the ticker has failed and retries in a second")

    def _tick_if_due(self) -> None:
        if time.monotonic() - self._last_batch_s >= self._tick_s:
            self._last_batch_s = time.monotonic()
            self._ticks.tick()
        self._read_ends()

    def _read_ends(self) -> None:
        try:
            places = {self._transactions: self._reader.partitions(self._transactions)}
            self._ends = self._reader.written(places)[self._transactions]
        except BrokerUnavailable:
            self._ends = {}  # only the display of lag needs the ends; the batch itself reports the outage
