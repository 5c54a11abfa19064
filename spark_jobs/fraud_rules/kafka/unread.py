"""How much of a topic a reader has not read."""

from __future__ import annotations

from dataclasses import dataclass

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader

__all__ = ["Unread", "read_unread"]


@dataclass(frozen=True, slots=True)
class Unread:
    """The committed end of a topic, and the append time of the first record that is not read; None without one.

    The markers of transactions take offsets, so a reader that has read every record may stand below the end.
    """

    end: int
    since_ms: int | None


def read_unread(kafka: KafkaConnection, topic: str, position: int) -> Unread:
    """What partition 0 of a topic has from an offset on. Raises BrokerUnavailable."""
    with TopicReader(kafka, topic) as reader:
        first, end = reader.ends()
        record = next(reader.read(max(first, position), end), None)
    return Unread(end, None if record is None else record.append_ms)
