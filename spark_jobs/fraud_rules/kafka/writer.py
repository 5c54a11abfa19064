"""Writes all outputs of a batch and the batch's marker in one Kafka transaction.

The records are not compressed: kafka-python reads LZ4, Snappy and Zstandard only with further packages, and gzip costs
this process several times more. A topic with Kafka's setting `compression.type` is compressed by the broker.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from fraud_rules.errors import BrokerUnavailable, Fenced, TopicUnsuitable, TransactionExpired
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import ends_of
from fraud_rules.kafka.reader import Record, TopicReader, describe

MAX_RECORD_BYTES: Final = 8_388_608
"""The largest record that this product writes. Hosted Kafka services allow no more."""

_TIMEOUT_S = 60.0
_ABORT_TIMEOUT_S = 5.0
_POLL_EVERY = 1_000

_TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


class OutRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to write. A batch has hundreds of thousands of them, and a struct is built in a fraction of the time of
    a dataclass.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int = -1
    """The partition; -1 for the partition of the key."""


class BatchWriter:
    """The writer of a transactional id. Opening it fences every earlier writer with the same id."""

    def __init__(self, kafka: KafkaConnection, transactional_id: str, *, timeout_s: float = _TIMEOUT_S) -> None:
        """`timeout_s` is the most that a transaction may stay open. The broker enforces it too."""
        self._kafka = kafka
        self._timeout_s = timeout_s
        self._id = transactional_id
        self._began_s: float | None = None
        self._failed: KafkaError | None = None
        self._offsets: list[int] = []
        self.ends: dict[str, dict[int, int]] = {}
        """The offset after the last record that this writer has written, by topic and partition."""
        self._producer = Producer(
            kafka.confluent(
                {
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": int(timeout_s * 1_000),
                    "linger.ms": 0,
                    "message.max.bytes": MAX_RECORD_BYTES,
                    "queue.buffering.max.messages": 1_000_000,
                    "queue.buffering.max.kbytes": 1_048_576,
                    "log_level": 2,
                }
            )
        )

    def open(self) -> None:
        """Fence earlier writers and abort their open transactions. Raises BrokerUnavailable, Fenced."""
        try:
            self._producer.init_transactions(self._timeout_s)
        except KafkaException as error:
            raise self._named(error) from error

    def write(self, records: Iterable[OutRecord]) -> int:
        """Write all records in one transaction and return their number after the commit. Only records that name their
        partition count in `ends`, because the report of each delivery costs as much as the record.

        Readers see the records a little later.

        A failure is final for this writer: the process ends, and the next start repeats the batch. Raises Fenced,
        BrokerUnavailable, TopicUnsuitable if a topic does not allow records of this size, and TransactionExpired if the
        broker has ended this writer because the transaction was open for too long. Another process may have taken over
        since then.
        """
        return self._write(records, reports_all=False)

    def _write(self, records: Iterable[OutRecord], *, reports_all: bool) -> int:
        count = 0
        self._offsets.clear()
        try:
            self._began_s = time.monotonic()
            self._producer.begin_transaction()
            for count, record in enumerate(records, 1):
                self._produce(record, reports_all or record.partition >= 0)
                if count % _POLL_EVERY == 0:
                    self._producer.poll(0)
            self._producer.commit_transaction(self._timeout_s)
        except KafkaException as error:
            raise self._named(error) from error
        if self._failed is not None:
            raise BrokerUnavailable(f"Kafka at {self._kafka} did not accept a record: {self._failed.str()}")
        return count

    def append(self, records: Sequence[OutRecord]) -> list[int]:
        """Write records of one partition in one transaction and return their offsets. Raises the errors of `write`."""
        if self._write(records, reports_all=True) != len(self._offsets):
            raise BrokerUnavailable(f"Kafka at {self._kafka} did not return the offsets of the records of {self._id}")
        return self._offsets.copy()

    def _produce(self, record: OutRecord, is_reported: bool) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    headers=list(record.headers) or None,
                    on_delivery=self._delivered if is_reported else None,
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = error
        else:
            offset = int(message.offset() or 0)
            self._offsets.append(offset)
            self.ends.setdefault(str(message.topic()), {})[int(message.partition() or 0)] = offset + 1

    def _fatal(self, error: KafkaException) -> KafkaException:
        """The cause of a fatal error. The error of `produce` itself does not contain it."""
        try:
            self._producer.abort_transaction(_ABORT_TIMEOUT_S)
        except KafkaException as reason:
            return reason
        return error

    def _named(self, error: KafkaException) -> Fenced | BrokerUnavailable | TopicUnsuitable:
        cause = error.args[0]
        if isinstance(cause, KafkaError) and (cause.fatal() or cause.code() in (KafkaError._FATAL, *_FENCED)):
            keep_until_exit(self._producer)
        if isinstance(cause, KafkaError) and cause.txn_requires_abort() and cause.code() == _TOO_LARGE:
            return TopicUnsuitable(
                f"a topic refuses a record, raise its max.message.bytes (fraud kafka topics apply): {cause.str()}"
            )
        if isinstance(cause, KafkaError) and cause.code() == KafkaError._FATAL:
            error = self._fatal(error)
            cause = error.args[0]
        if isinstance(cause, KafkaError) and cause.code() in _FENCED:
            open_s = 0.0 if self._began_s is None else time.monotonic() - self._began_s
            if open_s >= self._timeout_s:
                return TransactionExpired(
                    f"the transaction of {self._id} was open for {open_s:.0f} s, so the broker has ended it: this "
                    "process was suspended, or its host did not answer; the next start repeats the batch"
                )
            return Fenced(f"another process writes as {self._id}; this process ends without writing")
        return BrokerUnavailable(f"the transaction of {self._id} at {self._kafka} failed: {describe(error)}")


def keep_until_exit(producer: Producer) -> None:
    """Keep a producer with a fatal error until its process ends, by a reference that nothing releases.

    librdkafka (2.8 to 2.16) may corrupt the heap if such a producer is destroyed while its requests fail, and the
    process ends with SIGABRT instead of the exit code of `Fenced`. A reference from a module is not enough: Python
    destroys the producer at its exit. The cost is the threads and the buffers of one producer for each takeover.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(producer))


def last_record(kafka: KafkaConnection, topic: str, key: bytes, *, settled: bool = True) -> bytes | None:
    """The newest committed value of a key in a compacted topic, None if there is none. Reads the whole topic.

    Without `settled`, an open transaction may hide a newer value, see `settled_ends`. Raises TransactionOpen,
    BrokerUnavailable.
    """
    found = newest_record(kafka, topic, key, settled=settled)
    return None if found is None else found.value


def newest_record(kafka: KafkaConnection, topic: str, key: bytes, *, settled: bool = True) -> Record | None:
    """The record of `last_record`, with its append time. Its value is None if the key was removed."""
    return newest_records(kafka, topic, key.__eq__, settled=settled).get(key)


def newest_records(
    kafka: KafkaConnection, topic: str, selects: Callable[[bytes], bool], *, settled: bool = True
) -> dict[bytes, Record]:
    """The records of `newest_record` by key, for the keys that `selects` accepts. In a topic with one partition, they
    are those of one moment, while another process writes."""
    found: dict[bytes, Record] = {}
    with TopicReader(kafka, topic) as reader:
        for partition, ends in ends_of(reader, settled=settled).items():
            for record in reader.read(*ends, partition):
                if record.key is not None and selects(record.key):
                    found[record.key] = record
    return found
