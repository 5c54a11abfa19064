"""Finds the open transactions that hide records of topics, and their producers."""

from __future__ import annotations

from collections.abc import Mapping

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.unread import open_transaction_at
from fraud_rules.model.open_transaction import OpenTransaction
from fraud_rules.monitoring.liveness import PartitionEnds


class OpenTransactions:
    """Keeps what it has found, so that it asks Kafka once for each transaction. One thread at a time may use it."""

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._known: dict[tuple[str, int, int], OpenTransaction] = {}

    def oldest(self, ends: Mapping[str, Mapping[int, PartitionEnds]]) -> OpenTransaction | None:
        """The oldest transaction that hides records by these ends; None without one. Raises BrokerUnavailable."""
        hidden = [
            (topic, partition, each.committed)
            for topic, places in ends.items()
            for partition, each in places.items()
            if each.is_hidden
        ]
        self._known = {place: known for place, known in self._known.items() if place in hidden}
        for place in hidden:
            if place not in self._known and (found := open_transaction_at(self._kafka, *place)) is not None:
                self._known[place] = found
        return min(self._known.values(), key=lambda each: each.since_ms, default=None)
