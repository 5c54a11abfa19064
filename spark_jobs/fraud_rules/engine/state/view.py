"""Opens, grows and reopens the arrays of a grouping state, which the Python workers of a host can share.

The retained rows and the marks are the source of truth. All other arrays derive from them (see `grouping_state`). The
array `slots` has one row per grouping key, and `pool` has the key rows (see `window.layout`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fraud_rules.engine.state.arrays import Arrays
from fraud_rules.engine.window import hash_tables
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Ints, MeasureArrays, StateArrays, Table
from fraud_rules.engine.window.plan import NO_MEASURES, Measures

_MIN_ROWS = 64
_DOUBLED_BELOW = 8_192
"""Shorter arrays double when they are full. Longer arrays grow by an eighth, so that no batch waits for a doubling and
little memory is unused."""
_DERIVED = (*(name for name in StateArrays._fields if name != "header"), "measures")


class View:
    """The arrays of one grouping state (`state`), as its `measures` need them: a part of the key group's view.

    A new or grown array increments the generation in the header. Processes that map the same files detect this in
    `refresh` and reopen their arrays.
    """

    def __init__(self, arrays: Arrays, row_width: int, key_columns: Ints, time_column: int, id_column: int) -> None:
        self._arrays = arrays
        self._row_width = row_width
        self._key_columns = key_columns
        self._time_column = time_column
        self._id_column = id_column
        self.header: Ints = arrays.open("header", np.int64, at.HEADER_SIZE, 0)
        self.measures = NO_MEASURES
        self.measure_arrays = self._collect_arrays()
        self.state: StateArrays
        self.nbytes = 0
        """The size of all arrays in bytes."""
        self._generation = -1

    def clear(self, measures: Measures, rows: int, slots: int, marks: int) -> None:
        """Recreate all arrays, with room for this many rows, slots and marks. `open_pool` makes room in the pool."""
        for name in _DERIVED:
            self._arrays.drop(name)
        self.header[[at.H_EVENTS, at.H_SLOTS, at.H_POOL, at.H_MARKS, at.H_DISTINCT]] = 0
        text = measures.encode()
        self.header[at.H_MEASURES] = len(text)
        self._arrays.open("measures", np.uint8, len(text), 0)[: len(text)] = np.frombuffer(text, np.uint8)
        self._set_measures(measures)
        self._open(max(_MIN_ROWS, rows), max(_MIN_ROWS, slots), 1, max(_MIN_ROWS, marks))

    def refresh(self, decode: Callable[[bytes], Measures]) -> bool:
        """Reopen the arrays if another process has created or grown one. Returns False if nothing has changed.

        `decode` parses the stored text of the measures.
        """
        if self._generation == self.header[at.H_GENERATION]:
            return False
        size = int(self.header[at.H_MEASURES])
        self._set_measures(decode(self._arrays.open("measures", np.uint8, size, 0)[:size].tobytes()))
        generation = int(self.header[at.H_GENERATION])
        self._open(1, 1, 1, 1)
        self._generation = self.header[at.H_GENERATION] = generation
        return True

    def grow(self, need: int, rows: int = 1) -> None:
        """Grow the array that the kernel has filled. `need` is the NEED_* code that the kernel returned.

        `events` gets room for at least `rows` more rows, so that a batch grows it at most once.
        """
        state, header = self.state, self.header
        events, slots, pool, marks = len(state.events), len(state.slots), len(state.pool), len(state.marks)
        self._open(
            _grown(events, int(header[at.H_EVENTS]) + rows) if need == at.NEED_EVENTS else events,
            _grown(slots) if need == at.NEED_SLOTS else slots,
            _grown(pool) if need == at.NEED_POOL else pool,
            _grown(marks) if need == at.NEED_MARKS else marks,
        )

    def open_pool(self, rows: int) -> None:
        """Grow the pool to at least this many rows."""
        state = self.state
        self._open(len(state.events), len(state.slots), max(4 * _MIN_ROWS, rows), len(state.marks))

    def _set_measures(self, measures: Measures) -> None:
        self.measures = measures
        self.measure_arrays = self._collect_arrays()

    def _collect_arrays(self) -> MeasureArrays:
        measures = self.measures
        return MeasureArrays(
            totals=measures.totals_array(),
            trees=measures.trees_array(),
            windows=measures.windows_array(),
            distincts=measures.distincts_array(),
            key_columns=self._key_columns,
            time_column=self._time_column,
            id_column=self._id_column,
            key_at=at.S_WIDTH + len(measures.windows_ms) + 3 * len(measures.distincts),
        )

    def _open(self, rows: int, slots: int, pool: int, marks: int) -> None:
        """Open every array with at least this many rows, and refill the tables that have grown."""
        open_array, measures = self._arrays.open, self.measures
        n_trees = len(measures.trees)
        width = max(1, n_trees)
        events = open_array("events", np.int64, rows, self._row_width)
        rows = len(events)
        slot_rows = open_array("slots", np.int64, slots, self.measure_arrays.key_at + len(self._key_columns))
        pool_rows = open_array("pool", np.int64, pool, at.P_SUMS + len(measures.totals))
        leaves = len(pool_rows) if n_trees else 1
        mark_rows = open_array("marks", np.int64, marks, at.M_WIDTH)
        distinct = max(1, rows * len(measures.distincts))
        larger: set[str] = set()
        self.state = StateArrays(
            header=self.header,
            events=events,
            passes=open_array("passes", np.uint8, rows, len(measures.filters) + 1),
            id_table=self._table("id_table", rows, larger),
            slots=slot_rows,
            key_table=self._table("key_table", len(slot_rows), larger),
            pool=pool_rows,
            members=open_array(
                "members", np.int64, len(pool_rows) if measures.distincts else 1, max(1, len(measures.distincts))
            ),
            leaves=open_array("leaves", np.int64, leaves, width),
            blocks_16=open_array("blocks_16", np.int64, leaves // 16 + 1, width),
            blocks_256=open_array("blocks_256", np.int64, leaves // 256 + 1, width),
            blocks_4096=open_array("blocks_4096", np.int64, leaves // 4096 + 1, width),
            marks=mark_rows,
            mark_table=self._table("mark_table", len(mark_rows), larger),
            distinct=open_array("distinct", np.int64, distinct, at.D_WIDTH),
            distinct_table=self._table("distinct_table", distinct, larger),
        )
        self.nbytes = sum([array.nbytes for array in self.state])
        self._fill_tables(larger)
        self.header[at.H_GENERATION] += 1
        self._generation = int(self.header[at.H_GENERATION])

    def _fill_tables(self, larger: set[str]) -> None:
        if "id_table" in larger:
            hash_tables.index_events(self.state, self.measure_arrays)
        if "key_table" in larger:
            hash_tables.index_slots(self.state, self.measure_arrays)
        if "mark_table" in larger:
            hash_tables.index_marks(self.state)
        if "distinct_table" in larger:
            hash_tables.index_distinct(self.state, self.measure_arrays)

    def _table(self, name: str, rows: int, larger: set[str]) -> Table:
        """Open a hash table that is at most half full with `rows` entries.

        A table that must grow is recreated empty, and its name is added to `larger`.
        """
        size = 1 << (2 * rows - 1).bit_length()
        table: Table = self._arrays.open(name, np.int32, 1, 0)
        if len(table) >= size:
            return table
        self._arrays.drop(name)
        larger.add(name)
        grown: Table = self._arrays.open(name, np.int32, size, 0)
        return grown


def _grown(rows: int, needed: int = 0) -> int:
    """The size of an array that is full at this size, and needs room for `needed` rows."""
    return max(rows + (rows if rows < _DOUBLED_BELOW else rows >> 3), needed)
