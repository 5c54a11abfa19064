"""Imports files of past transactions into the archive, so that a what-if needs no stream.

Imported transactions have a separate table, because the re-evaluation replays only transactions that the detector has
evaluated. One manifest commits a whole file with its digest. So a file is imported only once, and a killed run leaves
no partial import.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from fraud_rules.batch.archive.columns import table_of
from fraud_rules.batch.archive.compaction import compact
from fraud_rules.batch.archive.files import QUARANTINE_SCHEMA, sorted_by_time, write_file
from fraud_rules.batch.archive.manifest import FileEntry, ImportedFile, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.codec.transactions.codec import RejectedRecord, decode_transactions
from fraud_rules.codec.transactions.history_files import digest_of, history_records
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema

__all__ = ["IMPORT_PARTITION", "FileImportResult", "import_file"]

IMPORT_PARTITION = -1
"""The partition of imported records, which have no topic."""

CHUNK_RECORDS = 200_000


class FileImportResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of an import: imported rows, and refused records by reason. `known`: the file was imported before."""

    file: str
    transactions: int
    refused: dict[str, int]
    days: list[str]
    known: bool = False


def import_file(
    path: Path, store: ArchiveStore, schema: TransactionSchema, settings: DetectorSettings, now_ms: int
) -> FileImportResult:
    """Import a file, unless its content was imported before.

    Raises InputInvalid, ArchiveBusy, ArchiveDamaged, StorageFull.
    """
    digest = digest_of(path)
    with store.writing():
        manifest = store.latest()
        known = manifest.imports.get(digest)
        if known is not None:
            return FileImportResult(path.name, known.rows, dict(known.refused), [], known=True)
        first = sum(each.records for each in manifest.imports.values())
        importing = _FileImport(path.name, store, schema, settings, now_ms, first)
        for chunk in _chunks(history_records(path, schema)):
            importing.write(chunk)
        made = ImportedFile(path.name, importing.end - first, importing.rows, dict(importing.refused), now_ms)
        manifest = manifest.with_import(digest, made, importing.files)
        store.commit(manifest)
        compact(store, manifest, schema, now_ms)
    days = sorted({file.day for file in importing.files if file.table is Table.IMPORTED})
    return FileImportResult(path.name, made.rows, made.refused, [str(Day(day)) for day in days])


def _chunks(records: Iterator[bytes]) -> Iterator[list[bytes]]:
    while chunk := list(islice(records, CHUNK_RECORDS)):
        yield chunk


@dataclass(slots=True)
class _FileImport:
    """The archive files of an input file so far. `end` is the offset after its last record, of all imported records."""

    name: str
    store: ArchiveStore
    schema: TransactionSchema
    settings: DetectorSettings
    now_ms: int
    end: int
    rows: int = 0
    files: list[FileEntry] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def write(self, values: Sequence[bytes]) -> None:
        """Write a chunk: its transactions by event day, and its unreadable records to the quarantine."""
        n, first = len(values), self.end
        decoded = decode_transactions(
            values,
            np.full(n, IMPORT_PARTITION),
            np.arange(first, first + n),
            np.full(n, self.now_ms),
            self.schema,
            self.settings.record_limits,
        )
        days = decoded.batch.columns[TIME_FIELD].values // DAY_MS
        for day in np.unique(days).tolist():
            rows = sorted_by_time(decoded.batch.take(days == day))
            self.files.append(write_file(self.store, Table.IMPORTED, Day(day), table_of(rows, self.schema)))
        if decoded.rejects:
            refused = _quarantine(decoded.rejects, values, first, self.name, self.now_ms)
            self.files.append(write_file(self.store, Table.QUARANTINE, Day.of(self.now_ms), refused))
        self.end += n
        self.rows += len(decoded.batch)
        self.refused.update(each.reason for each in decoded.rejects)


def _quarantine(
    rejects: Sequence[RejectedRecord], values: Sequence[bytes], first: int, name: str, now_ms: int
) -> pa.Table:
    """Convert the refused records to rows of the archived quarantine, with the file as their topic."""
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
        pa.array([values[each.index] for each in rejects], pa.binary()),
        pa.array(headers, QUARANTINE_SCHEMA.field("headers").type),
    ]
    return pa.Table.from_arrays(columns, schema=QUARANTINE_SCHEMA)
