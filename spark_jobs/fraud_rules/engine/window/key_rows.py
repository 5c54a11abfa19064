"""The key rows: the retained rows of one grouping key, ordered by (event time, arrival), with running totals.

The rows of a key occupy one contiguous range of the pool. The aggregate over a run of rows is the difference of two
rows of totals. The insertion of a row d places before the newest row costs O(d), because the rows after it shift.
During a batch, rows far before the newest row stay in a run of their own (see `displaced`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window import extremes, multiset
from fraud_rules.engine.window.bundles import Arrivals, Ints, MeasureArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.hash_tables import find_event, index_events
from fraud_rules.engine.window.layout import (
    E_APPEND,
    E_FIELDS,
    E_NULLS,
    E_SLOT,
    H_BOUND,
    H_DISTINCT,
    H_EVENTS,
    H_POOL,
    H_SLOTS,
    NO_EVENT,
    NONE,
    P_EVENT,
    P_SUMS,
    P_TIME,
    Q_BEGAN,
    Q_BOUND,
    S_BASE,
    S_CAP,
    S_TAIL,
    S_WIDTH,
    TOTAL_HIGH,
    TOTAL_LOW,
    TOTAL_ROWS,
    TOTAL_SQUARE_0,
    TOTAL_SQUARE_1,
    TOTAL_SQUARE_2,
    TOTAL_VALUES,
    W_LENGTH,
    W_SERIES,
    W_STEP,
)
from fraud_rules.engine.window.series import step_sums
from fraud_rules.engine.window.series.step_sums import first_at_or_after

LOW_MASK = 0xFFFF_FFFF
SMALLEST = 4
"""The capacity of the smallest range, in rows."""


@inlined
def sum_between(pool: Ints, base: int, first: int, last: int, column: int) -> int:
    """The sum of a column over offsets [first, last], from its running totals."""
    return pool[base + last, column] - (pool[base + first - 1, column] if first > 0 else 0)


@inlined
def sum_of_part(state: StateArrays, slot: int, first: int, last: int, column: int) -> int:
    """`sum_between` over the rows of a slot; 0 for no offset."""
    if last < first:
        return 0
    return sum_between(state.pool, state.slots[slot, S_BASE], first, last, column)


@inlined
def opening(measures: MeasureArrays, arrivals: Arrivals, i: int, w: int, time: int) -> int:
    """The start of window `w` of row i, whose event time is `time`. NONE if the row has no such window."""
    length = measures.windows[w, W_LENGTH]
    if length < 0:
        return arrivals.calendar_starts[i, -1 - length]
    step = measures.windows[w, W_STEP]
    return time - length if step == 1 else (time - length) // step * step


@inlined
def lowest(state: StateArrays, measures: MeasureArrays, w: int) -> int:
    """The event time before which no row counts in a window of class `w`."""
    bound = state.header[H_BOUND]
    series = measures.windows[w, W_SERIES]
    if series < 0:
        return bound
    return max(min(bound, state.series[series, Q_BOUND]), state.series[series, Q_BEGAN])


@inlined
def move_left(state: StateArrays, slot: int, w: int, time: int) -> int:
    """The first offset at or after a time, for window `w`. Remembers the offset if it has moved forward."""
    remembered = state.slots[slot, S_WIDTH + w]
    first = seek(state.pool, state.slots[slot, S_BASE], state.slots[slot, S_TAIL], remembered, time)
    if first > remembered:
        state.slots[slot, S_WIDTH + w] = first
    return first


@inlined
def seek(pool: Ints, base: int, tail: int, start: int, time: int) -> int:
    """`first_at_or_after` over all rows of the key, by a galloping search from `start`: O(log of the distance)."""
    start = min(start, tail)
    step = 1
    if start < tail and pool[base + start, P_TIME] < time:
        low = start + 1
        while low + step < tail and pool[base + low + step, P_TIME] < time:
            low += step + 1
            step <<= 1
        return first_at_or_after(pool, base, low, min(low + step, tail), time)
    high = start
    while high - step >= 0 and pool[base + high - step, P_TIME] >= time:
        high -= step
        step <<= 1
    return first_at_or_after(pool, base, max(high - step, 0), high, time)


@inlined
def insert_offset(state: StateArrays, slot: int, time: int) -> int:
    """The offset at which to insert a row of this time: after all rows with the same or an earlier time."""
    pool, base, tail = state.pool, state.slots[slot, S_BASE], state.slots[slot, S_TAIL]
    if tail == 0 or pool[base + tail - 1, P_TIME] <= time:
        return tail
    return seek(pool, base, tail, tail, time + 1)


@inlined
def align(position: int, cap: int) -> int:
    """The first valid start of a range at or after `position`, so that blocks never span two ranges."""
    unit = extremes.widest_block(cap)
    return (position + unit - 1) // unit * unit


@inlined
def capacity_for(rows: int) -> int:
    """The capacity of a range for this many rows and a quarter more: a multiple of SMALLEST and of its widest block."""
    cap = rows + (rows >> 2) + 2
    unit = max(extremes.widest_block(cap), SMALLEST)
    return (cap + unit - 1) // unit * unit


@compiled
def make_room(state: StateArrays, measures: MeasureArrays, slot: int, rows: int) -> bool:
    """Make room for `rows` more rows: drop the rows before the retention bound, or move to a larger range.

    Returns False and changes nothing if the pool itself is full.
    """
    base = state.slots[slot, S_BASE]
    cap = state.slots[slot, S_CAP]
    step_sums.fold(state, measures, slot)
    tail = state.slots[slot, S_TAIL]
    expired = _count_expired(state, slot)
    new_cap = max(capacity_for(tail - expired + rows - 1), cap)
    target = base
    if new_cap > cap:
        target = align(state.header[H_POOL], new_cap)
        if target + new_cap > state.pool.shape[0]:
            return False
        state.header[H_POOL] = target + new_cap
    multiset.remove_expired(state, measures, slot, expired)
    _relocate(state, measures, slot, target, new_cap, expired)
    return True


@inlined
def _count_expired(state: StateArrays, slot: int) -> int:
    """Count the rows of a slot that no longer count."""
    bound = step_sums.oldest(state)
    if bound == NONE:
        return 0
    return first_at_or_after(state.pool, state.slots[slot, S_BASE], 0, state.slots[slot, S_TAIL], bound)


@inlined
def _packed_capacity(state: StateArrays, slot: int, expired: int) -> int:
    """The capacity of a slot's range after `pack`."""
    rows = state.slots[slot, S_TAIL] - expired
    return min(capacity_for(rows), state.slots[slot, S_CAP]) if rows > 0 else 0


@compiled
def packed_end(state: StateArrays, order: Ints) -> int:
    """Where the last range ends after `pack` in this order, with the unused rows between the aligned ranges."""
    end = 0
    for k in range(order.shape[0]):
        slot = order[k]
        if state.slots[slot, S_CAP] > 0:
            cap = _packed_capacity(state, slot, _count_expired(state, slot))
            end = align(end, cap) + cap
    return end


@compiled
def pack(state: StateArrays, measures: MeasureArrays, order: Ints) -> None:
    """Move all ranges down over the unused rows between them, without their expired rows. `order` has the slots by
    their S_BASE.

    A range that moves overlaps no range after it: it starts at or before its old place, and it never grows.
    """
    end = 0
    for k in range(order.shape[0]):
        slot = order[k]
        if state.slots[slot, S_CAP] > 0:
            expired = _count_expired(state, slot)
            cap = _packed_capacity(state, slot, expired)
            target = align(end, cap)
            multiset.remove_expired(state, measures, slot, expired)
            _relocate(state, measures, slot, target, cap, expired)
            end = target + cap
    state.header[H_POOL] = end


@compiled
def _relocate(state: StateArrays, measures: MeasureArrays, slot: int, target: int, cap: int, expired: int) -> None:
    """Move a slot's rows, except the first `expired`, to the range [target, target + cap), which may be their own."""
    tail = state.slots[slot, S_TAIL]
    _move(state, measures, state.slots[slot, S_BASE], target, expired, tail)
    state.slots[slot, S_BASE] = target
    state.slots[slot, S_CAP] = cap
    state.slots[slot, S_TAIL] = tail - expired
    for w in range(measures.windows.shape[0]):
        state.slots[slot, S_WIDTH + w] = max(state.slots[slot, S_WIDTH + w] - expired, 0)
    if measures.trees.shape[0] > 0:
        extremes.refresh(state, target, cap, 0, tail - expired)


@compiled
def _move(state: StateArrays, measures: MeasureArrays, source: int, target: int, first: int, tail: int) -> None:
    """Move rows [first, tail) to offset 0 of `target`. Their totals then start at row `first`."""
    pool = state.pool
    if first > 0:
        for k in range(source + first, source + tail):
            for c in range(P_SUMS, pool.shape[1]):
                pool[k, c] -= pool[source + first - 1, c]
    for k in range(tail - first):
        for c in range(pool.shape[1]):
            pool[target + k, c] = pool[source + first + k, c]
    for m in range(measures.trees.shape[0]):
        for k in range(tail - first):
            state.leaves[target + k, m] = state.leaves[source + first + k, m]
    for m in range(measures.distincts.shape[0]):
        for k in range(tail - first):
            state.members[target + k, m] = state.members[source + first + k, m]


@inlined
def _contribution(kind: int, value: int) -> int:
    """The addend of a value in a running total of this kind."""
    if kind == TOTAL_LOW:
        return value & LOW_MASK
    if kind == TOTAL_HIGH:
        return value >> 32
    if kind == TOTAL_ROWS or kind == TOTAL_VALUES:
        return 1
    # |value| = a * 2**32 + b;  value**2 = a*a * 2**64 + 2*a*b * 2**32 + b*b, cut into 32-bit limbs
    size = np.uint64(value) if value >= 0 else np.uint64(-value)
    mask = np.uint64(LOW_MASK)
    shift = np.uint64(32)
    a = size >> shift
    b = size & mask
    middle = ((b * b) >> shift) + (a * b & mask) + (a * b & mask)
    top = (a * a & mask) + (a * b >> shift) + (a * b >> shift) + (middle >> shift)
    if kind == TOTAL_SQUARE_0:
        return np.int64(b * b & mask)
    if kind == TOTAL_SQUARE_1:
        return np.int64(middle & mask)
    if kind == TOTAL_SQUARE_2:
        return np.int64(top & mask)
    return np.int64((a * a >> shift) + (top >> shift))


@compiled
def _shift(state: StateArrays, measures: MeasureArrays, slot: int, at: int, tail: int) -> None:
    """Free offset `at`: move the rows from there on up by one."""
    base = state.slots[slot, S_BASE]
    for k in range(tail, at, -1):
        for c in range(state.pool.shape[1]):
            state.pool[base + k, c] = state.pool[base + k - 1, c]
    for m in range(measures.trees.shape[0]):
        for k in range(tail, at, -1):
            state.leaves[base + k, m] = state.leaves[base + k - 1, m]
    for m in range(measures.distincts.shape[0]):
        for k in range(tail, at, -1):
            state.members[base + k, m] = state.members[base + k - 1, m]
    for w in range(measures.windows.shape[0]):
        if at < state.slots[slot, S_WIDTH + w]:
            state.slots[slot, S_WIDTH + w] += 1


@inlined
def insert(state: StateArrays, measures: MeasureArrays, slot: int, at: int, event: int, time: int) -> None:
    """Insert an event at its `insert_offset` into the rows of its key, which must have room."""
    base = state.slots[slot, S_BASE]
    tail = state.slots[slot, S_TAIL]
    pool = state.pool
    if at < tail:
        _shift(state, measures, slot, at, tail)
    state.slots[slot, S_TAIL] = tail + 1
    pool[base + at, P_TIME] = time
    pool[base + at, P_EVENT] = event
    if measures.distincts.shape[0] > 0:
        multiset.shift_windows(state, measures, slot, at, tail)
    nulls = state.events[event, E_NULLS]
    for c in range(measures.totals.shape[0]):
        kind = measures.totals[c, 0]
        column = measures.totals[c, 2]
        add = 0
        if (
            state.passes[event, measures.totals[c, 1]]
            and (kind == TOTAL_ROWS or (nulls >> (column - E_FIELDS)) & 1 == 0)
            and step_sums.has_part(state, event, time, measures.totals[c, 3])
        ):
            add = _contribution(kind, state.events[event, column])
        pool[base + at, P_SUMS + c] = add + (pool[base + at - 1, P_SUMS + c] if at > 0 else 0)
        if add != 0:
            for k in range(at + 1, tail + 1):
                pool[base + k, P_SUMS + c] += add
    if measures.trees.shape[0] > 0:
        _set_leaves(state, measures, slot, event, at, tail)


@compiled
def _set_leaves(state: StateArrays, measures: MeasureArrays, slot: int, event: int, at: int, tail: int) -> None:
    """Set the leaves of a new row, and update the blocks above them."""
    base = state.slots[slot, S_BASE]
    cap = state.slots[slot, S_CAP]
    nulls = state.events[event, E_NULLS]
    for m in range(measures.trees.shape[0]):
        column = measures.trees[m, 1]
        counts = (
            state.passes[event, measures.trees[m, 0]] != 0
            and (nulls >> (column - E_FIELDS)) & 1 == 0
            and step_sums.has_part(state, event, state.pool[base + at, P_TIME], measures.trees[m, 3])
        )
        state.leaves[base + at, m] = (
            extremes.rank(measures.trees, m, state.events[event, column]) if counts else extremes.IDLE
        )
    if at == tail and at & 15 != 0:
        extremes.append(state, base + at, cap)
    else:
        extremes.refresh(state, base, cap, at, tail + 1)


@compiled
def trim(state: StateArrays, measures: MeasureArrays, moved: Ints) -> None:
    """Remove the events before the retention bound, and the sums that no longer count. Keys and their ranges stay in
    place.

    `moved` is scratch with one word per event, for the event's new row. Multisets are emptied, and filled again at the
    next evaluation.
    """
    header = state.header
    step_sums.fold_all(state, measures)
    n = 0
    for event in range(header[H_EVENTS]):
        if step_sums.is_kept(state, state.events[event, measures.time_column], state.events[event, E_APPEND]):
            moved[event] = n
            for c in range(state.events.shape[1]):
                state.events[n, c] = state.events[event, c]
            for f in range(state.passes.shape[1]):
                state.passes[n, f] = state.passes[event, f]
            n += 1
    header[H_EVENTS] = n
    for slot in range(header[H_SLOTS]):
        base = state.slots[slot, S_BASE]
        tail = state.slots[slot, S_TAIL]
        expired = _count_expired(state, slot)
        if expired > 0:
            _relocate(state, measures, slot, base, state.slots[slot, S_CAP], expired)
        for k in range(tail - expired):
            if state.pool[base + k, P_EVENT] != NO_EVENT:
                state.pool[base + k, P_EVENT] = moved[state.pool[base + k, P_EVENT]]
        multiset.clear_windows(state, measures, slot)
    if measures.distincts.shape[0] > 0:
        header[H_DISTINCT] = 0
        state.distinct_table[:] = 0
    state.id_table[:] = 0
    index_events(state, measures)


@compiled
def count_idle_slots(state: StateArrays, marked: NDArray[np.bool_]) -> int:
    """Count the keys without rows that still count, except those with a mark: `marked` has a flag for each slot."""
    idle = 0
    oldest = step_sums.oldest(state)
    for slot in range(state.header[H_SLOTS]):
        tail = state.slots[slot, S_TAIL]
        youngest = state.slots[slot, S_BASE] + tail - 1
        idle += not marked[slot] and (tail == 0 or state.pool[youngest, P_TIME] < oldest)
    return idle


@compiled
def assign_ranges(state: StateArrays, counts: Ints) -> int:
    """Assign every slot a range for its rows and half as many more. Returns the total of pool rows needed."""
    for slot in range(state.header[H_SLOTS]):
        if counts[slot] > 0:
            cap = capacity_for(counts[slot])
            base = align(state.header[H_POOL], cap)
            state.slots[slot, S_BASE] = base
            state.slots[slot, S_CAP] = cap
            state.header[H_POOL] = base + cap
    return state.header[H_POOL]


@compiled
def refresh_blocks(state: StateArrays) -> None:
    """Recompute the blocks of all slots."""
    for slot in range(state.header[H_SLOTS]):
        extremes.refresh(state, state.slots[slot, S_BASE], state.slots[slot, S_CAP], 0, state.slots[slot, S_TAIL])


@compiled
def insert_all(state: StateArrays, measures: MeasureArrays, order: Ints) -> None:
    """Insert all events, whose slots are set, into the rows of their keys in the given (time, arrival) order."""
    for k in range(order.shape[0]):
        event = order[k]
        slot = state.events[event, E_SLOT]
        state.id_table[find_event(state, measures, slot, state.events, event)] = event + 1
        time = state.events[event, measures.time_column]
        insert(state, measures, slot, insert_offset(state, slot, time), event, time)
