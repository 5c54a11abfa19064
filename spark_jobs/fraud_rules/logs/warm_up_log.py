"""The topic `warm-ups`: the results of warm-ups in one partition, and the rows that they add in another.

A job first writes the rows of each key group as chunks, then one result that names them by offset and digest. The
detector uses the first result of a request. A result without its chunks, or chunks without a result, have no effect.
A reader of results does not read the chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec
from confluent_kafka import Producer

from fraud_rules.errors import StateDamaged
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.kafka.record_writer import append_records, idempotent_producer
from fraud_rules.runtime.compression import compress, decompress

_TIMEOUT_S: Final = 60.0
_RESULTS, _CHUNKS = 0, 1
"""The partitions."""


class WarmUpRef(msgspec.Struct, frozen=True, rename="camel"):
    """A result in a pin: the batch that uses it, its offset in `warm-ups`, its digest, and its ends. `fault` is the
    reason of a warm-up that cannot be done, empty otherwise. The history is complete from the event time `since`.
    `reach_ms` is the shortest reach that the grouping has had from the request to the end of the pin."""

    batch_id: int
    offset: int
    digest: str
    ends: dict[str, int] = {}
    fault: str = msgspec.field(name="refused", default="")
    since: int | None = None
    reach_ms: int = 0

    def ends_with(self, batch_id: int) -> bool:
        """Whether the warm-up ends with the batch of the pin. A later query has other batches with the same ids."""
        return self.batch_id == batch_id and bool(self.digest)

    def later(self, reach_ms: int | None) -> WarmUpRef:
        """The entry in the pin of a later batch, which reads no result. `reach_ms` is the shortest reach in between."""
        shortest_ms = self.reach_ms if reach_ms is None else min(self.reach_ms, reach_ms)
        return msgspec.structs.replace(self, digest="", ends={}, reach_ms=shortest_ms)


class WarmUpPart(msgspec.Struct, frozen=True, rename="camel"):
    """The rows of one key group. `chunks` are (offset, digest) pairs, in the order of their rows. `begins_ms` is the
    event time from which the rows are complete, None without any transaction. The last `sum_chunks` of the chunks have
    the sums of the series that the rule record begins, whose history is complete from `series_begins_ms` on. Only this
    series counts the rows below `bound_ms`."""

    key_group: int
    rows: int
    begins_ms: int | None
    chunks: list[tuple[int, str]]
    sum_chunks: int = 0
    sums: int = 0
    series_begins_ms: int | None = None
    bound_ms: int | None = None


class WarmUpResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of the request of the rule record `version`.

    `ends` are the offsets after the last transaction read, by partition (as text). `key_groups` is the number of key
    groups. `digest` covers rows, ends and beginnings, and not the offsets of chunks, so a repeated job has the same
    digest. `fault` is the reason why the warm-up cannot be done.
    """

    version: int
    rule_id: int
    grouping: tuple[str, ...]
    reach_ms: int
    ends: dict[str, int]
    key_groups: int
    parts: list[WarmUpPart]
    digest: str
    fault: str = msgspec.field(name="refused", default="")

    @property
    def rows(self) -> int:
        """The number of rows of all key groups."""
        return sum(part.rows for part in self.parts)

    @property
    def begins_ms(self) -> int | None:
        """The latest event time at which the history of a key group begins; None without any transaction."""
        return max((part.begins_ms for part in self.parts if part.begins_ms is not None), default=None)

    def ref(self, offset: int, batch_id: int) -> WarmUpRef:
        """The entry of this result in the pin of a batch."""
        return WarmUpRef(batch_id, offset, self.digest, self.ends, self.fault, self.begins_ms)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WarmUpResult).decode


def digest_of(parts: Sequence[WarmUpPart], ends: Mapping[str, int]) -> str:
    """The digest of a result."""
    content = [
        (
            part.key_group,
            part.begins_ms,
            [name for _, name in part.chunks],
            *(() if part.series_begins_ms is None else (part.sum_chunks, part.series_begins_ms, part.bound_ms)),
        )
        for part in parts
    ]
    return hashlib.blake2b(_encode([content, sorted(ends.items())]), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class WarmUpLog:
    """The records of one detector in the topic, which has one partition."""

    kafka: KafkaConnection
    topic: str
    detector: str

    def write_chunks(self, version: int, key_group: int, chunks: Sequence[bytes]) -> list[tuple[int, str]]:
        """Write chunks, and return their offsets and digests. Raises BrokerUnavailable."""
        names = [_name(chunk) for chunk in chunks]
        keys = [f"{self.detector}/{version}/{key_group}/{name}".encode() for name in names]
        offsets = self._append(_CHUNKS, [(key, compress(chunk)) for key, chunk in zip(keys, chunks, strict=True)])
        return list(zip(offsets, names, strict=True))

    def write_result(self, result: WarmUpResult) -> int:
        """Write a result, and return its offset. Raises BrokerUnavailable."""
        (offset,) = self._append(_RESULTS, [(self._key(result.version), _encode(result))])
        return offset

    def results(self, start: int, end: int, reader: TopicReader) -> Iterator[tuple[int, WarmUpResult]]:
        """Yield the results in [start, end) with their offsets. Raises BrokerUnavailable."""
        yield from self.results_of(reader.read(start, end, _RESULTS))

    def results_of(self, records: Iterable[Record]) -> Iterator[tuple[int, WarmUpResult]]:
        """Yield the results among records of their partition, with their offsets."""
        for record in records:
            if record.value is None or record.key is None or not record.key.startswith(self.detector.encode() + b"/"):
                continue
            result = decode_or_skip(self.topic, record, _decode)
            if result is not None and record.key == self._key(result.version):
                yield record.offset, result

    def read_result(self, ref: WarmUpRef) -> WarmUpResult:
        """The result that a pin names. Raises StateDamaged, BrokerUnavailable."""
        with TopicReader(self.kafka, self.topic) as reader:
            for _, result in self.results(ref.offset, ref.offset + 1, reader):
                if result.digest == ref.digest:
                    return result
        raise StateDamaged(f"{self.topic} has lost the result at offset {ref.offset}, which a pin names: {_REMEDY}")

    def read_chunks(self, part: WarmUpPart) -> list[bytes]:
        """The chunks of a key group, in order. Raises StateDamaged, BrokerUnavailable."""
        if not part.chunks:
            return []
        names = dict(part.chunks)
        with TopicReader(self.kafka, self.topic) as reader:
            # The job has written the chunks of a key group at once, so few others lie between them.
            first, kept = min(names), reader.ends(_CHUNKS)[0]
            records = reader.read(max(first, kept), max(names) + 1, _CHUNKS)
            found = {record.offset: _content(record) for record in records if record.offset in names}
        for offset, name in part.chunks:
            content = found.get(offset)
            if content is None or _name(content) != name:
                raise StateDamaged(f"{self.topic} has lost the chunk at offset {offset}: {_REMEDY}")
        return [content for offset, _ in part.chunks if (content := found[offset]) is not None]

    def _key(self, version: int) -> bytes:
        return f"{self.detector}/{version}".encode()

    def _append(self, partition: int, records: Sequence[tuple[bytes, bytes]]) -> list[int]:
        producer = _producer(self.kafka)
        return append_records(
            self.kafka, self.topic, records, partition=partition, producer=producer, timeout_s=_TIMEOUT_S
        )


_REMEDY: Final = "restore the topic, or rebuild the state (fraud detector rebuild)"


def _content(record: Record) -> bytes | None:
    try:
        return None if record.value is None else decompress(record.value)
    except ValueError:
        return None


def _name(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()


@cache
def _producer(kafka: KafkaConnection) -> Producer:
    """The producer of this process."""
    return idempotent_producer(kafka, _TIMEOUT_S)
