"""Displaced rows: rows far before the newest row of their key, which one batch inserts.

A key may have a million rows in its window. The insertion of one row in their middle would move half of them, and a
batch can bring thousands of such rows. So the rows that belong at least FAR rows before the newest row enter a short
sorted run beside the key rows, the displaced run of their key:

    key rows       1 2 3 5 6 8 9 ... 999,999      and running totals over these rows
    displaced run  4 7                            and running totals over these rows

- The run has the structure of key rows: totals, leaves and blocks of extremes, members of multisets, window offsets.
  Its rows are in a second set of arrays (`side`: a StateArrays with another `pool` and other `slots`, one row of
  `slots` for each run), so the functions of `key_rows`, `extremes` and `multiset` work on it unchanged.
- The aggregate of a window is that of its key rows combined with that of its displaced rows (see `evaluation`): sums
  and counts add, extremes compare, and both change the same multiset. A key without a displaced run pays one test.
- `merge` moves the rows of a run into the key rows in one pass from the newest row down. At each row, the merged total
  is the total of the key rows plus the total of the displaced rows up to there. A run is merged at the end of the
  batch, before an array grows, or when it has about 2 * sqrt(n) rows for n key rows. So a displaced row costs
  O(sqrt(n)), and the result is that of an insertion one by one: rows are ordered by (time, arrival) in any case.
- Runs exist only during a batch, in the memory of one process. The arrays of the state contain none of them.
"""

from __future__ import annotations

import numpy as np

from fraud_rules.engine.window import extremes, multiset
from fraud_rules.engine.window.bundles import DisplacedRuns, Ints, MeasureArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.key_rows import insert, insert_offset, make_room
from fraud_rules.engine.window.layout import P_EVENT, P_SUMS, P_TIME, S_BASE, S_CAP, S_TAIL, S_WIDTH

FAR = 1024
"""A row enters the displaced run of its key if it belongs at least this many rows before the newest row. Fewer rows
shift about as fast as a run accepts a row."""
RUN_ROWS = 4096
"""The capacity of a run."""
RUNS = 64
"""The runs at the same time. The rows of further keys shift."""

NO_RUN = -1
FULL = -2


@inlined
def run_of(runs: DisplacedRuns, slot: int) -> int:
    """The slot's run, or NO_RUN."""
    if runs.used[0] == 0:
        return NO_RUN
    return np.int64(runs.of_slot[slot]) - 1


@inlined
def find_run(
    state: StateArrays, side: StateArrays, runs: DisplacedRuns, measures: MeasureArrays, slot: int, at: int
) -> int:
    """The run, with room for one more row, for a row that belongs at offset `at` of the slot's rows. Returns NO_RUN if
    the row is near the newest row, or all runs are in use by other slots.

    Returns FULL if the runs have no memory, or the pool has no room to merge the slot's run.
    """
    if state.slots[slot, S_TAIL] - at < runs.far:
        return NO_RUN
    return _provide(state, side, runs, measures, slot)


@compiled
def _provide(state: StateArrays, side: StateArrays, runs: DisplacedRuns, measures: MeasureArrays, slot: int) -> int:
    if runs.owners.shape[0] == 0:
        return FULL
    run = run_of(runs, slot)
    if run == NO_RUN:
        if runs.used[0] == runs.owners.shape[0]:
            return NO_RUN
        run = runs.used[0]
        runs.used[0] = run + 1
        runs.owners[run] = slot
        runs.of_slot[slot] = run + 1
        side.slots[run, S_BASE] = run * RUN_ROWS
        side.slots[run, S_CAP] = RUN_ROWS
        _empty(side, run)
    most = min(RUN_ROWS, np.int64(2.0 * np.sqrt(state.slots[slot, S_TAIL])))
    if side.slots[run, S_TAIL] >= most and not merge(state, side, measures, slot, run):
        return FULL
    return run


@compiled
def merge_all(state: StateArrays, side: StateArrays, runs: DisplacedRuns, measures: MeasureArrays) -> bool:
    """Merge all runs into their key rows. Returns False if the pool is full; a repetition then merges the others."""
    for run in range(runs.used[0]):
        if not merge(state, side, measures, runs.owners[run], run):
            return False
    for run in range(runs.used[0]):
        runs.of_slot[runs.owners[run]] = 0
    runs.used[0] = 0
    return True


@compiled
def merge(state: StateArrays, side: StateArrays, measures: MeasureArrays, slot: int, run: int) -> bool:
    """Merge a run into the slot's key rows, and empty it. Returns False and changes nothing if the pool is full."""
    rows = side.slots[run, S_TAIL]
    if rows == 0:
        return True
    full = state.slots[slot, S_TAIL] + rows > state.slots[slot, S_CAP]
    if full and not make_room(state, measures, slot, rows):
        return False
    for w in range(measures.windows.shape[0]):
        state.slots[slot, S_WIDTH + w] += _rows_before(state, side, slot, run, state.slots[slot, S_WIDTH + w])
    _merge_multisets(state, side, measures, slot, run)
    _merge_rows(state, side, measures, slot, run)
    _empty(side, run)
    return True


@compiled
def insert_displaced(side: StateArrays, measures: MeasureArrays, run: int, event: int, time: int) -> None:
    """Insert an event into a run, which must have room."""
    insert(side, measures, run, insert_offset(side, run, time), event, time)


@inlined
def _empty(side: StateArrays, run: int) -> None:
    side.slots[run, S_TAIL] = 0
    for c in range(S_WIDTH, side.slots.shape[1]):
        side.slots[run, c] = 0


@inlined
def _precedes(pool: Ints, row: int, other: Ints, other_row: int) -> bool:
    """Whether a row sorts before a row of another pool, by (time, arrival). Events are in arrival order."""
    if pool[row, P_TIME] != other[other_row, P_TIME]:
        return bool(pool[row, P_TIME] < other[other_row, P_TIME])
    return bool(pool[row, P_EVENT] < other[other_row, P_EVENT])


@compiled
def _rows_before(state: StateArrays, side: StateArrays, slot: int, run: int, offset: int) -> int:
    """Count the rows of the run that sort before the slot's key row at this offset; all rows for an offset after the
    newest row."""
    high = side.slots[run, S_TAIL]
    if offset >= state.slots[slot, S_TAIL]:
        return high
    low = 0
    while low < high:
        middle = (low + high) >> 1
        if _precedes(side.pool, side.slots[run, S_BASE] + middle, state.pool, state.slots[slot, S_BASE] + offset):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _merge_multisets(state: StateArrays, side: StateArrays, measures: MeasureArrays, slot: int, run: int) -> None:
    """Let the multisets hold the rows of the merged windows: from the first to the last of their key rows."""
    base = side.slots[run, S_BASE]
    for measure in range(measures.distincts.shape[0]):
        word = multiset.words_of(measures, measure)
        n = state.slots[slot, word + 2] + side.slots[run, word + 2]
        low = state.slots[slot, word]
        high = state.slots[slot, word + 1]
        start = _rows_before(state, side, slot, run, low)
        end = _rows_before(state, side, slot, run, high - 1) if low < high else start
        for k in range(start, end):
            n += multiset.change(side, measures, measure, base + k, 1)
        for k in range(side.slots[run, word], side.slots[run, word + 1]):
            n += multiset.change(side, measures, measure, base + k, -1)
        state.slots[slot, word] = low + start
        state.slots[slot, word + 1] = high + end
        state.slots[slot, word + 2] = n


@compiled
def _merge_rows(state: StateArrays, side: StateArrays, measures: MeasureArrays, slot: int, run: int) -> None:
    """Move the rows of a run to their places among the slot's key rows, which must have room."""
    pool, extra = state.pool, side.pool
    base = state.slots[slot, S_BASE]
    tail = state.slots[slot, S_TAIL]
    source = side.slots[run, S_BASE]
    rows = side.slots[run, S_TAIL]
    trees = measures.trees.shape[0]
    distincts = measures.distincts.shape[0]
    i = tail - 1
    j = rows - 1
    while j >= 0:
        target = base + i + j + 1
        if i >= 0 and _precedes(extra, source + j, pool, base + i):
            pool[target, P_TIME] = pool[base + i, P_TIME]
            pool[target, P_EVENT] = pool[base + i, P_EVENT]
            for c in range(P_SUMS, pool.shape[1]):
                pool[target, c] = pool[base + i, c] + extra[source + j, c]
            for m in range(trees):
                state.leaves[target, m] = state.leaves[base + i, m]
            for m in range(distincts):
                state.members[target, m] = state.members[base + i, m]
            i -= 1
        else:
            pool[target, P_TIME] = extra[source + j, P_TIME]
            pool[target, P_EVENT] = extra[source + j, P_EVENT]
            for c in range(P_SUMS, pool.shape[1]):
                pool[target, c] = extra[source + j, c] + (pool[base + i, c] if i >= 0 else 0)
            for m in range(trees):
                state.leaves[target, m] = side.leaves[source + j, m]
            for m in range(distincts):
                state.members[target, m] = side.members[source + j, m]
            j -= 1
    state.slots[slot, S_TAIL] = tail + rows
    if trees > 0:
        extremes.refresh(state, base, state.slots[slot, S_CAP], i + 1, tail + rows)
