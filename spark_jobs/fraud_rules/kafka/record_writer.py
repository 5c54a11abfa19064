"""Appends records to a log of one partition, in order: rules, intents, and what else is decided one by one."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, describe

_TIMEOUT_S = 30.0


def append_records(kafka: KafkaConnection, topic: str, records: Sequence[tuple[bytes, bytes]]) -> list[int]:
    """Append (key, value) records and return their offsets, once the brokers have them.

    Raises BrokerUnavailable when there is no such topic, or the brokers do not take all in time: the first of them may
    be written then.
    """
    with TopicReader(kafka, topic) as reader:
        reader.partitions()  # a topic that is not there is named at once
    producer = Producer(
        kafka.confluent(
            {
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": int(_TIMEOUT_S * 1_000),
                "log_level": 2,
            }
        )
    )
    offsets: list[int] = []
    faults: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            faults.append(error)
        else:
            offsets.append(int(message.offset() or 0))

    try:
        for key, value in records:
            producer.produce(topic, value, key, partition=0, on_delivery=delivered)
        left = producer.flush(_TIMEOUT_S)
    except KafkaException as error:
        raise BrokerUnavailable(f"{topic} at {kafka}: {describe(error)}") from error
    if faults or left:
        said = faults[0].str() if faults else f"no answer in {_TIMEOUT_S:g} s"
        raise BrokerUnavailable(f"{len(offsets)} of {len(records)} records written to {topic} at {kafka}: {said}")
    return offsets
