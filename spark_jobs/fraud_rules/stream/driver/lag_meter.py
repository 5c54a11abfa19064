"""Measures how many transactions no batch has read."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.runtime.lifetime import BackgroundWork

_log = logging.getLogger(__name__)

_POLL_S = 1.0


class LagMeter(BackgroundWork):
    """A daemon thread, which reads the ends of the transactions."""

    def __init__(self, ends: TopicEnds, transactions: str) -> None:
        """`ends` reads the ends of the topic `transactions`."""
        self._reader = ends
        self._transactions = transactions
        self._ends: dict[str, int] = {}
        super().__init__("lag")

    def lag(self, end_offsets: Mapping[str, int]) -> int | None:
        """The number of transactions after these offsets, at most a second old. None while unknown.

        It includes the transactions that a producer's open transaction hides from the batches.
        """
        ends = self._ends
        if not ends:
            return None
        return sum(max(0, end - end_offsets.get(partition, 0)) for partition, end in ends.items())

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            try:
                places = {self._transactions: self._reader.partitions(self._transactions)}
                self._ends = self._reader.written(places)[self._transactions]
            except BrokerUnavailable:
                self._ends = {}  # only the display of lag needs the ends; the batch itself reports the outage
            except Exception:  # noqa: BLE001 - without this thread the display of lag would be old
                _log.exception("the lag cannot be measured; the next attempt follows in a second")
