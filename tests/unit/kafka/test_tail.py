"""How a tail reads on after an error of the client that passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka import tail
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record


class Event:
    """What the client returns: a record, the end of a partition, or an error of the connection, which has no topic."""

    def __init__(self, topic: str | None, offset: int | None, error: KafkaError | None = None) -> None:
        self.topic, self.offset, self.error = (lambda: topic), (lambda: offset), (lambda: error)
        self.key, self.value, self.headers = (lambda: None), (lambda: b"{}"), (lambda: None)
        self.timestamp = lambda: (2, 1)


def read(events: list[Event], monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Read a topic with three offsets, of which the last one is the end of a transaction."""
    rest: Iterator[Event] = iter(events)
    monkeypatch.setattr(tail, "available_messages", lambda consumer, timeout_s: [next(rest)])
    found: dict[str, list[Record]] = {"rules": []}
    with tail.TopicsTail(KafkaConnection("127.0.0.1:1"), {"rules": None}) as each:
        each._read({"rules": 3}, found)
    return found["rules"]


def test_it_reads_on_after_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, end = Event(None, None, KafkaError(KafkaError._TRANSPORT)), KafkaError(KafkaError._PARTITION_EOF)
    events = [lost, Event("rules", 0), lost, Event("rules", 1), Event("rules", 3, end)]
    assert [record.offset for record in read(events, monkeypatch)] == [0, 1]


def test_it_names_any_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerUnavailable, match=r"^rules at 127\.0\.0\.1:1"):
        read([Event("rules", 0), Event("rules", 1, error)], monkeypatch)
