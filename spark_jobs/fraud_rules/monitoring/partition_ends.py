"""Reads the current end offsets of `transactions`, to count the waiting payments."""

from __future__ import annotations

from fraud_rules.kafka.reader import TopicReader
from fraud_rules.monitoring.liveness import AMBER_MS, PartitionEnds

__all__ = ["read_partition_ends"]


def read_partition_ends(reader: TopicReader, now_ms: int) -> dict[int, PartitionEnds]:
    """The ends by partition. Raises BrokerUnavailable."""
    return {partition: _ends(reader, partition, now_ms) for partition in reader.partitions()}


def _ends(reader: TopicReader, partition: int, now_ms: int) -> PartitionEnds:
    first, end = reader.ends(partition)
    later = reader.offset_at(now_ms - AMBER_MS, partition)
    return PartitionEnds(first, end, end if later is None else min(later, end))
