"""Sorts past transactions by event time. The files can be of any size and in any order.

This is an external merge sort: it sorts runs that fit into memory, stores them in a folder, and merges them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from fraud_rules.batch.archive.store import named_storage_errors
from fraud_rules.batch.rejections import Rejections, decode_history
from fraud_rules.codec.history.record import HistoryRecord
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema

RUN_RECORDS = 200_000
_MERGED_ROWS: Final = 2_000
_SCHEMA: Final = pa.schema([("time", pa.int64()), ("index", pa.int64()), ("value", pa.binary())])

Row = tuple[int, int, bytes]
"""The event time in ms, the position in the files, and the record."""


@dataclass(slots=True)
class OrderedHistory:
    """Records sorted by (event time, position in the files). `rejected` counts the unreadable records.

    An unreadable record stays behind the previous transaction, and the detector quarantines it.
    """

    folder: Path
    schema: TransactionSchema
    settings: DetectorSettings
    now_ms: int
    records: int = 0
    rejected: Rejections = field(default_factory=Rejections)
    first_ms: int | None = None
    last_ms: int | None = None
    _runs: list[Path] = field(default_factory=list)

    def add(self, name: str, records: Iterable[HistoryRecord]) -> None:
        """Add the records of one more file. Raises StorageFull."""
        rest = iter(records)
        while run := list(islice(rest, RUN_RECORDS)):
            self._store_run(name, run)

    def rows(self) -> Iterator[Row]:
        """Merge the runs: all records in order."""
        return heapq.merge(*map(_read, self._runs))

    def _store_run(self, name: str, records: Sequence[HistoryRecord]) -> None:
        times = self._times(name, records)
        order = np.argsort(times, kind="stable")
        columns = [
            pa.array(times[order]),
            pa.array(self.records + order),
            pa.array([records[i].value for i in order.tolist()], pa.binary()),
        ]
        path = self.folder / f"run-{len(self._runs)}.arrow"
        with named_storage_errors(path), pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
            writer.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA), max_chunksize=_MERGED_ROWS)
        self._runs.append(path)
        self.records += len(records)

    def _times(self, name: str, records: Sequence[HistoryRecord]) -> np.ndarray:
        """The event time of each record. An unreadable record gets that of the previous transaction."""
        n = len(records)
        decoded = decode_history(records, 0, 0, self.now_ms, self.schema, self.settings.record_limits)
        self.rejected.add(name, n, decoded.rejects)
        known = decoded.batch.columns[TIME_FIELD].values
        if len(known):
            first, last = int(known.min()), int(known.max())
            self.first_ms = first if self.first_ms is None else min(first, self.first_ms)
            self.last_ms = last if self.last_ms is None else max(last, self.last_ms)
        if not len(known):
            return np.full(n, 0 if self.last_ms is None else self.last_ms, np.int64)
        before = np.searchsorted(decoded.batch.offset, np.arange(n), side="right") - 1
        times: np.ndarray = known[np.maximum(before, 0)]
        return times


def _read(path: Path) -> Iterator[Row]:
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for i in range(reader.num_record_batches):
            columns = [column.to_pylist() for column in reader.get_batch(i).columns]
            yield from zip(*columns, strict=True)
