"""The compiled window kernel: one pass over the new transactions of a grouping state in arrival order.

The kernel is the plain loop of the specification. For each transaction, it detects duplicates and lateness, stores the
transaction, evaluates the rules of its own version, and advances the watermark and the retention bound. The memory
layout (`key_rows`) makes it fast. The aggregate over a window is the difference of two rows of running totals, for any
number of rows in between. The left end of each window is stored per key and moves forward with time. So the cost of a
transaction does not depend on the size of its window. Minimum and maximum read blocks of 16, 256 and 4,096 rows
(`extremes`), COUNT_DISTINCT keeps a multiset of the current window (`multiset`), and COUNT_WITH_RESET counts from a
mark (`resets`). Sums by step stand for the older rows of a long window (`step_sums`). Rows far out of order wait in a
run of their own until they are merged (`displaced`).

The kernel never allocates memory. If an array is full, it returns before it changes any array, and names the array.
"""

from __future__ import annotations

from fraud_rules.engine.window import resets
from fraud_rules.engine.window.bundles import (
    Arrivals,
    DisplacedRuns,
    Ints,
    KernelArrays,
    MeasureArrays,
    ResultArrays,
    RuleArrays,
    StateArrays,
)
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.displaced import FULL, NO_RUN, find_run, insert_displaced, run_of
from fraud_rules.engine.window.evaluation.rules import evaluate_row
from fraud_rules.engine.window.hash_tables import (
    AHEAD,
    find_event,
    find_slot,
    id_place,
    make_slot,
)
from fraud_rules.engine.window.instructions import fetch
from fraud_rules.engine.window.key_rows import (
    insert,
    insert_offset,
    make_room,
)
from fraud_rules.engine.window.layout import (
    DONE,
    E_APPEND,
    E_FIELDS,
    E_NULLS,
    E_SEQ,
    E_SLOT,
    H_BOUND,
    H_EVENTS,
    H_FIRST,
    H_MARKS,
    H_OUT,
    H_SEQ,
    H_SLOTS,
    H_WATERMARK,
    NEED_EVENTS,
    NEED_MARKS,
    NEED_OUTPUT,
    NEED_POOL,
    NEED_RUNS,
    NEED_SLOTS,
    NONE,
    ROW_ACCEPTED,
    ROW_CONFLICTING_DUPLICATE,
    ROW_DUPLICATE,
    ROW_LATE_EXPIRED,
    ROW_LATE_KEPT,
    S_BASE,
    S_CAP,
    S_TAIL,
    S_WIDTH,
)
from fraud_rules.engine.window.series import step_sums

NEAR = 4
"""How many rows ahead the kernel prefetches the rows of a key, once its slot has been fetched."""


@compiled
def advance(
    state: StateArrays,
    side: StateArrays,
    runs: DisplacedRuns,
    measures: MeasureArrays,
    rules: RuleArrays,
    arrivals: Arrivals,
    results: ResultArrays,
    max_out_of_orderness_ms: int,
    explain: int,
    start: int,
) -> tuple[int, int]:
    """Accept arrivals from row `start` on. Returns (next row, DONE or the NEED_* of the array that must grow first).

    `side` and `runs` hold the displaced runs (see `displaced`). After NEED_RUNS, the caller must merge the runs and
    provide their memory. With `explain` 1, the output has every evaluation, otherwise only alerts and suppressed
    alerts.
    """
    arrays = KernelArrays(state, side, measures, rules, arrivals, results, explain)
    header = state.header
    end = arrivals.rows.shape[0]
    conditions = rules.rows.shape[0] - rules.starts[rules.starts.shape[0] - 1]
    for i in range(start, min(start + AHEAD, end)):
        _prefetch_row(state, measures, arrivals, results, i)
    for i in range(start, end):
        version = arrivals.versions[i]
        need = _array_to_grow(state, results, rules.starts[version + 1] - rules.starts[version], conditions)
        if need != DONE:
            return i, need
        time = arrivals.rows[i, measures.time_column]
        bound = header[H_BOUND]
        slot = _slot_of(state, measures, arrivals, results, i, end)
        if slot >= 0:
            known = state.id_table[find_event(state, measures, slot, arrivals.rows, i)] - 1
            if known >= 0 and (bound == NONE or state.events[known, measures.time_column] >= bound):
                results.outcomes[i] = _duplicate_outcome(state, arrivals.rows, known, i)
                continue
        step_sums.begin_series(state, measures, rules, version)
        late = header[H_WATERMARK] != NONE and time < header[H_WATERMARK]
        if late:
            results.lateness_ms[i] = header[H_WATERMARK] - time
        if late and time < bound:
            results.outcomes[i] = ROW_LATE_EXPIRED
        else:
            if slot < 0:
                slot = make_slot(state, measures, arrivals.rows, i, -slot - 1)
            if state.slots[slot, S_TAIL] == state.slots[slot, S_CAP] and not make_room(state, measures, slot, 1):
                return i, NEED_POOL
            at = insert_offset(state, slot, time)
            run = find_run(state, side, runs, measures, slot, at)
            if run == FULL:
                return i, NEED_RUNS
            _store_row(state, side, measures, rules, arrivals, slot, run, at, i, time)
            if late:
                results.outcomes[i] = ROW_LATE_KEPT
            else:
                results.outcomes[i] = ROW_ACCEPTED
                evaluate_row(arrays, i, slot, run_of(runs, slot), at, time)
        _move_clock(header, min(time, arrivals.rows[i, E_APPEND]) - max_out_of_orderness_ms, rules.widest[version])
        step_sums.move_bounds(state, measures, rules, version)
    return end, DONE


@compiled
def _duplicate_outcome(state: StateArrays, rows: Ints, known: int, i: int) -> int:
    """The outcome of row i, whose transaction id is that of the event `known`: by whether all fields are equal."""
    nulls = rows[i, E_NULLS]
    if state.events[known, E_NULLS] != nulls:
        return ROW_CONFLICTING_DUPLICATE
    for c in range(E_FIELDS, state.events.shape[1]):
        is_null = (nulls >> (c - E_FIELDS)) & 1
        if is_null == 0 and state.events[known, c] != rows[i, c]:
            return ROW_CONFLICTING_DUPLICATE
    return ROW_DUPLICATE


@inlined
def _move_clock(header: Ints, watermark_ms: int, widest_ms: int) -> None:
    """Raise the watermark to this time, and derive the retention bound from it."""
    if header[H_WATERMARK] == NONE or watermark_ms > header[H_WATERMARK]:
        header[H_WATERMARK] = watermark_ms
    reach = header[H_WATERMARK] - widest_ms
    if header[H_BOUND] == NONE or reach > header[H_BOUND]:
        header[H_BOUND] = reach


@inlined
def _slot_of(
    state: StateArrays, measures: MeasureArrays, arrivals: Arrivals, results: ResultArrays, i: int, end: int
) -> int:
    """Row i's slot, or -(its free place in the table) - 1 for a new key. Also prefetches memory for later rows."""
    if i + AHEAD < end:
        _prefetch_row(state, measures, arrivals, results, i + AHEAD)
    if i + NEAR < end and results.ahead[i + NEAR] >= 0:
        _prefetch_key_rows(state, measures, results.ahead[i + NEAR])
    if results.ahead[i] >= 0:
        return results.ahead[i]
    return find_slot(state, measures, arrivals.rows, i)


@inlined
def _prefetch_row(
    state: StateArrays, measures: MeasureArrays, arrivals: Arrivals, results: ResultArrays, i: int
) -> None:
    """Find row i's slot, and prefetch the memory that the row will read, because each row reads other addresses."""
    slot = find_slot(state, measures, arrivals.rows, i)
    results.ahead[i] = slot
    if slot >= 0:
        fetch(state.slots, slot)
        fetch(state.id_table, id_place(state, slot, arrivals.rows[i, measures.id_column]))


@inlined
def _prefetch_key_rows(state: StateArrays, measures: MeasureArrays, slot: int) -> None:
    """Prefetch the memory of both ends of a slot's windows."""
    base = state.slots[slot, S_BASE]
    fetch(state.pool, base + state.slots[slot, S_TAIL])
    for w in range(measures.windows.shape[0]):
        fetch(state.pool, base + state.slots[slot, S_WIDTH + w])


@inlined
def _array_to_grow(state: StateArrays, results: ResultArrays, n_rules: int, conditions: int) -> int:
    """The NEED_* of the array that must grow before the kernel can accept a row with `n_rules` rules, which have at
    most so many conditions, or DONE."""
    header = state.header
    if header[H_EVENTS] + 1 > state.events.shape[0]:
        return NEED_EVENTS
    if header[H_SLOTS] + 1 > state.slots.shape[0]:
        return NEED_SLOTS
    if header[H_MARKS] + n_rules > state.marks.shape[0]:
        return NEED_MARKS
    if header[H_OUT] + n_rules + conditions > results.output.shape[0]:
        return NEED_OUTPUT
    return DONE


@inlined
def _store_row(
    state: StateArrays,
    side: StateArrays,
    measures: MeasureArrays,
    rules: RuleArrays,
    arrivals: Arrivals,
    slot: int,
    run: int,
    at: int,
    i: int,
    time: int,
) -> None:
    """Store row i as an event. Insert it into the displaced run, or with NO_RUN at offset `at` of its key's rows."""
    header = state.header
    event = header[H_EVENTS]
    for c in range(state.events.shape[1]):
        state.events[event, c] = arrivals.rows[i, c]
    for f in range(state.passes.shape[1]):
        state.passes[event, f] = arrivals.passes[i, f]
    state.events[event, E_SLOT] = slot
    state.events[event, E_SEQ] = header[H_SEQ]
    state.id_table[find_event(state, measures, slot, arrivals.rows, i)] = event + 1
    header[H_EVENTS] = event + 1
    header[H_SEQ] += 1
    if header[H_FIRST] == NONE:
        header[H_FIRST] = time
    if rules.resets.shape[0] > 0 and at < state.slots[slot, S_TAIL]:
        resets.revive(state, rules.resets, slot, time)
    if run == NO_RUN:
        insert(state, measures, slot, at, event, time)
    else:
        insert_displaced(side, measures, run, event, time)
