"""The arrays of a cell: opened for a set of measures, grown by doubling, and found again by other processes.

The retained rows and the marks are the truth; everything else in here derives from them (see `cell`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.window import kernel
from fraud_rules.window import layout as at
from fraud_rules.window.arrays import AnyArray, Arrays
from fraud_rules.window.plan import NO_MEASURES, Measures

Ints = NDArray[np.int64]

_MIN_ROWS = 64
_DERIVED = (
    "events", "passes", "id_table", "slots", "key_table", "pool", "leaves", "blocks_16", "blocks_256", "blocks_4096",
    "marks", "mark_table", "distinct", "distinct_table", "measures",
)  # fmt: skip
_BLOCKS = (16, 256, 4096)


class View:
    """Arrays as `layout` describes them, valid for `measures`.

    A change of any array raises the generation in the header, by which processes that map the same files notice
    (`refresh`) that theirs are old.
    """

    def __init__(self, arrays: Arrays, row_width: int, key_width: int, id_column: int) -> None:
        self.arrays = arrays
        self._row_width = row_width
        self._key_width = key_width
        self._id_column = id_column
        self.header: Ints = arrays.open("header", np.int64, at.HEADER_SIZE, 0)
        self.measures = NO_MEASURES
        self._generation = -1

    def clear(self, measures: Measures, rows: int, slots: int, marks: int) -> None:
        """Start over, empty, with room for so many rows, slots and marks. The pool is opened apart: `open_pool`."""
        for name in _DERIVED:
            self.arrays.drop(name)
        self.header[[at.H_EVENTS, at.H_SLOTS, at.H_POOL, at.H_MARKS, at.H_DISTINCT]] = 0
        self.measures = measures
        text = measures.encode()
        self.header[at.H_MEASURES] = len(text)
        self.arrays.open("measures", np.uint8, len(text), 0)[: len(text)] = np.frombuffer(text, np.uint8)
        self._open(max(_MIN_ROWS, rows), max(_MIN_ROWS, slots), 0, max(_MIN_ROWS, marks))
        self._changed()

    def refresh(self, decode: Callable[[bytes], Measures]) -> bool:
        """Open what another process has made or grown since; whether there was anything."""
        if self._generation == self.header[at.H_GENERATION]:
            return False
        size = int(self.header[at.H_MEASURES])
        self.measures = decode(self.arrays.open("measures", np.uint8, size, 0)[:size].tobytes())
        self._open(1, 1, 1, 1)
        self._generation = int(self.header[at.H_GENERATION])
        return True

    def grow(self, need: int) -> None:
        """Double the arrays behind a NEED_* of the kernel."""
        if need == at.NEED_EVENTS:
            self._open_events(2 * len(self.events))
        elif need == at.NEED_SLOTS:
            self._open_slots(2 * len(self.slots))
        elif need == at.NEED_MARKS:
            self._open_marks(2 * len(self.marks))
        else:
            self._open_pool(2 * len(self.pool))
        self._changed()

    def open_pool(self, rows: int) -> None:
        """Room for so many pool rows, and a start for more."""
        self._open_pool(max(4 * _MIN_ROWS, rows))
        self._changed()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays: list[AnyArray] = [
            self.events, self.passes, self.id_table, self.slots, self.key_table, self.pool, self.leaves, *self.blocks,
            self.marks, self.mark_table, self.distinct, self.distinct_table,
        ]  # fmt: skip
        return sum(array.nbytes for array in arrays)

    def _changed(self) -> None:
        self.header[at.H_GENERATION] += 1
        self._generation = int(self.header[at.H_GENERATION])

    def _open(self, rows: int, slots: int, pool: int, marks: int) -> None:
        self._open_events(rows)
        self._open_slots(slots)
        self._open_pool(pool)
        self._open_marks(marks)

    def _open_events(self, rows: int) -> None:
        self.events = self.arrays.open("events", np.int64, rows, self._row_width)
        rows = len(self.events)
        self.passes = self.arrays.open("passes", np.uint8, rows, len(self.measures.filters) + 1)
        self.id_table, grown = self._table("id_table", rows)
        if grown:
            kernel.index_events(self.events, self.header[at.H_EVENTS], self.id_table, self._id_column)
        distincts = self.measures.distincts_array()
        rows = max(1, rows * len(distincts))
        self.distinct = self.arrays.open("distinct", np.int64, rows, at.D_WIDTH)
        self.distinct_table, grown = self._table("distinct_table", rows)
        if grown:
            entries = self.header[at.H_DISTINCT]
            kernel.index_distinct(self.events, self.distinct, entries, self.distinct_table, distincts)

    def _open_slots(self, rows: int) -> None:
        self.slots = self.arrays.open("slots", np.int64, rows, self.key_at + self._key_width)
        self.key_table, grown = self._table("key_table", len(self.slots))
        if grown:
            key_columns = np.arange(self.key_at, self.slots.shape[1])
            kernel.index_slots(self.slots, self.header[at.H_SLOTS], self.key_table, key_columns, self.key_at)

    @property
    def key_at(self) -> int:
        """The column of `slots` where the key's values begin."""
        return at.S_WIDTH + len(self.measures.windows_ms) + 3 * len(self.measures.distincts)

    def _open_pool(self, rows: int) -> None:
        trees = len(self.measures.trees)
        self.pool = self.arrays.open("pool", np.int64, rows, at.P_SUMS + len(self.measures.totals))
        rows = len(self.pool) if trees else 0
        self.leaves = self.arrays.open("leaves", np.int64, rows, max(1, trees))
        self.blocks = tuple(
            self.arrays.open(f"blocks_{fan}", np.int64, rows // fan + 1, max(1, trees)) for fan in _BLOCKS
        )

    def _open_marks(self, rows: int) -> None:
        self.marks = self.arrays.open("marks", np.int64, rows, at.M_WIDTH)
        self.mark_table, grown = self._table("mark_table", len(self.marks))
        if grown:
            kernel.index_marks(self.marks, self.header[at.H_MARKS], self.mark_table)

    def _table(self, name: str, rows: int) -> tuple[NDArray[np.int32], bool]:
        """A hash table at most half full with `rows` entries, and whether it is new and to be filled."""
        size = 1 << (2 * rows - 1).bit_length()
        table: NDArray[np.int32] = self.arrays.open(name, np.int32, 1, 0)
        if len(table) >= size:
            return table, False
        self.arrays.drop(name)
        return self.arrays.open(name, np.int32, size, 0), True
