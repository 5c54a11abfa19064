"""Write and read whole topics in tests."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.waiting import until

_TIMEOUT_S = 30.0


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    partition: int = 0,
    key: bytes | None = None,
    at_ms: int = 0,
) -> None:
    """Append records to one partition in order and return once the broker has stored them all.

    `at_ms` is their timestamp in topics with producer timestamps (CreateTime); 0 means the present.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            # One request at a time keeps the order. An idempotent client would ask for its id in steps of 0.5 s.
            "acks": "all",
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 1,
            "message.max.bytes": 20_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    faults: list[object] = []
    for value in values:
        producer.produce(
            topic,
            value,
            key,
            partition=partition,
            timestamp=at_ms,
            on_delivery=lambda error, _: error and faults.append(error),
        )
        producer.poll(0)
    left = producer.flush(_TIMEOUT_S)
    assert not faults, faults[:3]
    assert left == 0, f"{left} records not delivered in {_TIMEOUT_S} s"


def read_all(bootstrap: str, topic: str, *, committed: bool = True) -> list[Message]:
    """Read every record up to the present end, one partition after the other; `committed` excludes aborted records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-all",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)
        return [message for partition in partitions for message in _partition(consumer, topic, partition)]
    finally:
        consumer.close()


def _ends(consumer: Consumer, place: TopicPartition) -> tuple[int, int] | None:
    try:
        return consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
            raise
        return None


def _partition(consumer: Consumer, topic: str, partition: int) -> list[Message]:
    first, end = until(lambda: _ends(consumer, TopicPartition(topic, partition)), "the partition has a leader")
    consumer.assign([TopicPartition(topic, partition, first)])
    messages: list[Message] = []
    reached = first
    while reached < end:
        message = consumer.poll(_TIMEOUT_S)
        assert message is not None, f"{topic}-{partition} gives no record before {end} in {_TIMEOUT_S} s"
        error, offset = message.error(), message.offset()
        if error is None:
            messages.append(message)
        elif error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        # Transaction markers use offsets but are never delivered. Only the event at the end of the log shows them.
        reached = (offset or 0) + (error is None)
    return messages
