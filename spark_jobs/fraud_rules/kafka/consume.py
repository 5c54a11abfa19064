"""Reads whole topics, and follows several topics as they grow. Only committed records are visible."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from fraud_rules.errors import BrokerUnavailable, TransactionOpen
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reader import (
    LEADER_CHANGES,
    Record,
    TopicReader,
    available_messages,
    consumer_of,
    describe,
    record_of,
)
from fraud_rules.kafka.unread import open_transaction_at
from fraud_rules.runtime import clock
from fraud_rules.runtime.retry import wait_for

_PATIENCE_S = 30.0
_SETTLING_S = 90.0
"""More than the 60 s after which the broker aborts a transaction of this product."""
_METADATA_TIMEOUT_S = 5.0
_SETTLING_POLL_S = 0.02
_IDLE_POLL_S = 0.1
_EMPTY_MS = 500
"""How long the broker waits for a record before it answers without one."""
_GATHERED_BYTES = 1_048_576
"""The broker answers at once if it has as many bytes."""
_REMEDY = "repeat this later, and end the producer if it hangs (docs/runbooks/hung-producer.md)"
_TRANSIENT = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    *LEADER_CHANGES,
)


ReachedEnd = Callable[[str, int, int], object]
"""Receives a topic, a partition, and the offset below which all visible records were yielded. Markers of transactions
and aborted records occupy offsets, but are never yielded."""


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """A record with the time at which this process received it, in epoch ms."""

    topic: str
    partition: int
    record: Record
    received_ms: int


def read_topic(kafka: KafkaConnection, topic: str, *, settled: bool = False) -> dict[int, list[Record]]:
    """All current committed records, by partition. Raises BrokerUnavailable.

    With `settled`, all records that were written before this call. Raises TransactionOpen then, see `settled_ends`.
    """
    with TopicReader(kafka, topic) as reader:
        ends = ends_of(reader, settled=settled)
        return {partition: list(reader.read(*places, partition)) for partition, places in ends.items()}


def ends_of(reader: TopicReader, *, settled: bool) -> dict[int, tuple[int, int]]:
    """The first offset and the end of each partition: the `settled_ends`, or the ends of the visible records."""
    return settled_ends(reader) if settled else {at: reader.ends(at) for at in reader.partitions()}


def tail_of(kafka: KafkaConnection, topic: str, count: int, end: int | None = None) -> list[Record]:
    """The records in the last `count` offsets below `end` (default: the current end) of a one-partition topic.

    There may be fewer than `count` records, because transaction markers occupy offsets. Raises BrokerUnavailable.
    """
    with TopicReader(kafka, topic) as reader:
        reader.partitions()
        first, newest = reader.ends()
        until = newest if end is None else end
        return list(reader.read(max(first, until - count), until))


def topic_ends(kafka: KafkaConnection, topic: str) -> dict[int, int]:
    """The offset after the last committed record, by partition. Raises BrokerUnavailable."""
    with TopicReader(kafka, topic) as reader:
        return {partition: reader.ends(partition)[1] for partition in reader.partitions()}


def topic_starts(kafka: KafkaConnection, topic: str) -> dict[int, int]:
    """The first offset that Kafka still holds, by partition. Raises BrokerUnavailable."""
    with TopicReader(kafka, topic) as reader:
        return {partition: reader.ends(partition)[0] for partition in reader.partitions()}


def await_settled(kafka: KafkaConnection, topics: Iterable[str]) -> None:
    """Wait until every record that was written to these topics is committed or aborted. See `settled_ends`."""
    for topic in topics:
        with TopicReader(kafka, topic) as reader:
            settled_ends(reader)


def settled_ends(reader: TopicReader, within_s: float = _SETTLING_S) -> dict[int, tuple[int, int]]:
    """The first offset and the end of each partition, once all records that were written before this call are committed
    or aborted.

    A read that decides about a write uses these ends, and no others. An open transaction hides all records that were
    committed after it began, also those of other programs, so a reader could act on an old record. A transaction also
    ends in each of its partitions separately, shortly after the writer's commit returns. The broker aborts a
    transaction that its writer left open. Raises TransactionOpen if that takes longer than `within_s`, and
    BrokerUnavailable.
    """
    partitions = reader.partitions()
    if not partitions:
        return {}
    ends_by_text = TopicEnds(reader.kafka).written({reader.topic: partitions})[reader.topic]
    written = {int(partition): end for partition, end in ends_by_text.items()}

    def settled() -> dict[int, tuple[int, int]] | None:
        ends = {partition: reader.ends(partition) for partition in partitions}
        return ends if all(ends[partition][1] >= end for partition, end in written.items()) else None

    def timed_out() -> TransactionOpen:
        ends = {partition: reader.ends(partition)[1] for partition in partitions}
        open_at = {partition: end for partition, end in ends.items() if end < written[partition]}
        where = "; ".join(_describe_open(reader, *place) for place in open_at.items()) or reader.topic
        return TransactionOpen(f"{where}; waited {within_s:g} s for its end: {_REMEDY}")

    return settled() or wait_for(settled, within_s=within_s, every_s=_SETTLING_POLL_S, timed_out=timed_out)


def _describe_open(reader: TopicReader, partition: int, end: int) -> str:
    found = open_transaction_at(reader.kafka, reader.topic, partition, end)
    if found is None:
        return f"a transaction hid the records of {reader.topic}-{partition} from offset {end} on"
    return found.describe(clock.now_ms())


def follow(
    kafka: KafkaConnection,
    starts: Mapping[str, Mapping[int, int]],
    *,
    goes_on: Callable[[], bool],
    poll_s: float = _IDLE_POLL_S,
    gather_ms: int = 0,
    reached: ReachedEnd | None = None,
    clock_s: Callable[[], float] = time.monotonic,
) -> Iterator[ReceivedRecord | None]:
    """Yield records as they become visible, from start offsets by topic and partition, while `goes_on` returns True.

    Yield None after `poll_s` without a record, and then every 0.1 s. Records arrive up to `gather_ms` late, so that a
    busy topic does not cost a request for each transaction. Call `reached` whenever all visible records of a
    partition were yielded. Raise BrokerUnavailable if an outage of the broker lasts longer than 30 s.
    """
    absence = _Absence(kafka, clock_s)
    consumer = consumer_of(
        kafka,
        {
            "error_cb": absence.fails,  # the client reports an outage only to this callback
            "enable.partition.eof": reached is not None,
            "reconnect.backoff.max.ms": 500,
            "fetch.wait.max.ms": gather_ms or _EMPTY_MS,
            "fetch.min.bytes": _GATHERED_BYTES if gather_ms else 1,
        },
    )
    try:
        consumer.assign([TopicPartition(topic, *place) for topic, places in starts.items() for place in places.items()])
        yield from _received(consumer, goes_on, poll_s, absence, reached)
    except KafkaException as error:
        raise BrokerUnavailable(f"Kafka at {kafka}: {describe(error)}") from error
    finally:
        consumer.close()


def _received(
    consumer: Consumer,
    goes_on: Callable[[], bool],
    poll_s: float,
    absence: _Absence,
    reached: ReachedEnd | None,
) -> Iterator[ReceivedRecord | None]:
    records = True
    while goes_on():
        messages = available_messages(consumer, poll_s if records else _IDLE_POLL_S)
        now_ms, records = clock.now_ms(), False
        for message in messages:
            topic, partition = str(message.topic()), int(message.partition() or 0)
            if reached is not None and _is_end(message):
                reached(topic, partition, int(message.offset() or 0))
            elif _is_record(message):
                records = True
                yield ReceivedRecord(topic, partition, record_of(message), now_ms)
        absence.check(consumer, records=records)
        if not records:
            yield None


class _Absence:
    """Measures an outage. It begins with the first connection error after the last answer of a broker."""

    def __init__(self, kafka: KafkaConnection, clock_s: Callable[[], float]) -> None:
        self._kafka = kafka
        self._clock_s = clock_s
        self._since_s: float | None = None

    def fails(self, error: KafkaError) -> None:
        """Record that the client cannot reach a broker."""
        if self._since_s is None and error.code() in _TRANSIENT:
            self._since_s = self._clock_s()

    def check(self, consumer: Consumer, *, records: bool) -> None:
        """Raise BrokerUnavailable if the outage lasts too long. Received `records` end an outage."""
        if records:
            self._since_s = None
        if self._since_s is not None and self._clock_s() - self._since_s > _PATIENCE_S:
            self._request_metadata(consumer)
            self._since_s = None

    def _request_metadata(self, consumer: Consumer) -> None:
        """Request metadata, because on a quiet topic no record shows that the brokers are back."""
        try:
            consumer.list_topics(timeout=_METADATA_TIMEOUT_S)
        except KafkaException as error:
            raise BrokerUnavailable(f"Kafka at {self._kafka} has not answered for {_PATIENCE_S:g} s") from error


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def _is_record(message: Message) -> bool:
    """Whether the message is a record. Raises KafkaException for an error that is not transient."""
    error = message.error()
    if error is not None and error.code() not in _TRANSIENT:
        raise KafkaException(error)
    return error is None
