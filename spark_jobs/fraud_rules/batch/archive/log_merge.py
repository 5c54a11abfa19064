"""Reads the files of a log as one sequence, with a bounded part of each file in memory.

The files of a day overlap, because a merge of small files leaves full files between them as they are. Append times can
step back at midnight. So the files of a day are merged with those of the next day, record by record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fraud_rules.batch.archive.columns import OFFSET, PARTITION
from fraud_rules.batch.archive.files import open_parquet
from fraud_rules.batch.archive.manifest import FileEntry
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.model.day import DAY_MS

_PART_ROWS: Final = 4_096
_BUFFER_BYTES: Final = 1_048_576
_TOGETHER_MS: Final = 2 * DAY_MS
_OFFSETS: Final = 1 << 47
"""More than the offsets of a partition, so that (partition, offset) fits one integer."""


def merged_log(store: ArchiveStore, files: Sequence[FileEntry], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the records of a log, in parts: the files of one day in the order of (partition, offset), those of several
    days with each partition in the order of offsets.

    Raises ArchiveDamaged, ArchiveUnreachable.
    """
    waiting = deque(sorted(files, key=lambda each: (each.first_ms, each.path)))
    wanted = list(dict.fromkeys([*columns, PARTITION, OFFSET]))
    opened: list[_OpenFile] = []
    while waiting or opened:
        while waiting and (not opened or waiting[0].first_ms < min(each.first_ms for each in opened) + _TOGETHER_MS):
            opened.append(_OpenFile(store, waiting.popleft(), wanted))
        last = min((each.last for each in opened if each.last is not None), default=None)
        if last is not None:
            parts = [part for each in opened if (part := each.up_to(last)) is not None]
            yield parts[0] if len(parts) == 1 else _sorted(parts)
        opened = [each for each in opened if each.last is not None]


class _OpenFile:
    """A file, with the next part of its records. `last` is the place of the part's last record, None at the end."""

    def __init__(self, store: ArchiveStore, entry: FileEntry, columns: list[str]) -> None:
        self.first_ms = entry.first_ms
        self.last: int | None = None
        self._parts = _parts(store, entry, columns)
        self._part: pa.Table | None = None
        self._places = np.zeros(0, np.int64)
        self._load()

    def up_to(self, last: int) -> pa.Table | None:
        """Take the loaded records up to a place, None if there is none."""
        count = int(np.searchsorted(self._places, last, side="right"))
        if count == 0 or self._part is None:
            return None
        taken = self._part.slice(0, count)
        if count == len(self._places):
            self._load()
        else:
            self._part, self._places = self._part.slice(count), self._places[count:]
        return taken

    def _load(self) -> None:
        self._part = next(self._parts, None)
        self._places = self._places[:0] if self._part is None else _places(self._part)
        self.last = int(self._places[-1]) if len(self._places) else None


def _parts(store: ArchiveStore, entry: FileEntry, columns: list[str]) -> Iterator[pa.Table]:
    with open_parquet(store, entry, buffer_bytes=_BUFFER_BYTES) as file:
        for batch in file.iter_batches(_PART_ROWS, columns=columns):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def _places(records: pa.Table) -> NDArray[np.int64]:
    partitions, offsets = (records.column(name).to_numpy() for name in (PARTITION, OFFSET))
    places: NDArray[np.int64] = partitions.astype(np.int64) * _OFFSETS + offsets
    return places


def _sorted(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])
