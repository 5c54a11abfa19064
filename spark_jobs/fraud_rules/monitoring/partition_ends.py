"""Reads the current ends of topics, to count the waiting payments and to find the transactions that hide records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.unread import open_transaction_at
from fraud_rules.model.open_transaction import OpenTransaction
from fraud_rules.monitoring.liveness import AMBER_MS, PartitionEnds


def read_partition_ends(ends: TopicEnds, topics: Sequence[str], now_ms: int) -> dict[str, dict[int, PartitionEnds]]:
    """The ends by topic and partition. `now_ms` is the broker's time. Raises BrokerUnavailable."""
    places = {topic: ends.partitions(topic) for topic in topics}
    first, written = ends.first(places), ends.written(places)
    # The committed end is read later. So if it is lower, a transaction was open in between.
    committed, late = ends.committed(places), ends.since(places, now_ms - AMBER_MS)
    return {
        topic: {
            int(at): PartitionEnds(
                first[topic][at], end, min(late[topic].get(at, end), end), min(committed[topic][at], end)
            )
            for at, end in found.items()
        }
        for topic, found in written.items()
    }


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
