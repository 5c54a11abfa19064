"""Reads a day's transactions in slices, in the order of (event time, arrival).

Arrival is the order in which the detector read the transactions: by batch, within a batch by (append time, partition,
offset). The files are sorted by event time, so a slice reads only the row groups that overlap it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fraud_rules.batch.archive.columns import OFFSET, PARTITION, PLACE, batch_of
from fraud_rules.batch.archive.files import open_parquet, string_fields
from fraud_rules.batch.archive.manifest import FileEntry
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.cuts import Cuts
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

SLICE_ROWS = 200_000

Ints = NDArray[np.int64]


def arranged(rows: TransactionBatch, batch_numbers: Ints) -> TransactionBatch:
    """Sort rows by (event time, arrival). `batch_numbers` int64[n] from `Cuts.batch_of`."""
    times = rows.columns[TIME_FIELD].values
    return rows.take(np.lexsort((rows.offset, rows.partition, rows.append_ms, batch_numbers, times)))


@dataclass(frozen=True, slots=True)
class DayFeed:
    """The evaluated transactions of some files. With `cuts` None, all transactions in the order of append time.

    Only fields of `schema` are read, and only transactions from `since_ms` on.
    """

    store: ArchiveStore
    files: Sequence[FileEntry]
    schema: TransactionSchema
    cuts: Cuts | None
    since_ms: int | None = None

    def slices(self, slice_rows: int = SLICE_ROWS) -> Iterator[TransactionBatch]:
        """Yield the rows in order and once each, about `slice_rows` at a time. Raises ArchiveDamaged."""
        with ExitStack() as stack:
            strings = string_fields(self.schema)
            files = [_OpenFile(stack.enter_context(open_parquet(self.store, e, strings)), e.path) for e in self.files]
            bounds = _bounds(files, slice_rows)
            if self.since_ms is not None:
                bounds = sorted({max(bound, self.since_ms) for bound in bounds})
            for start_ms, end_ms in pairwise(bounds):
                parts = [part for file in files for part in file.between(start_ms, end_ms, self.schema)]
                rows = self._in_order(parts)
                if rows is not None:
                    yield from _cut(rows, slice_rows)

    def evaluated_rows(self, ends: Mapping[int, int]) -> int:
        """The number of rows before these ends, by partition. Reads offsets only from files with other rows."""
        return sum(self._evaluated_in(entry, ends) for entry in self.files)

    def _evaluated_in(self, entry: FileEntry, ends: Mapping[int, int]) -> int:
        if all(end <= ends.get(int(partition), 0) for partition, end in entry.ends.items()):
            return entry.rows
        with open_parquet(self.store, entry) as file:
            table = file.read(columns=[PARTITION, OFFSET])
        partition, offset = table.column(PARTITION).to_numpy(), table.column(OFFSET).to_numpy()
        return sum(int((offset[partition == each] < end).sum()) for each, end in ends.items())

    def _in_order(self, parts: Sequence[TransactionBatch]) -> TransactionBatch | None:
        if not parts:
            return None
        rows = TransactionBatch.concat(parts)
        if self.cuts is None:
            return arranged(rows, np.zeros(len(rows), np.int64))
        numbers = self.cuts.batch_of(rows)
        evaluated = numbers < len(self.cuts)
        if not evaluated.all():
            rows, numbers = rows.take(evaluated), numbers[evaluated]
        return arranged(rows, numbers) if len(rows) else None


class _OpenFile:
    """A file that is read once, in the order of time."""

    def __init__(self, file: pq.ParquetFile, name: str) -> None:
        self._file = file
        self._name = name
        column = file.schema_arrow.get_field_index(TIME_FIELD)
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        stats = [group.column(column).statistics for group in groups]
        self.spans = [(each.min_raw, each.max_raw, group.num_rows) for each, group in zip(stats, groups, strict=True)]
        self._kept: tuple[int, TransactionBatch] | None = None

    def between(self, start_ms: int, end_ms: int, schema: TransactionSchema) -> Iterator[TransactionBatch]:
        """Yield the rows with event times in [start, end)."""
        for i, (first_ms, last_ms, _) in enumerate(self.spans):
            if last_ms < start_ms or first_ms >= end_ms:
                continue
            rows = self._group(i, schema)
            if start_ms <= first_ms and last_ms < end_ms:
                yield rows
                continue
            times = rows.columns[TIME_FIELD].values
            low, high = np.searchsorted(times, [start_ms, end_ms], side="left").tolist()
            if high > low:
                yield rows.take(np.arange(low, high))

    def _group(self, i: int, schema: TransactionSchema) -> TransactionBatch:
        """Read a row group. The last one is kept, because the next slice starts in it."""
        if self._kept is None or self._kept[0] != i:
            table = self._file.read_row_group(i, columns=[*PLACE, *schema.names])
            self._kept = i, batch_of(table, schema, self._name)
        return self._kept[1]


def _bounds(files: Sequence[_OpenFile], slice_rows: int) -> list[int]:
    """Times that divide the rows into slices of about equal size, estimated from the row groups' time spans."""
    spans = [span for file in files for span in file.spans]
    if not spans:
        return []
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    edges = np.array(sorted({time for span in spans for time in span[:2]}), dtype=np.float64)
    filled = np.zeros(len(edges))
    for start_ms, end_ms, rows in spans:
        share = (edges - start_ms) / max(1, end_ms - start_ms)
        filled += rows * np.clip(share, 0.0, 1.0)
    slices = max(1, round(sum(span[2] for span in spans) / slice_rows))
    inner = np.interp(np.linspace(0, filled[-1], slices + 1)[1:-1], filled, edges).astype(np.int64)
    return sorted({first, *inner.tolist(), last + 1})


def _cut(rows: TransactionBatch, slice_rows: int) -> Iterator[TransactionBatch]:
    """Split rows into parts of at most twice `slice_rows`."""
    if len(rows) <= 2 * slice_rows:
        yield rows
        return
    for start in range(0, len(rows), slice_rows):
        yield rows.take(np.arange(start, min(start + slice_rows, len(rows))))
