"""Reads the current ends of input topics, to count the waiting payments and to find those that a transaction hides."""

from __future__ import annotations

from collections.abc import Sequence

from fraud_rules.kafka.ends import TopicEnds
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
