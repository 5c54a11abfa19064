"""The archive's stage: reads records, and writes files. The driver receives only the list of files.

A task that is retried writes files with other names. A manifest never names the files of its first attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from fraud_rules.batch.archive.columns import TIME_TYPE
from fraud_rules.batch.archive.files import log_schema, write_file, write_transactions
from fraud_rules.batch.archive.manifest import BatchResult, FileEntry, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.published import event_time_of
from fraud_rules.codec.transactions.codec import NO_APPEND_TIME, decode_transactions
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import UNDECODABLE, decode_reason
from fraud_rules.kafka.reader import TopicReader, append_ms_of, headers_of, key_of, pieces
from fraud_rules.logs.transactions import raw_transactions
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.lost_records import Offsets
from fraud_rules.model.offset_ranges import share_of
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

HELD_BYTES = 134_217_728
"""The bytes of log records that a task holds in memory before it writes files."""

_BY_EVENT_DAY = (Table.ALERTS, Table.SHADOW_ALERTS, Table.DECISIONS, Table.CORRECTIONS)

_NAMED = 20
"""The most skipped records that a task names."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BatchResult).decode


def decode_written(blobs: Iterable[bytes]) -> BatchResult:
    """Merge the results of all tasks of a batch."""
    parts = [_decode(blob) for blob in blobs]
    return BatchResult(
        tuple(file for part in parts for file in part.files),
        sum(part.rejected for part in parts),
        min((part.first_append_ms for part in parts if part.first_append_ms is not None), default=None),
        sum(part.unreadable for part in parts),
        tuple(text for part in parts for text in part.skipped),
    )


@dataclass(slots=True)
class _TaskContent:
    """The records and the counters of a task."""

    transactions: list[TransactionBatch] = field(default_factory=list)
    logs: dict[tuple[Table, int], list[pa.Table]] = field(default_factory=dict)
    log_bytes: int = 0
    files: list[FileEntry] = field(default_factory=list)
    rejected: int = 0
    first_append_ms: int | None = None
    unreadable: int = 0
    skipped: list[str] = field(default_factory=list)


Records = Iterable[tuple[str, Sequence[Message]]]
"""Records of topics, by the name of their topic."""


@dataclass(frozen=True, slots=True)
class ArchiveStage:
    """Runs in a worker. `tables` is the table of each topic."""

    store: ArchiveStore
    schema: TransactionSchema
    settings: DetectorSettings
    tables: Mapping[str, Table]

    def archive(self, records: Records) -> BatchResult:
        """Write the records to files."""
        content = _TaskContent()
        for topic, messages in records:
            if self.tables[topic] is Table.TRANSACTIONS:
                self._add_transactions(content, messages)
            else:
                self._add_log(content, topic, messages)
            if content.log_bytes > HELD_BYTES:
                self._write_logs(content)
        self._write_logs(content)
        files = [*self._write_transactions(content), *content.files]
        skipped = tuple(content.skipped)
        return BatchResult(tuple(files), content.rejected, content.first_append_ms, content.unreadable, skipped)

    def _add_transactions(self, content: _TaskContent, messages: Sequence[Message]) -> None:
        raw = raw_transactions(messages, self.schema, self.settings)
        decoded = decode_transactions(raw, self.schema, self.settings.record_limits)
        content.transactions.append(decoded.batch)
        content.rejected += len(decoded.rejects)
        known_ms = raw.append_ms[raw.append_ms != NO_APPEND_TIME].tolist()
        earlier = [] if content.first_append_ms is None else [content.first_append_ms]
        content.first_append_ms = min([*known_ms, *earlier], default=None)

    def _add_log(self, content: _TaskContent, topic: str, messages: Sequence[Message]) -> None:
        table = self.tables[topic]
        schema = log_schema(table)
        by_day: dict[int, list[tuple[int, Message]]] = {}
        for message in messages:
            if (time_ms := self._time(content, table, message)) is not None:
                by_day.setdefault(time_ms // DAY_MS, []).append((time_ms, message))
        for day, rows in by_day.items():
            here = [message for _, message in rows]
            columns: list[Sequence[object]] = [
                [message.partition() for message in here],
                [message.offset() for message in here],
                [append_ms_of(message, producer_times=True) for message in here],
                [time_ms for time_ms, _ in rows],
                [key_of(message) for message in here],
                [message.value() for message in here],
                [headers_of(message) for message in here],
            ]
            made = pa.table([_column(cells, kind.type) for cells, kind in zip(columns, schema, strict=False)], schema)
            content.logs.setdefault((table, day), []).append(made)
            content.log_bytes += made.nbytes

    def _time(self, content: _TaskContent, table: Table, message: Message) -> int | None:
        """The time of a log's record: the event time of a published record, the append time of any other one. An
        unreadable record is counted and gives None."""
        if table not in _BY_EVENT_DAY:
            return append_ms_of(message, producer_times=True)
        key, value = key_of(message), message.value()
        try:
            if key is None or value is None:
                raise ValueError("no key" if key is None else "no value")
            return event_time_of(table, value)
        except UNDECODABLE as error:
            place = f"{message.topic()}-{message.partition()} at offset {message.offset()}"
            content.unreadable += 1
            if len(content.skipped) < _NAMED:
                content.skipped.append(f"{place}: {decode_reason(error)}")
            return None

    def _write_transactions(self, content: _TaskContent) -> Iterator[FileEntry]:
        if not any(map(len, content.transactions)):
            return
        batch = TransactionBatch.concat(content.transactions)
        content.transactions.clear()
        days = batch.columns[TIME_FIELD].values // DAY_MS
        for day in np.unique(days).tolist():
            yield write_transactions(self.store, Day(day), batch.take(days == day), self.schema)

    def _write_logs(self, content: _TaskContent) -> None:
        for (table, day), parts in content.logs.items():
            content.files.append(write_file(self.store, table, Day(day), pa.concat_tables(parts)))
        content.logs.clear()
        content.log_bytes = 0


def _column(cells: Sequence[object], kind: pa.DataType) -> pa.Array:
    """A column of a log's table. Times are in epoch ms."""
    return pa.array(cells, pa.int64()).view(kind) if kind == TIME_TYPE else pa.array(cells, kind)


@dataclass(frozen=True, slots=True)
class ArchiveShares:
    """Runs in a worker: archives a share of the records from `starts` to below `ends`. `tasks` is the number of shares.

    The worker reads the records itself: through a table of Spark, a record costs the JVM more than its decoding.
    """

    stage: ArchiveStage
    kafka: KafkaConnection
    starts: Offsets
    ends: Offsets
    tasks: int

    def run(self, numbers: Iterable[int]) -> Iterator[bytes]:
        """Archive the share of this task, whose number is the only element. Yields a packed `BatchResult`."""
        (number,) = numbers
        yield _encode(self.stage.archive(self._records(number)))

    def _records(self, number: int) -> Records:
        for topic, ends in self.ends.items():
            starts = self.starts[topic]
            if starts == ends:
                continue  # most topics have no new records in most batches
            ranges = {int(partition): (starts[partition], end) for partition, end in ends.items()}
            with TopicReader(self.kafka, topic) as reader:
                for piece in pieces(reader.read_ranges(share_of(ranges, number, self.tasks))):
                    yield topic, piece
