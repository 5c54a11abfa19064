"""Single records on librdkafka's own stand-in for a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka import record_writer
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.record_writer import append_records
from tests.support.ports import free_ports


def cluster(**settings: int) -> Iterator[KafkaConnection]:
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0, **settings})
    (broker,) = host.list_topics(timeout=30).brokers.values()
    yield KafkaConnection(f"{broker.host}:{broker.port}")
    host.flush(0)


@pytest.fixture
def kafka() -> Iterator[KafkaConnection]:
    yield from cluster()


@pytest.fixture
def slow_kafka() -> Iterator[KafkaConnection]:
    """Each answer takes 300 ms."""
    yield from cluster(**{"test.mock.broker.rtt": 300})


def test_records_are_appended_in_order(kafka: KafkaConnection) -> None:
    records = [(b"rule", b"%d" % number) for number in range(100)]
    assert append_records(kafka, "rules", records) == list(range(100))
    assert append_records(kafka, "rules", records[:1]) == [100]
    assert append_records(kafka, "rules", []) == []


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_writer, "_TOPIC_S", 0.1)
    (port,) = free_ports(1)
    with pytest.raises(BrokerUnavailable, match=f"no record written to rules at 127.0.0.1:{port}: "):
        append_records(KafkaConnection(f"127.0.0.1:{port}"), "rules", [(b"key", b"value")])


class Topics:
    """A producer's view of the topics: an error for so many questions, then the topic."""

    def __init__(self, errors: int, code: int = KafkaError.UNKNOWN_TOPIC_OR_PART) -> None:
        self.topics = {"rules": self}
        self._errors = errors
        self._code = code

    def list_topics(self, topic: str, timeout: float) -> Topics:
        self._errors -= 1
        return self

    @property
    def error(self) -> KafkaError | None:
        return KafkaError(self._code) if self._errors >= 0 else None


def test_a_new_topic_is_awaited_and_a_missing_one_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = KafkaConnection("a:1")
    record_writer._require(Topics(2), "rules", kafka)
    monkeypatch.setattr(record_writer, "_TOPIC_S", 0.2)
    with pytest.raises(BrokerUnavailable, match="there is no topic rules at a:1: create the topics first"):
        record_writer._require(Topics(1_000), "rules", kafka)
    with pytest.raises(BrokerUnavailable, match="no ACL allows this client to use topic rules"):
        record_writer._require(Topics(1_000, KafkaError.TOPIC_AUTHORIZATION_FAILED), "rules", kafka)


def test_records_that_are_not_accepted_in_time_are_counted(slow_kafka: KafkaConnection) -> None:
    with pytest.raises(BrokerUnavailable, match="0 of 1 records written to rules at "):
        append_records(slow_kafka, "rules", [(b"key", b"value")], timeout_s=0.05)
