"""Writes all outputs of a batch in one Kafka transaction, and remembers in the same one that it did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from fraud_rules.errors import BrokerUnavailable, Fenced
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, describe

__all__ = ["BatchWriter", "OutRecord", "last_record"]

_TIMEOUT_S = 60.0
_ABORT_TIMEOUT_S = 5.0
_MAX_RECORD_BYTES = 16_777_216
_POLL_EVERY = 1_000

_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


@dataclass(frozen=True, slots=True)
class OutRecord:
    """One record to write."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()


class BatchWriter:
    """The one writer of a detector: opening it fences every earlier one with the same transactional id."""

    def __init__(self, kafka: KafkaConnection, transactional_id: str, *, timeout_s: float = _TIMEOUT_S) -> None:
        """`timeout_s`: how long a transaction may stay open, by the broker's watch too."""
        self._kafka = kafka
        self._timeout_s = timeout_s
        self._id = transactional_id
        self._failed: KafkaError | None = None
        self._offsets: list[int] = []
        self._producer = Producer(
            kafka.confluent(
                {
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": int(timeout_s * 1_000),
                    "linger.ms": 0,
                    "message.max.bytes": _MAX_RECORD_BYTES,
                    "queue.buffering.max.messages": 1_000_000,
                    "queue.buffering.max.kbytes": 1_048_576,
                    "compression.type": "lz4",
                    "log_level": 2,
                }
            )
        )

    def open(self) -> None:
        """Fence the others and end what they left open. Raises BrokerUnavailable, Fenced."""
        try:
            self._producer.init_transactions(self._timeout_s)
        except KafkaException as error:
            raise self._named(error) from error

    def write(self, records: Iterable[OutRecord]) -> int:
        """Write the records, all or none, and return how many once that is decided; readers see them moments later.

        Any failure is final for this writer: the process ends, and the next start repeats the batch. Raises Fenced,
        BrokerUnavailable.
        """
        count = 0
        self._offsets.clear()
        try:
            self._producer.begin_transaction()
            for count, record in enumerate(records, 1):
                self._produce(record)
                if count % _POLL_EVERY == 0:
                    self._producer.poll(0)
            self._producer.commit_transaction(self._timeout_s)
        except KafkaException as error:
            raise self._named(error) from error
        if self._failed is not None:
            raise BrokerUnavailable(f"Kafka at {self._kafka} did not take a record: {self._failed.str()}")
        return count

    def append(self, records: Sequence[OutRecord]) -> list[int]:
        """The same for records of one partition, giving their offsets."""
        if self.write(records) != len(self._offsets):
            raise BrokerUnavailable(f"Kafka at {self._kafka} did not say where it put the records of {self._id}")
        return self._offsets.copy()

    def _produce(self, record: OutRecord) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic, record.value, record.key, headers=list(record.headers), on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = error
        else:
            self._offsets.append(int(message.offset() or 0))

    def _fatal(self, error: KafkaException) -> KafkaException:
        """Why the client has given up: to a record it is handed it only says that it has."""
        try:
            self._producer.abort_transaction(_ABORT_TIMEOUT_S)
        except KafkaException as reason:
            return reason
        return error

    def _named(self, error: KafkaException) -> Fenced | BrokerUnavailable:
        cause = error.args[0]
        if isinstance(cause, KafkaError) and cause.code() == KafkaError._FATAL:
            error = self._fatal(error)
            cause = error.args[0]
        if isinstance(cause, KafkaError) and cause.code() in _FENCED:
            return Fenced(f"another process writes as {self._id}; this one ends without writing")
        return BrokerUnavailable(f"the transaction of {self._id} at {self._kafka} failed: {describe(error)}")


def last_record(kafka: KafkaConnection, topic: str, key: bytes) -> bytes | None:
    """The newest committed value under a key of a compacted topic, read to its end; None without one."""
    found: bytes | None = None
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            for record in reader.read(*reader.ends(partition), partition):
                if record.key == key:
                    found = record.value
    return found
