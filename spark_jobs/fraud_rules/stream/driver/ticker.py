"""Keeps an idle detector awake, and knows how far the topics have grown.

Without records Spark begins no batch. A thread of the driver sees to it that one begins at the start, and then whenever
none has ended for `tick_ms`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.ticks import TickWriter

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_WARM_BATCHES = 30
"""A JVM that has just started takes several times as long for a batch: the first of them are run before they matter."""

_MS_A_S = 1_000


class Pulse:
    """A daemon thread. `transactions` is a reader of its own."""

    def __init__(self, ticks: TickWriter, transactions: TopicReader, tick_ms: int) -> None:
        self._ticks = ticks
        self._transactions = transactions
        self._tick_s = tick_ms / _MS_A_S
        self._beat = time.monotonic()
        self._batches = 0
        self._ends: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Tick once, and then when needed."""
        self._ticks.tick()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def beat(self) -> None:
        """A batch has ended."""
        self._beat = time.monotonic()
        self._batches += 1
        if self._batches <= _WARM_BATCHES:
            self._ticks.tick()

    def lag(self, end_offsets: Mapping[str, int]) -> int | None:
        """Transactions appended beyond these offsets, as of a second ago at most; None while unknown."""
        ends = self._ends
        if not ends:
            return None
        return sum(max(0, end - end_offsets.get(partition, 0)) for partition, end in ends.items())

    def _run(self) -> None:
        while not self._stop.wait(min(_LOOK_S, self._tick_s / 4)):
            try:
                self._turn()
            except Exception:  # noqa: BLE001 - without this thread an idle detector makes no batch and counts as stalled
                _log.exception("the ticker has failed; it tries again in a second")

    def _turn(self) -> None:
        if time.monotonic() - self._beat >= self._tick_s:
            self._beat = time.monotonic()
            self._ticks.tick()
        self._look()

    def _look(self) -> None:
        try:
            partitions = self._transactions.partitions()
            self._ends = {str(partition): self._transactions.ends(partition)[1] for partition in partitions}
        except BrokerUnavailable:
            self._ends = {}  # only the display of lag depends on it; the batch itself names what is wrong
