"""Opens, grows and reopens the arrays of a grouping state, which the Python workers of a host can share.

The retained rows and the marks are the source of truth. All other arrays derive from them (see `grouping_state`). The
array `slots` has one row per grouping key, and `pool` has the key rows (see `window.layout`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from fraud_rules.engine.state.arrays import Arrays
from fraud_rules.engine.window import hash_tables
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Ints, MeasureArrays, StateArrays, StringArrays, Table
from fraud_rules.engine.window.plan import NO_MEASURES, Measures
from fraud_rules.engine.window.strings import index_strings

_MIN_ROWS = 64
_DOUBLED_BELOW = 8_192
"""Shorter arrays double when they are full. Longer arrays grow by an eighth, so that no batch waits for a doubling and
little memory is unused."""
_DERIVED = (*(name for name in StateArrays._fields if name != "header"), "measures")
_STRINGS = ("string_ends", "string_text", "string_table")
_LEAST_TEXT_BYTES = 1_024


class View:
    """The arrays of one grouping state (`state`), as its `measures` need them: a part of the key group's view.

    A new or grown array increments the generation in the header. Processes that map the same files detect this in
    `refresh` and reopen their arrays.
    """

    def __init__(
        self, arrays: Arrays, row_width: int, key_columns: Ints, time_column: int, identity: tuple[int, int]
    ) -> None:
        self._arrays = arrays
        self._row_width = row_width
        self._key_columns = key_columns
        self._time_column = time_column
        self._id_column, self._role_column = identity
        self.header: Ints = arrays.open("header", np.int64, at.HEADER_SIZE, 0)
        self.measures = NO_MEASURES
        self.measure_arrays = self._collect_arrays()
        self.state = _no_arrays(self.header)
        self.strings = _NO_STRINGS
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

    def clear_strings(self) -> None:
        """Remove all strings."""
        for name in _STRINGS:
            self._arrays.drop(name)
        self.header[[at.H_STRINGS, at.H_TEXT, at.H_STRINGS_DUE]] = 0
        self.header[at.H_SEED] = int.from_bytes(os.urandom(7), "little")
        self._open_strings(_MIN_ROWS, _LEAST_TEXT_BYTES)
        self._count_change()

    def make_room_for_strings(self, added: int, added_bytes: int) -> None:
        """Make room for this many more strings, with texts of this many bytes in all."""
        ends, text = self.strings.ends, self.strings.text
        count, used = int(self.header[at.H_STRINGS]) + added, int(self.header[at.H_TEXT]) + added_bytes
        if count > len(ends) or used > len(text):
            self._open_strings(
                _grown(len(ends), count) if count > len(ends) else len(ends),
                _grown(len(text), used) if used > len(text) else len(text),
            )
            self._count_change()

    def refresh(self, decode: Callable[[bytes], Measures]) -> bool:
        """Reopen the arrays if another process has created or grown one. Returns False if nothing has changed.

        `decode` parses the stored text of the measures.
        """
        if self._generation == self.header[at.H_GENERATION]:
            return False
        size = int(self.header[at.H_MEASURES])
        self._set_measures(decode(self._arrays.open("measures", np.uint8, size, 0)[:size].tobytes()))
        generation = int(self.header[at.H_GENERATION])
        self._open_strings(1, 1)
        self._open(1, 1, 1, 1)
        self._generation = self.header[at.H_GENERATION] = generation
        return True

    def grow(self, need: int, rows: int = 1) -> None:
        """Grow the array that the kernel has filled. `need` is the NEED_* code that the kernel returned.

        `events` gets room for at least `rows` more rows, so that a batch grows it at most once.
        """
        state = self.state
        if need == at.NEED_EVENTS:
            self._open_events(_grown(len(state.events), int(self.header[at.H_EVENTS]) + rows))
        elif need == at.NEED_SLOTS:
            self._open_slots(_grown(len(state.slots)))
        elif need == at.NEED_POOL:
            self._open_pool(_grown(len(state.pool), 4 * _MIN_ROWS))
        elif need == at.NEED_MARKS:
            self._open_marks(_grown(len(state.marks)))
        self._count_change()

    def open_pool(self, rows: int) -> None:
        """Grow the pool to at least this many rows."""
        self._open_pool(max(4 * _MIN_ROWS, rows))
        self._count_change()

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
            role_column=self._role_column,
            key_at=at.S_WIDTH + len(measures.windows) + 3 * len(measures.distincts),
        )

    def _open(self, rows: int, slots: int, pool: int, marks: int) -> None:
        """Open every array with at least this many rows."""
        self._open_events(rows)
        self._open_slots(slots)
        self._open_pool(pool)
        self._open_marks(marks)
        count = len(self.measures.series)
        self.state = self.state._replace(series=self._arrays.open("series", np.int64, count, at.Q_WIDTH)[:count])
        self._count_change()

    def _open_events(self, rows: int) -> None:
        measures = self.measures
        events = self._arrays.open("events", np.int64, rows, self._row_width)
        rows = len(events)
        passes = self._arrays.open("passes", np.uint8, rows, len(measures.filters) + 1)
        entries = max(1, rows * len(measures.distincts))
        distinct = self._arrays.open("distinct", np.int64, entries, at.D_WIDTH)
        id_table, has_new_ids = self._table("id_table", rows)
        distinct_table, has_new_values = self._table("distinct_table", entries)
        self.state = self.state._replace(
            events=events, passes=passes, distinct=distinct, id_table=id_table, distinct_table=distinct_table
        )
        if has_new_ids:
            hash_tables.index_events(self.state, self.measure_arrays)
        if has_new_values:
            hash_tables.index_distinct(self.state, self.measure_arrays)

    def _open_slots(self, rows: int) -> None:
        slots = self._arrays.open("slots", np.int64, rows, self.measure_arrays.key_at + len(self._key_columns))
        key_table, is_new = self._table("key_table", len(slots))
        self.state = self.state._replace(slots=slots, key_table=key_table)
        if is_new:
            hash_tables.index_slots(self.state, self.measure_arrays)

    def _open_pool(self, rows: int) -> None:
        open_array, measures = self._arrays.open, self.measures
        pool = open_array("pool", np.int64, rows, at.P_SUMS + len(measures.totals))
        rows, trees, distincts = len(pool), len(measures.trees), len(measures.distincts)
        leaves, width = rows if trees else 1, max(1, trees)
        self.state = self.state._replace(
            pool=pool,
            members=open_array("members", np.int64, rows if distincts else 1, max(1, distincts)),
            leaves=open_array("leaves", np.int64, leaves, width),
            blocks_16=open_array("blocks_16", np.int64, leaves // 16 + 1, width),
            blocks_256=open_array("blocks_256", np.int64, leaves // 256 + 1, width),
            blocks_4096=open_array("blocks_4096", np.int64, leaves // 4096 + 1, width),
        )

    def _open_marks(self, rows: int) -> None:
        marks = self._arrays.open("marks", np.int64, rows, at.M_WIDTH)
        mark_table, is_new = self._table("mark_table", len(marks))
        self.state = self.state._replace(marks=marks, mark_table=mark_table)
        if is_new:
            hash_tables.index_marks(self.state)

    def _open_strings(self, strings: int, size_bytes: int) -> None:
        ends = self._arrays.open("string_ends", np.int64, strings, 0)
        text = self._arrays.open("string_text", np.uint8, size_bytes, 0)
        table, is_new = self._table("string_table", len(ends))
        self.strings = StringArrays(ends, text, table)
        if is_new:
            index_strings(self.header, self.strings)

    def _count_change(self) -> None:
        """Tell other processes to reopen the arrays."""
        self.nbytes = sum([array.nbytes for array in (*self.state, *self.strings)])
        self.header[at.H_GENERATION] += 1
        self._generation = int(self.header[at.H_GENERATION])

    def _table(self, name: str, rows: int) -> tuple[Table, bool]:
        """Open a hash table that is at most half full with `rows` entries, and whether it is new.

        A table that must grow is recreated empty.
        """
        size = 1 << (2 * rows - 1).bit_length()
        table: Table = self._arrays.open(name, np.int32, 1, 0)
        if len(table) >= size:
            return table, False
        self._arrays.drop(name)
        table = self._arrays.open(name, np.int32, size, 0)
        return table, True


def _no_arrays(header: Ints) -> StateArrays:
    """A state before its arrays are opened."""
    rows, table = np.empty((0, 1), dtype=np.int64), np.empty(0, dtype=np.int32)
    passes = np.empty((0, 1), dtype=np.uint8)
    return StateArrays(
        header, rows, passes, table, rows, table, rows, rows, rows, rows, rows, rows, rows, table, rows, table, rows
    )


_NO_STRINGS = StringArrays(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.int32))


def _grown(rows: int, needed: int = 0) -> int:
    """The size of an array that is full at this size, and needs room for `needed` rows."""
    return max(rows + (rows if rows < _DOUBLED_BELOW else rows >> 3), needed)
