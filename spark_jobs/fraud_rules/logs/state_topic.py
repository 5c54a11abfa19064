"""The topic `detector-state`: the durable state of all detectors, as records by key.

A record is a head or a chunk of a key group's log (see `engine.statelog`), compressed. The topic is compacted: a
tombstone removes a record. A key group has all records in one partition. The driver writes a head in the Kafka
transaction of the batch's outputs, so that outputs and state change together. Large chunks are written by the tasks,
outside the transaction: a chunk without a head that names it is an orphan, which no reader uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import ends_of, settled_ends
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.kafka.writer import MAX_RECORD_BYTES
from fraud_rules.runtime.compression import decompress

HEAD: Final = "head"
"""The name of a head among the names of chunks."""

OnBytes = Callable[[int], None]
"""Receives the size of each record that is read."""

_TIMEOUT_S: Final = 60.0


class StateRecord(NamedTuple):
    """A record: its offset, the key group and name in its key, and its compressed content; None for a deletion."""

    offset: int
    key_group: int
    name: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class StateTopic:
    """The records of one detector in the topic. `partitions` is the number of the topic's partitions."""

    kafka: KafkaConnection
    topic: str
    detector: str
    partitions: int

    def partition_of(self, key_group: int) -> int:
        """The partition of a key group's records."""
        return key_group % self.partitions

    def key_of(self, key_group: int, name: str) -> bytes:
        """The key of a head or chunk."""
        return f"{self.detector}/{key_group}/{name}".encode()

    def read(self, key_group: int, start: int = 0, on_bytes: OnBytes = lambda size: None) -> dict[str, bytes]:
        """The committed records of a key group, by name: the contents of the head and of all chunks, decompressed.

        Reads its partition from the offset `start` on. `on_bytes` receives the size of each record. A record that this
        product did not write is skipped. Raises BrokerUnavailable.

        The process keeps its connection for the next call, because a task that catches up reads a few records only.
        Only one thread of a process may call this method.
        """
        records = self.records(self.partition_of(key_group), start, on_bytes)
        return self.contents(each for each in records if each.key_group == key_group)

    def records(self, partition: int, start: int, on_bytes: OnBytes = lambda size: None) -> Iterator[StateRecord]:
        """The committed records of the key groups of a partition, from the offset `start` on. See `read`."""
        reader = _reader(self.kafka, self.topic)
        first, end = reader.ends(partition)
        yield from self._records(reader, partition, max(first, start), end, on_bytes)

    def contents(self, records: Iterable[StateRecord]) -> dict[str, bytes]:
        """The contents after these records of one key group, by name, decompressed."""
        return self._contents(_newest(records).values())

    def read_all(self) -> dict[int, dict[str, bytes]]:
        """The committed records of all key groups that have records. See `read`. Raises TransactionOpen too."""
        found: dict[int, list[StateRecord]] = {}
        for record in _newest(self._settled_records()).values():
            found.setdefault(record.key_group, []).append(record)
        return {key_group: self._contents(records) for key_group, records in found.items()}

    def stale_keys(self) -> list[tuple[int, bytes]]:
        """The partition and key of each record of this detector from before a change of the number of partitions.

        Raises TransactionOpen, BrokerUnavailable.
        """
        found: dict[tuple[int, bytes], bool] = {}
        with TopicReader(self.kafka, self.topic) as reader:
            for partition, ends in settled_ends(reader).items():
                for record in reader.read(*ends, partition):
                    place = self._place(record.key)
                    if place is not None and self.partition_of(place[0]) != partition and record.key is not None:
                        found[partition, record.key] = record.value is not None
        return [place for place, has_value in found.items() if has_value]

    def is_settled(self, key_group: int) -> bool:
        """Whether `read` returns all records that were written before this call. Raises BrokerUnavailable.

        It does not while a transaction is open.
        """
        partition = self.partition_of(key_group)
        written = TopicEnds(self.kafka).written({self.topic: [partition]})[self.topic][str(partition)]
        return _reader(self.kafka, self.topic).ends(partition)[1] >= written

    def names(self) -> dict[int, set[str]]:
        """The names of the committed records of each key group, also of orphans. Raises TransactionOpen,
        BrokerUnavailable."""
        found: dict[int, set[str]] = {}
        for record in self._settled_records():
            names = found.setdefault(record.key_group, set())
            names.discard(record.name) if record.value is None else names.add(record.name)
        return found

    def _settled_records(self) -> Iterator[StateRecord]:
        with TopicReader(self.kafka, self.topic) as reader:
            for partition, ends in settled_ends(reader).items():
                yield from self._records(reader, partition, *ends)

    def _records(
        self, reader: TopicReader, partition: int, start: int, end: int, on_bytes: OnBytes = lambda size: None
    ) -> Iterator[StateRecord]:
        """The records of a partition, without those of before a change of the number of partitions."""
        for record in reader.read(start, end, partition):
            on_bytes(len(record.value or b""))
            place = self._place(record.key)
            if place is not None and self.partition_of(place[0]) == partition:
                yield StateRecord(record.offset, *place, record.value)

    def has_records(self, *, settled: bool = True) -> bool:
        """Whether any record of this detector exists, in any partition.

        Without `settled`, an open transaction may hide records. Raises TransactionOpen, BrokerUnavailable.
        """
        live: set[bytes] = set()
        with TopicReader(self.kafka, self.topic) as reader:
            for partition, ends in ends_of(reader, settled=settled).items():
                for record in reader.read(*ends, partition):
                    if record.key is not None and self._place(record.key) is not None:
                        live.discard(record.key) if record.value is None else live.add(record.key)
        return bool(live)

    def send_chunks(self, key_group: int, chunks: Sequence[tuple[str, bytes]]) -> None:
        """Begin to write compressed chunks, outside of any transaction. `flush_chunks` waits for them.

        A chunk may be written twice. That does no harm, because its name determines its content.
        """
        writer, partition = _chunk_writer(self.kafka), self.partition_of(key_group)
        for name, value in chunks:
            writer.producer.produce(
                self.topic, value, self.key_of(key_group, name), partition, on_delivery=writer.delivered
            )

    def flush_chunks(self) -> None:
        """Wait until the brokers have all chunks that this process has sent. Raises BrokerUnavailable."""
        writer = _chunk_writer(self.kafka)
        if writer.producer.flush(_TIMEOUT_S) or writer.faults:
            said = writer.faults[0].str() if writer.faults else f"no answer within {_TIMEOUT_S:g} s"
            writer.faults.clear()
            raise BrokerUnavailable(f"a chunk was not written to {self.topic} at {self.kafka}: {said}")

    def _contents(self, records: Iterable[StateRecord]) -> dict[str, bytes]:
        """The contents by name, without those of records that this product did not write."""
        found = {each.name: self._content(each) for each in records}
        return {name: content for name, content in found.items() if content is not None}

    def _content(self, record: StateRecord) -> bytes | None:
        raw = Record(record.offset, 0, None, record.value)
        return decode_or_skip(self.topic, raw, decompress, self.partition_of(record.key_group))

    def _place(self, key: bytes | None) -> tuple[int, str] | None:
        """The key group and the name in a key. None for a record of another detector."""
        detector, _, rest = (key or b"").decode("utf-8", "replace").partition("/")
        group, _, name = rest.partition("/")
        if detector != self.detector or not group.isdecimal() or not name:
            return None
        return int(group), name


def _newest(records: Iterable[StateRecord]) -> dict[tuple[int, str], StateRecord]:
    """The newest record of each name that is not deleted. Older ones are dropped at once: they can be many times as
    large as the state."""
    found: dict[tuple[int, str], StateRecord] = {}
    for record in records:
        place = record.key_group, record.name
        if record.value is None:
            found.pop(place, None)
        else:
            found[place] = record
    return found


@dataclass(frozen=True, slots=True)
class _ChunkWriter:
    """A producer, and the errors of the records that it has sent since the last flush."""

    producer: Producer
    faults: list[KafkaError] = field(default_factory=list)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Record the result of a send."""
        if error is not None:
            self.faults.append(error)


@lru_cache(maxsize=1)
def _reader(kafka: KafkaConnection, topic: str) -> TopicReader:
    """The reader of this process, which serves one detector."""
    return TopicReader(kafka, topic)


@cache
def _chunk_writer(kafka: KafkaConnection) -> _ChunkWriter:
    """The writer of this process. It is not idempotent: librdkafka takes half a second to get a producer id."""
    return _ChunkWriter(
        Producer(
            kafka.confluent(
                {
                    "acks": "all",
                    "linger.ms": 0,
                    "message.max.bytes": MAX_RECORD_BYTES,
                    "delivery.timeout.ms": int(_TIMEOUT_S * 1_000),
                    "log_level": 2,
                }
            )
        )
    )
