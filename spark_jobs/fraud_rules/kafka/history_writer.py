"""Sends past transactions to the detector in order: all to one partition, each once.

A detector reads the partitions of a topic in parallel and sorts a batch by append time, partition and offset. Past
transactions arrive thousands of times faster than they happened, so a short lag between partitions is hours of event
time. Only the order within one partition holds for every division into batches.

The header of each record names its load and its position. An interrupted load continues after its last record in the
topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import settled_ends
from fraud_rules.kafka.reader import TopicReader, describe
from fraud_rules.kafka.writer import MAX_RECORD_BYTES

LOAD_PARTITION: Final = 0
_HEADER: Final = "load"
_LOOKED_BACK: Final = 10_000
_FLUSH_S: Final = 120.0
_POLL_EVERY: Final = 1_000


def loaded_records(kafka: KafkaConnection, topic: str, load: str) -> int:
    """The number of records of a load in the topic, by its newest record near the end. Raises TransactionOpen,
    BrokerUnavailable."""
    count = 0
    with TopicReader(kafka, topic) as reader:
        first, end = settled_ends(reader)[LOAD_PARTITION]
        for record in reader.read(max(first, end - _LOOKED_BACK), end, LOAD_PARTITION):
            name, _, position = (dict(record.headers).get(_HEADER) or b"").decode("utf-8", "replace").rpartition(":")
            if name == load and position.isdecimal():
                count = int(position) + 1
    return count


def send_history(kafka: KafkaConnection, topic: str, load: str, records: Iterator[tuple[int, bytes]]) -> int:
    """Append (position, record) pairs in order and return their number.

    Raises BrokerUnavailable; another call then sends the rest.
    """
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        kafka.confluent(
            {
                "enable.idempotence": True,  # keeps the order over retries
                "linger.ms": 20,
                "message.max.bytes": MAX_RECORD_BYTES,
                "queue.buffering.max.messages": 100_000,
                "log_level": 2,
            }
        )
    )
    count = 0
    try:
        for count, (position, record) in enumerate(records, 1):
            headers: list[tuple[str, str | bytes | None]] = [(_HEADER, f"{load}:{position}".encode())]
            while not failed:
                try:
                    producer.produce(topic, record, partition=LOAD_PARTITION, headers=headers, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            if count % _POLL_EVERY == 0:
                producer.poll(0)
            if failed:
                break
        left = producer.flush(_FLUSH_S)
    except KafkaException as error:
        raise BrokerUnavailable(f"Kafka at {kafka}: {describe(error)}") from error
    if failed or left:
        why = failed[0].str() if failed else f"{left} records not delivered in {_FLUSH_S:g} s"
        raise BrokerUnavailable(f"Kafka at {kafka} did not accept all records ({why}): repeat the command for the rest")
    return count
