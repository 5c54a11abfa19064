"""Merges small files of a day into fewer, larger ones, to keep the number of files small.

A day and table has at most `MOST_SMALL` small files beside its full ones, however often a job appends to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fraud_rules.batch.archive.columns import table_of
from fraud_rules.batch.archive.files import log_schema, read_transactions, sorted_by_time, write_file, write_parts
from fraud_rules.batch.archive.log_merge import merged_log
from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table, small_files
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

FULL_ROWS = 2_000_000
FULL_BYTES = 268_435_456
"""The size of a full file, however few rows it has, because quarantined records may be large."""
MOST_SMALL = 8


def due(manifest: Manifest, full_rows: int = FULL_ROWS, most_small: int = MOST_SMALL) -> Iterator[list[FileEntry]]:
    """Yield the groups of files to merge. The files of a group belong to one table and day."""
    groups: dict[tuple[Table, int], list[FileEntry]] = {}
    for file in small_files(manifest.files, full_rows, FULL_BYTES):
        groups.setdefault((file.table, file.day), []).append(file)
    return (files for files in groups.values() if len(files) > most_small)


def compact(store: ArchiveStore, manifest: Manifest, schema: TransactionSchema, now_ms: int) -> Manifest:
    """Merge the due groups, with one commit per group, and return the newest manifest."""
    for files in due(manifest):
        merged = [_merged(store, part, schema) for part in _portions(files)]
        manifest = manifest.with_replaced(files, merged, now_ms)
        store.commit(manifest)
    return manifest


def _portions(files: Sequence[FileEntry]) -> Iterator[list[FileEntry]]:
    """Split files into groups of about a full file's rows, to bound a merge."""
    portion: list[FileEntry] = []
    for file in sorted(files, key=lambda each: each.first_ms):
        portion.append(file)
        if sum(each.rows for each in portion) >= FULL_ROWS or sum(each.size for each in portion) >= FULL_BYTES:
            yield portion
            portion = []
    if portion:
        yield portion


def _merged(store: ArchiveStore, files: Sequence[FileEntry], schema: TransactionSchema) -> FileEntry:
    table, day = files[0].table, Day(files[0].day)
    if len(files) == 1:
        return files[0]
    if table in (Table.TRANSACTIONS, Table.IMPORTED):
        rows = TransactionBatch.concat([read_transactions(store, file, schema) for file in files])
        return write_file(store, table, day, table_of(sorted_by_time(rows), schema))
    return write_parts(store, table, day, merged_log(store, files, log_schema(table).names))
