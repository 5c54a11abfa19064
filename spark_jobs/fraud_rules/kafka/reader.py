"""Reads records, end offsets and ids of topics, and maps the client's errors to this product's errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec  # type: ignore[attr-defined] # stub

from fraud_rules.codec.transactions.codec import NO_APPEND_TIME
from fraud_rules.errors import BrokerUnavailable, OffsetsLost
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.lifetime import Closing
from fraud_rules.runtime.retry import retried

_TIMEOUT_S = 15.0
_POLL_S = 0.2
_FIRST_S = 5.0
_MAX_MESSAGES = 1_000
_PIECE_RECORDS: Final = 50_000
_PIECE_BYTES: Final = 67_108_864
LEADER_CHANGES: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
"""The errors of a partition whose leader is new, or not elected yet: after its creation, or after a broker's start."""
_QUIET = {"log_level": 2}
_T = TypeVar("_T")
_NEWEST, _END = OffsetSpec.max_timestamp(), OffsetSpec.latest()  # type: ignore[no-untyped-call]


def partitions_of(kafka: KafkaConnection, client: Consumer | AdminClient, topic: str) -> list[int]:
    """The partitions of a topic, sorted. Raises BrokerUnavailable."""
    with mapped_errors(kafka):
        metadata = client.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
    if metadata.error is not None:
        raise BrokerUnavailable(topic_fault(topic, metadata.error))
    return sorted(metadata.partitions)


def topic_fault(topic: str, error: KafkaError) -> str:
    """Why a client cannot use a topic, from the error in its metadata, and the remedy."""
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"no ACL allows this client to use topic {topic} (fraud kafka acls print)"
    if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        return f"topic {topic} cannot be used: {error.str()}"
    return f"there is no topic {topic}: create the topics first (fraud kafka topics apply)"


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `append_ms` is the broker's time, because the topics have append timestamps."""

    offset: int
    append_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class TopicReader(Closing):
    """Reads committed records of one topic, in one thread at a time. Every method can raise BrokerUnavailable."""

    def __init__(self, kafka: KafkaConnection, topic: str) -> None:
        self.kafka = kafka
        self.topic = topic
        # Once 100,000 records wait in the client, it would fetch nothing for a second.
        self._consumer = consumer_of(kafka, {"fetch.queue.backoff.ms": 10})

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def partitions(self) -> list[int]:
        """The topic's partitions."""
        return partitions_of(self.kafka, self._consumer, self.topic)

    def ends(self, partition: int = 0) -> tuple[int, int]:
        """The first offset that Kafka still holds, and the offset after the last committed record."""
        with mapped_errors(self.kafka):
            ends = watermarks(self._consumer, TopicPartition(self.topic, partition))
        if ends is None:
            raise BrokerUnavailable(f"Kafka at {self.kafka} does not report the end of {self.topic}-{partition}")
        return int(ends[0]), int(ends[1])

    def offset_at(self, append_ms: int, partition: int = 0) -> int | None:
        """The first offset with this append time (epoch ms) or a later one. None if no record has one.

        A time before 1970 is before all records. Kafka has other meanings for negative times, or an error.
        """
        with mapped_errors(self.kafka):
            (found,) = _offsets_at(self._consumer, [TopicPartition(self.topic, partition, max(0, append_ms))])
        return int(found.offset) if found.offset >= 0 else None

    def read(self, start: int, end: int, partition: int = 0) -> Generator[Record]:
        """Yield the records with offsets in [start, end), in order. Offsets may have gaps.

        Raises BrokerUnavailable also if the end is not reached in time, for example because the log is shorter.
        """
        for message in self.read_ranges({partition: (start, end)}):
            yield record_of(message)

    def read_ranges(self, ranges: Mapping[int, tuple[int, int]]) -> Generator[Message]:
        """Yield the records of several partitions, each with offsets in [start, end) and in its own order.

        Raises the errors of `read`, and OffsetsLost if Kafka has removed a start.
        """
        ends = {partition: end for partition, (start, end) in ranges.items() if start < end}
        if not ends:
            return
        places = [TopicPartition(self.topic, partition, ranges[partition][0]) for partition in ends]
        with mapped_errors(self.kafka):
            self._consumer.assign(places)
        try:
            yield from self._read_to(ends)
        finally:
            self._consumer.unassign()  # otherwise the client continues to fetch

    def _read_to(self, ends: dict[int, int]) -> Iterator[Message]:
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            with mapped_errors(self.kafka):
                messages = available_messages(self._consumer, _POLL_S)
            for message in messages:
                end = ends.get(_partition(message), 0)  # 0: this partition is read
                if message.error() is None and _offset(message) < end:
                    yield message
                if self._is_last(message, end):
                    ends.pop(_partition(message), None)
            if not ends:
                return
            if any(message.error() is None for message in messages):
                deadline = time.monotonic() + _TIMEOUT_S  # the caller's time for the records does not count
        raise self._unread(*min(ends.items()))

    def _unread(self, partition: int, end: int) -> BrokerUnavailable:
        """Why a partition could not be read up to an offset. Raises BrokerUnavailable if Kafka does not answer."""
        _, found = self.ends(partition)
        place = f"cannot read {self.topic}-{partition} up to offset {end}"
        if found < end:
            return BrokerUnavailable(
                f"{place}: its committed records end at {found}; a transaction is open, or the topic was truncated"
            )
        return BrokerUnavailable(
            f"{place}: Kafka at {self.kafka} has the records, but sent none for {_TIMEOUT_S:g} s; "
            "the broker or the network is too slow"
        )

    def _is_last(self, message: Message, end: int) -> bool:
        """Whether this message is the last one below `end`."""
        error = message.error()
        if error is None:
            return _offset(message) >= end - 1
        if error.code() == KafkaError._PARTITION_EOF:
            return _offset(message) >= end
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return False
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            place = f"{self.topic}-{_partition(message)}"
            raise OffsetsLost(
                f"records of {place} are gone before they were read: {error.str()}; the next start names them"
            )
        raise BrokerUnavailable(f"{self.topic} at {self.kafka}: {error.str()}")


def consumer_of(kafka: KafkaConnection, further: Mapping[str, str | int | bool | Callable[..., None]]) -> Consumer:
    """A client that reads committed records. `further` are more settings of librdkafka."""
    return Consumer(
        kafka.confluent(
            {
                "group.id": "fraud-rules",  # required by the client; no offset is ever committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                **_QUIET,
                **further,
            }
        )
    )


def pieces(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Split messages into lists with a bounded number of records and bytes."""
    piece: list[Message] = []
    size = 0
    for message in messages:
        piece.append(message)
        size += len(message)
        if len(piece) >= _PIECE_RECORDS or size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def append_ms_of(message: Message, *, producer_times: bool) -> int:
    """The time at which the broker appended a record. `NO_APPEND_TIME` if its timestamp is its producer's, unless the
    settings accept `producer_times`."""
    kind, at_ms = message.timestamp()
    return at_ms if kind == TIMESTAMP_LOG_APPEND_TIME or producer_times else NO_APPEND_TIME


def available_messages(consumer: Consumer, timeout_s: float) -> list[Message]:
    """The available messages, or the first one within `timeout_s`.

    A plain `consume(n)` would wait for all n messages.
    """
    first = consumer.consume(1, timeout=timeout_s)
    return first + consumer.consume(_MAX_MESSAGES, timeout=0) if first else first


def watermarks(consumer: Consumer, place: TopicPartition) -> tuple[int, int] | None:
    """The first offset and the committed end. Raises KafkaException."""
    return with_leader(lambda: consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S))


def committed_ends(consumer: Consumer, places: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The offsets after the last committed records of partitions, in their order, with one request to each broker.

    Raises KafkaException.
    """
    return _offsets_at(consumer, [TopicPartition(place.topic, place.partition, OFFSET_END) for place in places])


def _offsets_at(consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
    """The first offsets at the times (epoch ms) or ends that the places have as their offsets, in their order."""

    def ask() -> list[TopicPartition]:
        answers = consumer.offsets_for_times(places, timeout=_TIMEOUT_S)
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return answers

    return with_leader(ask)


def with_leader(ask: Callable[[], _T]) -> _T:
    """Call `ask`, and repeat the call while a partition has no leader, or one that this client does not know yet.

    Raises KafkaException.
    """

    def has_no_leader(error: BaseException) -> bool:
        return isinstance(error, KafkaException) and error.args[0].code() in LEADER_CHANGES

    try:
        return ask()
    except KafkaException as error:
        if not has_no_leader(error):
            raise
    return retried(ask, is_transient=has_no_leader, within_s=_TIMEOUT_S, every_s=_POLL_S)


def first_uncommitted(kafka: KafkaConnection, topic: str, partition: int, start: int) -> Record | None:
    """The first record from an offset on, committed or not. None without one in some seconds."""
    consumer = consumer_of(kafka, {"isolation.level": "read_uncommitted", "enable.partition.eof": False})
    try:
        with mapped_errors(kafka):
            consumer.assign([TopicPartition(topic, partition, start)])
            message = consumer.poll(_FIRST_S)
    finally:
        consumer.close()
    return None if message is None or message.error() is not None else record_of(message)


def newest_append_ms(kafka: KafkaConnection, topic: str) -> int | None:
    """The broker's time of the newest record of a topic. Raises BrokerUnavailable.

    None if the topic never had a record, 0 if retention has removed all records.
    """
    admin = AdminClient(kafka.confluent(_QUIET))
    with mapped_errors(kafka):
        partitions = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]
        newest = list_offsets(admin, places, _NEWEST)
        if found := [each.timestamp for each in newest if each.offset >= 0]:
            return max(found)
        ends = list_offsets(admin, places, _END)
    return 0 if any(each.offset > 0 for each in ends) else None


def list_offsets(
    admin: AdminClient,
    places: Sequence[TopicPartition],
    at: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> list[ListOffsetsResultInfo]:
    """The offsets of partitions, with one request to each broker. Raises KafkaException."""
    wanted = dict.fromkeys(places, at)

    def ask() -> list[ListOffsetsResultInfo]:
        answers = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=_TIMEOUT_S)
        return [answers[place].result() for place in places]

    return with_leader(ask)


def topic_ids(kafka: KafkaConnection, topics: Sequence[str], client: AdminClient | None = None) -> dict[str, str]:
    """Kafka's ids of topics, by name. A topic that was deleted and created again has a new id.

    Raises BrokerUnavailable.
    """
    admin = client or AdminClient(kafka.confluent(_QUIET))
    with mapped_errors(kafka):
        answers = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_TIMEOUT_S)
        return {name: str(answer.result().topic_id) for name, answer in answers.items()}


def has_topic(kafka: KafkaConnection, topic: str) -> bool:
    """Whether a topic exists and this client may describe it. The call never creates it. Raises BrokerUnavailable."""
    admin = AdminClient(kafka.confluent(_QUIET))
    with mapped_errors(kafka):
        answer = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_S)[topic]
        try:
            answer.result()
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
                return False
            raise
    return True


def describe(error: KafkaException) -> str:
    """Kafka's message, on one line."""
    cause = error.args[0] if error.args else error
    text = cause.str() if isinstance(cause, KafkaError) else str(cause)
    return " ".join(text.split())[:400]


@contextmanager
def mapped_errors(kafka: KafkaConnection) -> Iterator[None]:
    """Raise BrokerUnavailable for the client's errors."""
    try:
        yield
    except KafkaException as error:
        raise BrokerUnavailable(f"Kafka at {kafka}: {describe(error)}") from error


def record_of(message: Message) -> Record:
    """Convert a message of the client to a record."""
    offset, at_ms = _offset(message), message.timestamp()[1]
    return Record(offset, at_ms, key_of(message), _bytes(message.value()), headers_of(message))


def key_of(message: Message) -> bytes | None:
    """The key of a record."""
    return _bytes(message.key())


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers of a record, in order."""
    raw = message.headers() or ()
    return [(name, _bytes(value)) for name, value in (raw.items() if isinstance(raw, dict) else raw)]


def _offset(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else offset


def _partition(message: Message) -> int:
    partition = message.partition()
    return -1 if partition is None else partition


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
