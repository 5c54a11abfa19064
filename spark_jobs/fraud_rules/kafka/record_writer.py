"""Appends single records, such as rules and intents, to a log of one partition, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection

if TYPE_CHECKING:
    from kafka import KafkaProducer

_TIMEOUT_S = 30.0
_TOPIC_S = 5.0
_CLOSE_S = 5.0


def append_records(kafka: KafkaConnection, topic: str, records: Sequence[tuple[bytes, bytes]]) -> list[int]:
    """Append (key, value) records and return their offsets, once the brokers have them.

    Raises BrokerUnavailable if the topic is missing, or if the brokers do not accept all records in time. Then the
    first records may be written.
    """
    # Imported here, because kafka-python takes longer to load than all the rest of a DAG file.
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    offsets: list[int] = []
    try:
        # kafka-python connects faster, which matters for few records: confluent-kafka waits 0.5 s for a producer id.
        producer = KafkaProducer(
            **kafka.kafka_python(),
            enable_idempotence=True,
            acks="all",
            delivery_timeout_ms=int(_TIMEOUT_S * 1_000),
            max_block_ms=int(_TOPIC_S * 1_000),
        )
        try:
            _require(producer, topic, kafka)
            sent = [producer.send(topic, value, key, partition=0) for key, value in records]
            offsets.extend(each.get(_TIMEOUT_S).offset for each in sent)
        finally:
            producer.close(timeout=_CLOSE_S)
    except KafkaError as error:
        said = f"{len(offsets)} of {len(records)} records written to {topic} at {kafka}"
        raise BrokerUnavailable(f"{said}: {error or type(error).__name__}") from error
    return offsets


def _require(producer: KafkaProducer, topic: str, kafka: KafkaConnection) -> None:
    """Raise BrokerUnavailable if the topic is missing. The client would only report a timeout."""
    from kafka.errors import KafkaTimeoutError

    try:
        producer.partitions_for(topic)
    except KafkaTimeoutError as error:
        said = f"there is no topic {topic} at {kafka}: create the topics first (fraud topics apply)"
        raise BrokerUnavailable(said) from error
