"""Appends single records, such as rules and intents, to one partition of a log, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.retry import wait_for

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_TIMEOUT_S = 30.0
_TOPIC_S = 5.0
_MAX_RECORD_BYTES = 8_388_608
_LOOK_S = 0.1
_SLACK_S = 5.0


def append_records(
    kafka: KafkaConnection,
    topic: str,
    records: Sequence[tuple[bytes | None, bytes]],
    headers: Sequence[tuple[str, bytes]] = (),
    partition: int = 0,
    producer: Producer | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> list[int]:
    """Append (key, value) records, each with the `headers`, and return their offsets, once the brokers have them.

    librdkafka asks for a producer id in steps of 0.5 s, so the first record takes about that long, unless the caller
    keeps a `producer` of `idempotent_producer`. kafka-python asks at once, but takes as long to import.

    Raises BrokerUnavailable if the topic is missing, or if the brokers do not accept all records in time. Then the
    first records may be written.
    """
    offsets: list[int] = []
    faults: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            offsets.append(int(message.offset() or 0))
        else:
            faults.append(error)

    producer = producer or idempotent_producer(kafka, timeout_s)
    _require(producer, topic, kafka)
    for key, value in records:
        producer.produce(topic, value, key, partition=partition, headers=list(headers), on_delivery=delivered)
    producer.flush(timeout_s + _SLACK_S)
    if len(offsets) < len(records):
        said = faults[0].str() if faults else f"no answer within {timeout_s:g} s"
        raise BrokerUnavailable(f"{len(offsets)} of {len(records)} records written to {topic} at {kafka}: {said}")
    return offsets


def idempotent_producer(kafka: KafkaConnection, timeout_s: float = _TIMEOUT_S) -> Producer:
    """A producer that writes no record twice, however often it retries."""
    from confluent_kafka import Producer

    return Producer(
        kafka.confluent(
            {
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": int(timeout_s * 1_000),
                "linger.ms": 0,
                "message.max.bytes": _MAX_RECORD_BYTES,
                "log_level": 0,
                "error_cb": _ignore,
            }
        )
    )


def _require(producer: Producer, topic: str, kafka: KafkaConnection) -> None:
    """Raise BrokerUnavailable if the topic is missing. A send would only report a timeout.

    A broker learns of a new topic a little after its creation, so ask for some seconds.
    """
    from confluent_kafka import KafkaException

    from fraud_rules.kafka.reader import topic_fault

    faults: list[KafkaError] = []

    def is_known() -> bool:
        faults[:] = filter(None, [producer.list_topics(topic, timeout=_TOPIC_S).topics[topic].error])
        return not faults

    def missing() -> BrokerUnavailable:
        return BrokerUnavailable(topic_fault(f"{topic} at {kafka}", faults[0]))

    try:
        if not is_known():
            wait_for(is_known, within_s=_TOPIC_S, every_s=_LOOK_S, timed_out=missing)
    except KafkaException as error:
        raise BrokerUnavailable(f"no record written to {topic} at {kafka}: {error.args[0].str()}") from error


def _ignore(error: Any) -> None:
    """Keep librdkafka from printing errors that the caller gets anyway."""
