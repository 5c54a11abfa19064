"""Up to which time the archive has all transactions: an open transaction hides them from a reader."""

from __future__ import annotations

from typing import Final

from fraud_rules.errors import TransactionOpen
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import settled_ends
from fraud_rules.kafka.reader import TopicReader, first_uncommitted

_WITHIN_S: Final = 30.0


def readable_until(kafka: KafkaConnection, topic: str, started_ms: int, within_s: float = _WITHIN_S) -> tuple[int, str]:
    """The time before which all records of a topic can be read now, at most `started_ms`, and the reason if it is less.

    Waits for open transactions, because most of them end at once. Raises BrokerUnavailable.
    """
    with TopicReader(kafka, topic) as reader:
        try:
            settled_ends(reader, within_s)
        except TransactionOpen as error:
            hidden = [first_uncommitted(kafka, topic, at, reader.ends(at)[1]) for at in reader.partitions()]
            return min([started_ms, *(each.append_ms for each in hidden if each is not None)]), str(error)
    return started_ms, ""
