"""Sums by step: what long windows count of the rows that the retention bound has passed.

A row of the pool has the running totals of all rows of its key up to it. So the newest row of a step stands for all
rows of the step: without the others, the totals of every window that starts at a step are the same. Its leaves get the
extremes of the others. Such a row is a sum. It has no event, and the rest of the kernel reads it like any other row:

    rows of a key   10:05 10:20 10:40 | 11:15 11:50 | 12:30   13:10 ...     bound: 12:00, steps of an hour
    after `fold`                10:40         11:50 | 12:30   13:10 ...

- A series is the sums of one rule from one of its versions on. Rows fold if no series has a start of a window between
  them: a step's start, or the retention bound at which the series began.
- A window reads the same rows whether they are folded or not, so a result does not depend on when they fold. Rows that
  were appended from H_SETTLED on do not fold, because a boundary that their batch had not read can still divide them.
- B (Q_BOUND) is what the retention bound is for single rows: sums before the B of every series are dropped.
- A sum counts in the totals of all measures. Those of other rules do not read it, because their windows start at the
  retention bound.
"""

from __future__ import annotations

from fraud_rules.engine.window import extremes, multiset
from fraud_rules.engine.window.bundles import Ints, MeasureArrays, RuleArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.layout import (
    E_APPEND,
    E_SEQ,
    H_BOUND,
    H_FIRST,
    H_SETTLED,
    H_SLOTS,
    H_WATERMARK,
    NO_EVENT,
    NONE,
    P_EVENT,
    P_SUMS,
    P_TIME,
    Q_BEGAN,
    Q_BEGUN,
    Q_BOUND,
    Q_ENDED,
    Q_HISTORY,
    Q_IS_WARM,
    Q_SINCE,
    S_BASE,
    S_CAP,
    S_TAIL,
    S_WIDTH,
    W_LENGTH,
    W_SERIES,
    W_STEP,
)


@inlined
def first_at_or_after(pool: Ints, base: int, low: int, high: int, time: int) -> int:
    """The first offset in [low, high) whose event time is >= time; `high` if there is no such offset."""
    while low < high:
        middle = (low + high) >> 1
        if pool[base + middle, P_TIME] < time:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def begin_series(state: StateArrays, measures: MeasureArrays, rules: RuleArrays, version: int) -> None:
    """Begin the series of a version's long windows that have not begun, with the retained rows."""
    for k in range(rules.long_starts[version], rules.long_starts[version + 1]):
        series = measures.windows[rules.long_windows[k], W_SERIES]
        if state.series[series, Q_BEGUN] == 0:
            state.series[series, Q_BEGUN] = 1
            state.series[series, Q_BEGAN] = state.header[H_BOUND]
            state.series[series, Q_BOUND] = NONE
            state.series[series, Q_SINCE] = state.header[H_BOUND]
            state.series[series, Q_IS_WARM] = 0
            state.series[series, Q_ENDED] = NONE
            state.series[series, Q_HISTORY] = NONE


@inlined
def has_part(state: StateArrays, event: int, time: int, part: int) -> bool:
    """Whether an event counts in the measures of a part. A warm-up of another rule adds rows that the series may have
    in its sums. Such rows have negative arrival numbers."""
    if part < 0 or state.events[event, E_SEQ] >= 0:
        return True
    return time >= state.series[part >> 1, Q_HISTORY]


@inlined
def move_bounds(state: StateArrays, measures: MeasureArrays, rules: RuleArrays, version: int) -> None:
    """Raise the B of a version's long windows to the start of the oldest window that a later row can have."""
    for k in range(rules.long_starts[version], rules.long_starts[version + 1]):
        w = rules.long_windows[k]
        series, step = measures.windows[w, W_SERIES], measures.windows[w, W_STEP]
        start = (state.header[H_WATERMARK] - measures.windows[w, W_LENGTH]) // step * step
        state.series[series, Q_BOUND] = max(state.series[series, Q_BOUND], start)


@inlined
def complete_from(state: StateArrays, measures: MeasureArrays, w: int) -> int:
    """The event time from which a window of class `w` has all rows."""
    bound, first = state.header[H_BOUND], state.header[H_FIRST]
    series = measures.windows[w, W_SERIES]
    if series >= 0:
        bound = min(bound, state.series[series, Q_BOUND])
        since = state.series[series, Q_SINCE]
        first = since if state.series[series, Q_IS_WARM] != 0 else max(first, since)
    return max(first, bound)


@compiled
def oldest(state: StateArrays) -> int:
    """The event time before which no row counts any more."""
    bound = state.header[H_BOUND]
    for series in range(state.series.shape[0]):
        if state.series[series, Q_BEGUN] != 0:
            bound = min(bound, max(state.series[series, Q_BOUND], state.series[series, Q_BEGAN]))
    return bound


@compiled
def is_kept(state: StateArrays, time: int, append: int) -> bool:
    """Whether an event stays as it is: it is retained, or is not settled and still counts."""
    if time >= state.header[H_BOUND]:
        return True
    return append >= state.header[H_SETTLED] and time >= oldest(state)


@compiled
def fold_all(state: StateArrays, measures: MeasureArrays) -> None:
    """Fold the rows of all slots."""
    for slot in range(state.header[H_SLOTS]):
        fold(state, measures, slot)


@compiled
def fold(state: StateArrays, measures: MeasureArrays, slot: int) -> None:
    """Fold the settled rows of a slot before the retention bound into sums. Without a series, nothing changes."""
    if state.series.shape[0] == 0 or state.header[H_BOUND] == NONE:
        return
    base, tail = state.slots[slot, S_BASE], state.slots[slot, S_TAIL]
    passed = first_at_or_after(state.pool, base, 0, tail, state.header[H_BOUND])
    if passed == 0:
        return
    multiset.remove_expired(state, measures, slot, passed)
    kept = _fold_rows(state, measures, base, passed)
    multiset.prepend(state, measures, slot, kept)
    removed = passed - kept
    if removed > 0:
        for k in range(passed, tail):
            _copy_row(state, measures, base + k, base + k - removed)
        state.slots[slot, S_TAIL] = tail - removed
        for w in range(measures.windows.shape[0]):
            state.slots[slot, S_WIDTH + w] = max(state.slots[slot, S_WIDTH + w] - removed, 0)
        if measures.trees.shape[0] > 0:
            extremes.refresh(state, base, state.slots[slot, S_CAP], 0, tail - removed)


@inlined
def _fold_rows(state: StateArrays, measures: MeasureArrays, base: int, passed: int) -> int:
    """Fold the first `passed` rows of a range. Returns how many are left."""
    kept = 0
    for k in range(base, base + passed):
        settled = _is_settled(state, k)
        if settled and k + 1 < base + passed and _is_settled(state, k + 1) and _may_fold(state, measures, k):
            for m in range(measures.trees.shape[0]):
                state.leaves[k + 1, m] = min(state.leaves[k + 1, m], state.leaves[k, m])
        else:
            _copy_row(state, measures, k, base + kept)
            if settled:
                state.pool[base + kept, P_EVENT] = NO_EVENT
            kept += 1
    return kept


@inlined
def _is_settled(state: StateArrays, row: int) -> bool:
    event = state.pool[row, P_EVENT]
    return event == NO_EVENT or state.events[event, E_APPEND] < state.header[H_SETTLED]


@inlined
def _may_fold(state: StateArrays, measures: MeasureArrays, row: int) -> bool:
    """Whether no series has a start of a window after a row and not after the next one."""
    time, following = state.pool[row, P_TIME], state.pool[row + 1, P_TIME]
    for w in range(measures.windows.shape[0]):
        series, step = measures.windows[w, W_SERIES], measures.windows[w, W_STEP]
        if series >= 0 and state.series[series, Q_BEGUN] != 0:
            began = state.series[series, Q_BEGAN]
            if time // step != following // step or time < began <= following:
                return False
    return True


@inlined
def _copy_row(state: StateArrays, measures: MeasureArrays, source: int, target: int) -> None:
    for c in range(state.pool.shape[1]):
        state.pool[target, c] = state.pool[source, c]
    for m in range(measures.trees.shape[0]):
        state.leaves[target, m] = state.leaves[source, m]
    for m in range(measures.distincts.shape[0]):
        state.members[target, m] = state.members[source, m]


@compiled
def count_sums(state: StateArrays) -> int:
    """Count the sums that still count."""
    from_time = oldest(state)
    n = 0
    for slot in range(state.header[H_SLOTS]):
        base = state.slots[slot, S_BASE]
        for k in range(base, base + state.slots[slot, S_TAIL]):
            n += state.pool[k, P_EVENT] == NO_EVENT and state.pool[k, P_TIME] >= from_time
    return n


@compiled
def read_sums(state: StateArrays, slots: Ints, times: Ints, totals: Ints, leaves: Ints) -> None:
    """Read the sums that `count_sums` counts: the slot and the time of each, its own part of each total, and its
    leaves."""
    from_time = oldest(state)
    n = 0
    for slot in range(state.header[H_SLOTS]):
        base = state.slots[slot, S_BASE]
        for k in range(base, base + state.slots[slot, S_TAIL]):
            if state.pool[k, P_EVENT] == NO_EVENT and state.pool[k, P_TIME] >= from_time:
                slots[n] = slot
                times[n] = state.pool[k, P_TIME]
                for c in range(totals.shape[1]):
                    before = state.pool[k - 1, P_SUMS + c] if k > base else 0
                    totals[n, c] = state.pool[k, P_SUMS + c] - before
                for m in range(leaves.shape[1]):
                    leaves[n, m] = state.leaves[k, m]
                n += 1


@compiled
def append_sums(state: StateArrays, order: Ints, slots: Ints, times: Ints, totals: Ints, leaves: Ints) -> None:
    """Append sums to the empty ranges of their slots, which must have room, in the given order of time."""
    for i in range(order.shape[0]):
        n = order[i]
        slot = slots[n]
        at = state.slots[slot, S_BASE] + state.slots[slot, S_TAIL]
        state.pool[at, P_TIME] = times[n]
        state.pool[at, P_EVENT] = NO_EVENT
        for c in range(totals.shape[1]):
            before = state.pool[at - 1, P_SUMS + c] if state.slots[slot, S_TAIL] > 0 else 0
            state.pool[at, P_SUMS + c] = totals[n, c] + before
        for m in range(leaves.shape[1]):
            state.leaves[at, m] = leaves[n, m]
        state.slots[slot, S_TAIL] += 1
