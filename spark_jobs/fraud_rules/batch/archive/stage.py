"""The archive's stage: raw records in, files out. The driver receives only the list of files.

A task that is retried writes files with other names. A manifest never names the files of its first attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from fraud_rules.batch.archive.columns import TIME_TYPE
from fraud_rules.batch.archive.files import log_schema, write_file, write_transactions
from fraud_rules.batch.archive.manifest import BatchResult, FileEntry, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.published import event_time_of
from fraud_rules.codec.transactions.codec import NO_APPEND_TIME, decode_transactions
from fraud_rules.kafka.decoding import UNDECODABLE, decode_reason
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.spark.append_times import append_ms_of_column

ARCHIVE_ROW = "blob binary"
HELD_BYTES = 134_217_728
"""The bytes of log records that a task holds in memory before it writes files."""

_BY_EVENT_DAY = (Table.ALERTS, Table.SHADOW_ALERTS, Table.DECISIONS, Table.CORRECTIONS)
_OUT = pa.schema([("blob", pa.binary())])


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


@dataclass(frozen=True, slots=True)
class ArchiveStage:
    """Runs in a worker on one partition of a source batch. `tables` is the table of each topic."""

    store: ArchiveStore
    schema: TransactionSchema
    tables: dict[str, Table]
    limits: RecordLimits

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In: topic, partition, offset, timestamp (us), key, value, headers. Out: a row with a packed `BatchResult`."""
        content = _TaskContent()
        for batch in batches:
            for topic in batch.column(0).unique().to_pylist():
                rows = batch.filter(pa.compute.equal(batch.column(0), topic))
                self._add(content, topic, rows)
            if content.log_bytes > HELD_BYTES:
                self._write_logs(content)
        self._write_logs(content)
        files = [*self._write_transactions(content), *content.files]
        skipped = tuple(content.skipped)
        result = BatchResult(tuple(files), content.rejected, content.first_append_ms, content.unreadable, skipped)
        yield pa.RecordBatch.from_arrays([pa.array([_encode(result)], pa.binary())], schema=_OUT)

    def _add(self, content: _TaskContent, topic: str, rows: pa.RecordBatch) -> None:
        partition, offset = rows.column(1).to_numpy(), rows.column(2).to_numpy()
        append_ms = append_ms_of_column(rows.column(3))
        table = self.tables[topic]
        if table is Table.TRANSACTIONS:
            values = rows.column(5).to_pylist()
            decoded = decode_transactions(values, partition, offset, append_ms, self.schema, self.limits)
            content.transactions.append(decoded.batch)
            content.rejected += len(decoded.rejects)
            known_ms = append_ms[append_ms != NO_APPEND_TIME].tolist()
            earlier = [] if content.first_append_ms is None else [content.first_append_ms]
            content.first_append_ms = min([*known_ms, *earlier], default=None)
            return
        self._add_log(content, table, rows, append_ms)

    def _add_log(self, content: _TaskContent, table: Table, rows: pa.RecordBatch, append_ms: np.ndarray) -> None:
        times = append_ms
        if table in _BY_EVENT_DAY:
            found = [self._event_time(content, table, row) for row in rows.select([0, 1, 2, 4, 5]).to_pylist()]
            readable = np.array([each is not None for each in found], np.bool_)
            rows, append_ms = rows.filter(pa.array(readable)), append_ms[readable]
            times = np.array([each for each in found if each is not None], np.int64)
        for day in np.unique(times // DAY_MS).tolist():
            here = np.flatnonzero(times // DAY_MS == day)
            picked = rows.take(pa.array(here))
            columns = [
                picked.column(1),
                picked.column(2),
                pa.array(append_ms[here], pa.int64()).view(TIME_TYPE),
                pa.array(times[here], pa.int64()).view(TIME_TYPE),
                picked.column(4),
                picked.column(5),
            ]
            schema = log_schema(table)
            columns += [picked.column(6).cast(kind.type) for kind in list(schema)[len(columns) :]]
            content.logs.setdefault((table, day), []).append(pa.Table.from_arrays(columns, schema=schema))
            content.log_bytes += picked.nbytes

    def _event_time(self, content: _TaskContent, table: Table, row: dict[str, Any]) -> int | None:
        """The event time of a published record. An unreadable record is counted and gives None."""
        try:
            if row["key"] is None or row["value"] is None:
                raise ValueError("no key" if row["key"] is None else "no value")
            return event_time_of(table, row["value"])
        except UNDECODABLE as error:
            place = f"{row['topic']}-{row['partition']} at offset {row['offset']}"
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
