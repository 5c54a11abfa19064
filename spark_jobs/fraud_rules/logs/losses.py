"""Compares the offsets at which a detector continues with the offsets that the topics still hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.model.lost_records import LossReason, LostRecords, Offsets


def find_losses(kafka: KafkaConnection, starts: Offsets, topic: str, *, recreated: bool) -> list[LostRecords]:
    """The records of a topic from `starts` on that cannot be read.

    `recreated` means that the topic was deleted and created again, so that its old offsets are invalid. Raises
    BrokerUnavailable.
    """
    with TopicReader(kafka, topic) as reader:
        kept = {partition: reader.ends(partition) for partition in reader.partitions()}
    known = {int(partition): offset for partition, offset in starts.get(topic, {}).items()}
    return list(_of_recreated(topic, known, kept) if recreated else _of_same(topic, known, kept))


def _of_recreated(topic: str, known: Mapping[int, int], kept: Mapping[int, tuple[int, int]]) -> Iterator[LostRecords]:
    for partition in sorted(known.keys() | kept.keys()):
        end = kept[partition][0] if partition in kept else None
        yield LostRecords(topic, partition, known.get(partition, 0), end, LossReason.RECREATED)


def _of_same(topic: str, known: Mapping[int, int], kept: Mapping[int, tuple[int, int]]) -> Iterator[LostRecords]:
    for partition, start in sorted(known.items()):
        if partition not in kept:
            continue  # Kafka never removes a partition of a topic
        first, last = kept[partition]
        if start < first:
            yield LostRecords(topic, partition, start, first, LossReason.REMOVED, first - start)
        elif start > last:
            yield LostRecords(topic, partition, start, last, LossReason.TRUNCATED)
