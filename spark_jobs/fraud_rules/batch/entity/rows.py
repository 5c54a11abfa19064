"""Reads the payments of one entity: from the archive as far as it reaches, and the newer ones from the topic.

Every read has a bound, and the result says which payments it may lack.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message
from numpy.typing import NDArray

from fraud_rules.batch.archive.columns import batch_of
from fraud_rules.batch.archive.files import open_parquet, string_fields
from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.archive.topic_identity import is_of_topic
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.needle import Needle
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ArchiveDamaged, ArchiveUnreachable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, record_of
from fraud_rules.logs.transactions import raw_transactions
from fraud_rules.model.schema import TIME_FIELD, Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

_EARLIER_TOPIC: Final = "The archive is ahead of the topic: it has payments of an earlier topic of the same name."
_MOST_RECORDS: Final = 600_000
"""The most records that a search of the topic reads."""
_ARCHIVE_S: Final = 4.0
"""The longest search of the archive."""
_MOST_PAYMENTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class EntityQuery:
    """An entity, and the append time in epoch ms from which its payments count. `field` is a field, or an entity of the
    schema: then the payments have the value in any role."""

    field: str
    value: int | str
    since_ms: int


@dataclass(slots=True)
class EntityRows:
    """Payments in the order of event times. Older ones than `reached_ms` were not read; `notes` say why."""

    batch: TransactionBatch
    reached_ms: int
    notes: list[str] = field(default_factory=list)


class EntityReader:
    """Reads from one archive and one cluster."""

    def __init__(
        self, kafka: KafkaConnection, archive: ArchiveStore, schema: TransactionSchema, settings: DetectorSettings
    ) -> None:
        self._kafka = kafka
        self._archive = archive
        self._schema = schema
        self._settings = settings

    def read(self, query: EntityQuery) -> EntityRows:
        """Read the payments of an entity, each once. Raises BrokerUnavailable."""
        notes: list[str] = []
        reached_ms = query.since_ms
        manifest = self._manifest(notes)
        topic, begins_ms = self._topic_rows(query, manifest, notes)
        archived: list[TransactionBatch] = []
        if begins_ms is not None:  # the search of the topic did not reach the end of the archive
            reached_ms = max(reached_ms, begins_ms)
        elif manifest is not None:
            archived, cut_ms = self._archived_rows(query, manifest, notes)
            reached_ms = max(reached_ms, cut_ms)
        past = [_unique(TransactionBatch.concat(archived))] if archived else []
        batch = self._newest(TransactionBatch.concat([*past, topic]), notes)
        if len(batch) == _MOST_PAYMENTS:
            reached_ms = max(reached_ms, int(batch.append_ms.min()))
        return EntityRows(batch.take(batch.append_ms >= reached_ms), reached_ms, notes)

    def _manifest(self, notes: list[str]) -> Manifest | None:
        try:
            manifest = self._archive.latest()
        except (ArchiveDamaged, ArchiveUnreachable) as error:
            notes.append(f"The archive cannot be read: {error}")
            return None
        return manifest if manifest.of(Table.TRANSACTIONS) else None

    def _topic_rows(
        self, query: EntityQuery, manifest: Manifest | None, notes: list[str]
    ) -> tuple[TransactionBatch, int | None]:
        """The payments that the archive lacks, and the append time before which the topic was not read, if it was not
        read back to the archive.
        """
        topic = self._settings.topics.transactions
        archived = {} if manifest is None else self._archived_ends(manifest, topic, notes)
        found: list[Message] = []
        with TopicReader(self._kafka, topic) as reader:
            ends = {partition: reader.ends(partition) for partition in reader.partitions()}
            ranges, cut, lost = self._ranges(reader, ends, query.since_ms, _reached(archived, ends, notes))
            fields = self._schema.value_fields(query.field)
            needles = [Needle.of(self._schema, name, query.value) for name in fields]
            begins_ms: dict[int, int] = {}
            for message in reader.read_ranges(ranges):
                partition = int(message.partition() or 0)
                if partition in cut and partition not in begins_ms:
                    begins_ms[partition] = record_of(message).append_ms
                if any(needle.is_in(message.key(), message.value()) for needle in needles):
                    found.append(message)
        if cut:
            notes.append(f"Only the newest {_MOST_RECORDS:,} payments of the topic were searched.")
        if lost:
            notes.append("Older payments have left the topic, and the archive does not have them.")
        gaps = [*begins_ms.values(), *lost]
        return self._decoded(found, query), max(gaps) if gaps else None

    def _archived_ends(self, manifest: Manifest, topic: str, notes: list[str]) -> dict[str, int]:
        """The archive's ends by partition, none if the topic was created again since."""
        if is_of_topic(self._kafka, manifest, topic):
            return manifest.ends.get(topic, {})
        notes.append(_EARLIER_TOPIC)
        return {}

    def _ranges(
        self, reader: TopicReader, ends: Mapping[int, tuple[int, int]], since_ms: int, archived: dict[str, int]
    ) -> tuple[dict[int, tuple[int, int]], set[int], list[int]]:
        """The offsets to read by partition, the partitions whose range was cut, and the append times from which the
        topic has records although older ones are wanted.
        """
        ranges: dict[int, tuple[int, int]] = {}
        lost: list[int] = []
        for partition, (first, end) in ends.items():
            from_time = reader.offset_at(since_ms, partition)
            archive_end = archived.get(str(partition))
            start = max(end if from_time is None else from_time, archive_end or 0)
            if archive_end is None and first > 0 and start <= first < end:
                lost.append(next(iter(reader.read(first, first + 1, partition))).append_ms if first < end else 0)
            ranges[partition] = max(start, first), end
        total = sum(end - start for start, end in ranges.values())
        cut: set[int] = set()
        if total > _MOST_RECORDS:
            share = _MOST_RECORDS // len(ranges)
            for partition, (start, end) in ranges.items():
                if end - start > share:
                    ranges[partition] = end - share, end
                    cut.add(partition)
        return ranges, cut, lost

    def _decoded(self, found: Sequence[Message], query: EntityQuery) -> TransactionBatch:
        raw = raw_transactions(found, self._schema, self._settings)
        batch = decode_transactions(raw, self._schema, self._settings.record_limits).batch
        columns = [batch.columns[name] for name in self._schema.value_fields(query.field)]
        return batch.take(np.logical_or.reduce([has_value(column, query.value) for column in columns]))

    def _archived_rows(
        self, query: EntityQuery, manifest: Manifest, notes: list[str]
    ) -> tuple[list[TransactionBatch], int]:
        """The payments of the archive, newest files first, and the event time before which they were not read."""
        files = [each for each in manifest.of(Table.TRANSACTIONS) if each.last_ms >= query.since_ms]
        files.sort(key=lambda each: each.last_ms, reverse=True)
        until_s = time.monotonic() + _ARCHIVE_S
        batches: list[TransactionBatch] = []
        rows = 0
        for number, entry in enumerate(files):
            if time.monotonic() > until_s or rows >= _MOST_PAYMENTS:
                cut_ms = max(each.last_ms for each in files[number:])
                notes.append("The archive has older payments that were not searched.")
                return batches, cut_ms
            for batch in self._rows_of_file(entry, query):
                batches.append(batch)
                rows += len(batch)
        began_ms = manifest.began_ms or 0
        if began_ms > query.since_ms:
            notes.append("The archive begins later than the chosen period.")
        return batches, began_ms

    def _rows_of_file(self, entry: FileEntry, query: EntityQuery) -> Iterator[TransactionBatch]:
        with open_parquet(self._archive, entry, string_fields(self._schema)) as file:
            fields = self._schema.value_fields(query.field)
            known = [name for name in fields if name in file.schema_arrow.names]
            if not known:
                return
            value = _scalar(query, self._schema.field(fields[0]))
            masks = [pc.fill_null(pc.equal(column, value), False) for column in file.read(columns=known).columns]
            mask = reduce(pc.or_, masks)
            if pc.any(mask).as_py():
                yield batch_of(file.read().filter(mask), self._schema, entry.path)

    def _newest(self, batch: TransactionBatch, notes: list[str]) -> TransactionBatch:
        order = np.argsort(batch.columns[TIME_FIELD].values, kind="stable")
        if len(order) > _MOST_PAYMENTS:
            notes.append(f"Only the newest {_MOST_PAYMENTS:,} payments are shown.")
            order = order[-_MOST_PAYMENTS:]
        return batch.take(order)


def _reached(archived: dict[str, int], ends: Mapping[int, tuple[int, int]], notes: list[str]) -> dict[str, int]:
    """The archive's ends by partition, without those that the topic has not reached: it has lost records since."""
    reached = {partition: end for partition, end in archived.items() if end <= ends.get(int(partition), (0, 0))[1]}
    if len(reached) < len(archived):
        notes.append(_EARLIER_TOPIC)
    return reached


def _unique(batch: TransactionBatch) -> TransactionBatch:
    """Each record once, although a compaction may run while the archive is read."""
    places = np.stack([batch.partition.astype(np.int64), batch.offset], axis=1)
    _, first = np.unique(places, axis=0, return_index=True)
    return batch if len(first) == len(batch) else batch.take(np.sort(first))


def has_value(column: Column, value: int | str) -> NDArray[np.bool_]:
    """Whether each row of a column has the value."""
    known = column.dictionary
    found = value if known is None else known.index(str(value)) if value in known else -1
    mask: NDArray[np.bool_] = column.values == found
    return mask if column.valid is None else mask & column.valid


def _scalar(query: EntityQuery, declared: Field | None) -> pa.Scalar:
    kind = pa.string() if declared is not None and declared.type is FieldType.STRING else pa.int64()
    return pa.scalar(query.value, kind)
