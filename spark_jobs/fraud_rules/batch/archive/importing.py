"""Imports files of past transactions into the archive, so that a what-if needs no stream.

Imported transactions have a separate table, because the re-evaluation replays only transactions that the detector has
evaluated. One manifest commits a whole file with its digest. So a file is imported only once, and a killed run leaves
no partial import. After a change of the schema or the limits, an import reads the rejected records of a file again, and
only those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fraud_rules.batch.archive.columns import OFFSET, table_of
from fraud_rules.batch.archive.compaction import compact
from fraud_rules.batch.archive.files import QUARANTINE_SCHEMA, open_parquet, sorted_by_time, write_file
from fraud_rules.batch.archive.manifest import FileEntry, ImportedFile, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.rejections import Rejections, decode_history
from fraud_rules.codec.history.files import digest_of, history_records, schema_of_file
from fraud_rules.codec.history.record import HistoryRecord
from fraud_rules.codec.transactions.codec import RejectedRecord
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.limits import MOST_REJECTED
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema

IMPORT_PARTITION = -1
"""The partition of imported records, which have no topic."""

CHUNK_RECORDS = 200_000


class FileImportResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of an import: imported rows, and rejected records by reason. `known`: the file was imported before.

    `rejected_at` has the place and detail of the first rejected record of each reason.
    """

    file: str
    transactions: int
    rejected: dict[str, int] = msgspec.field(name="refused")
    days: list[str]
    known: bool = False
    rejected_at: dict[str, str] = msgspec.field(name="refusedAt", default_factory=dict)


def import_file(
    path: Path,
    store: ArchiveStore,
    schema: TransactionSchema,
    settings: DetectorSettings,
    now_ms: int,
    most_rejected: float = MOST_REJECTED,
) -> FileImportResult:
    """Import a file, unless its content was imported before. `most_rejected` is the permitted share of rejected
    records.

    Raises InputInvalid, HistoryRefused, ArchiveBusy, ArchiveDamaged, StorageFull.
    """
    digest, form = digest_of(path), _form(schema, settings)
    with store.writing():
        manifest = store.latest()
        known = manifest.imports.get(digest)
        if known is not None and (not known.rejected or known.form == form):
            return FileImportResult(path.name, known.rows, dict(known.rejected), [], known=True)
        first = _first_offset(manifest, digest)
        before = _imported_offsets(store, manifest, first, known)
        importing = _FileImport(path.name, store, schema_of_file(path, schema), settings, now_ms, first, before)
        try:
            for chunk in _chunks(history_records(path, schema)):
                importing.write(chunk)
            importing.rejected.require_share([path], most_rejected)
        except BaseException:
            importing.discard()
            raise
        rejected = dict(importing.rejected.counts)
        made = ImportedFile(path.name, importing.end - first, len(before) + importing.rows, rejected, now_ms, form)
        manifest = manifest.with_import(digest, made, importing.files)
        store.commit(manifest)
        compact(store, manifest, schema, now_ms)
    days = sorted({file.day for file in importing.files if file.table is Table.IMPORTED})
    return FileImportResult(
        path.name, importing.rows, rejected, [str(Day(day)) for day in days], rejected_at=importing.rejected.first
    )


def _form(schema: TransactionSchema, settings: DetectorSettings) -> str:
    """A digest of the schema and the limits by which records are rejected."""
    return hashlib.sha256(f"{schema.text()}{settings.record_limits}".encode()).hexdigest()[:16]


def _first_offset(manifest: Manifest, digest: str) -> int:
    """The offset of a file's first record: behind the files before it."""
    first = 0
    for each, imported in manifest.imports.items():
        if each == digest:
            break
        first += imported.records
    return first


def _imported_offsets(
    store: ArchiveStore, manifest: Manifest, first: int, known: ImportedFile | None
) -> NDArray[np.int64]:
    """The offsets of a known file's imported rows, int64[n], ascending. Raises ArchiveDamaged."""
    found = [np.zeros(0, np.int64)]
    if known is not None and known.rows:
        for entry in manifest.of(Table.IMPORTED):
            with open_parquet(store, entry) as file:
                offsets = file.read([OFFSET]).column(OFFSET).to_numpy()
            found.append(offsets[(offsets >= first) & (offsets < first + known.records)])
    return np.sort(np.concatenate(found))


def _chunks(records: Iterator[HistoryRecord]) -> Iterator[list[HistoryRecord]]:
    while chunk := list(islice(records, CHUNK_RECORDS)):
        yield chunk


@dataclass(slots=True)
class _FileImport:
    """The archive files of an input file so far. `end` is the offset after its last record, of all imported records.

    `before` are the offsets that an earlier import of the file has imported, int64[n], ascending.
    """

    name: str
    store: ArchiveStore
    schema: TransactionSchema
    settings: DetectorSettings
    now_ms: int
    end: int
    before: NDArray[np.int64]
    rows: int = 0
    files: list[FileEntry] = field(default_factory=list)
    rejected: Rejections = field(default_factory=Rejections)

    def write(self, records: Sequence[HistoryRecord]) -> None:
        """Write a chunk: its transactions by event day, and its unreadable records to the quarantine."""
        n, first = len(records), self.end
        decoded = decode_history(
            records, IMPORT_PARTITION, first, self.now_ms, self.schema, self.settings.record_limits
        )
        batch, rejects = decoded.batch, decoded.rejects
        if len(self.before):
            batch = batch.take(~np.isin(batch.offset, self.before))
            old = set(self.before[np.searchsorted(self.before, first) :][:n].tolist())
            rejects = [each for each in rejects if first + each.index not in old]
        days = batch.columns[TIME_FIELD].values // DAY_MS
        for day in np.unique(days).tolist():
            rows = sorted_by_time(batch.take(days == day))
            self.files.append(write_file(self.store, Table.IMPORTED, Day(day), table_of(rows, self.schema)))
        if rejects:
            rejected = _quarantine(rejects, records, first, self.name, self.now_ms)
            self.files.append(write_file(self.store, Table.QUARANTINE, Day.of(self.now_ms), rejected))
        self.end += n
        self.rows += len(batch)
        self.rejected.add(self.name, n, rejects)

    def discard(self) -> None:
        """Remove the files of an import that ends without a commit."""
        for file in self.files:
            (self.store.root / file.path).unlink(missing_ok=True)


def _quarantine(
    rejects: Sequence[RejectedRecord], records: Sequence[HistoryRecord], first: int, name: str, now_ms: int
) -> pa.Table:
    """Convert the rejected records to rows of the archived quarantine, with the file as their topic."""
    headers = [
        [
            {"key": key, "value": text.encode("utf-8", "backslashreplace")}
            for key, text in (
                ("reason", each.reason),
                ("detail", each.detail),
                ("topic", name),
                ("partition", str(IMPORT_PARTITION)),
                ("offset", str(first + each.index)),
            )
        ]
        for each in rejects
    ]
    n = len(rejects)
    times = pa.array(np.full(n, now_ms), pa.int64())
    columns = [
        pa.array(np.full(n, IMPORT_PARTITION), pa.int32()),
        pa.array([first + each.index for each in rejects], pa.int64()),
        times.view(QUARANTINE_SCHEMA.types[2]),
        times.view(QUARANTINE_SCHEMA.types[3]),
        pa.nulls(n, pa.binary()),
        pa.array([records[each.index].value for each in rejects], pa.binary()),
        pa.array(headers, QUARANTINE_SCHEMA.field("headers").type),
    ]
    return pa.Table.from_arrays(columns, schema=QUARANTINE_SCHEMA)
