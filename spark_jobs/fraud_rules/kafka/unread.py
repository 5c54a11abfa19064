"""Measures the records of a topic that a reader has not read yet."""

from __future__ import annotations

from dataclasses import dataclass

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader

__all__ = ["Unread", "read_unread"]


@dataclass(frozen=True, slots=True)
class Unread:
    """The committed end of a topic, and the append time of its first unread record, None if there is none.

    Transaction markers occupy offsets, so the position of a reader that has read every record may be below the end.
    """

    end: int
    since_ms: int | None


def read_unread(kafka: KafkaConnection, topic: str, position: int) -> Unread:
    """The unread records of partition 0 from a position on. Raises BrokerUnavailable."""
    with TopicReader(kafka, topic) as reader:
        first, end = reader.ends()
        record = next(reader.read(max(first, position), end), None)
    return Unread(end, None if record is None else record.append_ms)
