"""The compiled window kernel: one pass over a cell's new transactions in arrival order.

It is the plain loop that the specification describes. For each transaction: duplicate or not, late or not, keep it,
evaluate the rules of its own version, move the watermark and the retention bound. What makes it fast is how the kept rows
lie in memory: for every grouping key a region of `pool`, ordered by (event time, arrival), with running totals beside
each row. The aggregate over a window is then the difference of two rows of totals, whatever lies between them; the left
end of a window is remembered per key and moves forward with time, so a transaction costs the same however many
its window holds. A transaction that is out of order by d places costs O(d): the rows after it shift. Minimum and maximum
use a tree of 16-way blocks over the region; COUNT_DISTINCT keeps a multiset of the current window, moved from window
to window.

All arrays are two-dimensional int64 unless said otherwise; `layout` names their columns. The kernel never allocates: when
an array is full it returns before touching anything and says which one is to grow.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from fraud_rules.window.exact import sign_of_average, sign_of_deviation
from fraud_rules.window.layout import (
    D_COUNT,
    D_EVENT,
    D_MEASURE,
    D_SLOT,
    DONE,
    E_APPEND,
    E_FIELDS,
    E_NULLS,
    E_SEQ,
    E_SLOT,
    FIRED_NO,
    FIRED_SUPPRESSED,
    FIRED_YES,
    H_BOUND,
    H_DISTINCT,
    H_EVENTS,
    H_FIRST,
    H_MARKS,
    H_OUT,
    H_POOL,
    H_SEQ,
    H_SLOTS,
    H_WATERMARK,
    KIND_AVG,
    KIND_COUNT,
    KIND_DISTINCT,
    KIND_EXTREME,
    KIND_RESET,
    KIND_STDDEV,
    KIND_SUM,
    M_LAST_TIME,
    M_RESET_SEQ,
    M_RESET_TIME,
    M_REVIVED,
    M_RULE,
    M_SLOT,
    M_SUPPRESSED,
    NEED_EVENTS,
    NEED_MARKS,
    NEED_OUTPUT,
    NEED_POOL,
    NEED_SLOTS,
    NONE,
    O_COMPLETE,
    O_COUNT,
    O_FIRED,
    O_HIGH,
    O_LOW,
    O_ROW,
    O_RULE,
    O_SQUARE,
    O_SUPPRESSED,
    O_VALUES,
    OP_ALWAYS,
    OP_EQ,
    OP_GE,
    OP_GT,
    OP_LE,
    OP_LT,
    OP_NE,
    P_EVENT,
    P_SUMS,
    P_TIME,
    R_ACTIVE,
    R_COOLDOWN,
    R_COUNT,
    R_DISTINCT,
    R_FILTER,
    R_FROM_HIGH,
    R_FROM_LOW,
    R_KIND,
    R_LIMIT_NEGATIVE,
    R_LOW,
    R_NEGATE,
    R_OPERATOR,
    R_RULE,
    R_TO_HIGH,
    R_TO_LOW,
    R_TREE,
    R_VALUES,
    R_WINDOW,
    ROW_ACCEPTED,
    ROW_DUPLICATE,
    ROW_LATE_EXPIRED,
    ROW_LATE_KEPT,
    S_BASE,
    S_CAP,
    S_TAIL,
    S_WIDTH,
    TOTAL_HIGH,
    TOTAL_LOW,
    TOTAL_ROWS,
    TOTAL_SQUARE_0,
    TOTAL_VALUES,
)

# No reference counts: they cost more than the work, and nothing here allocates or keeps an array.
compiled = njit(cache=True, _nrt=False)
inlined = njit(cache=True, _nrt=False, forceinline=True)

_LOW_MASK = 0xFFFF_FFFF
_MAX = np.iinfo(np.int64).max
_MIN = np.iinfo(np.int64).min


# --- hashing ---------------------------------------------------------------------------------------------------------


@inlined
def _mix(h, value):
    x = np.uint64(h) ^ np.uint64(value)
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def find_slot(slots, key_table, key_fields, key_at, row):
    """The slot of the row's key, or -(place in the table) - 1 where it belongs."""
    h = np.uint64(0)
    for k in range(key_fields.shape[0]):
        h = _mix(h, row[key_fields[k]])
    mask = np.uint64(key_table.shape[0] - 1)
    at = h & mask
    while True:
        slot = key_table[at] - 1
        if slot < 0:
            return -np.int64(at) - 1
        same = True
        for k in range(key_fields.shape[0]):
            if slots[slot, key_at + k] != row[key_fields[k]]:
                same = False
                break
        if same:
            return np.int64(slot)
        at = (at + np.uint64(1)) & mask


@inlined
def find_event(events, id_table, id_field, slot, identity):
    """The table place of the event with this identity in this slot, or of the free place where it belongs."""
    mask = np.uint64(id_table.shape[0] - 1)
    at = _mix(np.uint64(identity), slot) & mask
    while True:
        event = id_table[at] - 1
        if event < 0:
            return np.int64(at)
        if events[event, id_field] == identity and events[event, E_SLOT] == slot:
            return np.int64(at)
        at = (at + np.uint64(1)) & mask


@inlined
def find_mark(marks, mark_table, rule, slot):
    """The table place of the mark of (rule, slot), or of the free place where it belongs."""
    mask = np.uint64(mark_table.shape[0] - 1)
    at = _mix(np.uint64(rule), slot) & mask
    while True:
        entry = mark_table[at] - 1
        if entry < 0 or (marks[entry, M_RULE] == rule and marks[entry, M_SLOT] == slot):
            return np.int64(at)
        at = (at + np.uint64(1)) & mask


@compiled
def ensure_mark(header, marks, mark_table, rule, slot):
    """The mark row of (rule, slot), made if there is none; the caller has seen to room."""
    at = find_mark(marks, mark_table, rule, slot)
    entry = mark_table[at] - 1
    if entry < 0:
        entry = header[H_MARKS]
        header[H_MARKS] += 1
        mark_table[at] = entry + 1
        marks[entry, M_RULE] = rule
        marks[entry, M_SLOT] = slot
        marks[entry, M_RESET_SEQ] = NONE
        marks[entry, M_RESET_TIME] = NONE
        marks[entry, M_REVIVED] = 0
        marks[entry, M_LAST_TIME] = NONE
        marks[entry, M_SUPPRESSED] = 0
    return np.int64(entry)


# --- regions ---------------------------------------------------------------------------------------------------------


@inlined
def first_at_or_after(pool, base, low, high, time):
    """The first offset in [low, high) whose event time is >= time; high if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if pool[base + middle, P_TIME] < time:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def seek(pool, base, tail, start, time):
    """As `first_at_or_after` over the whole region, galloping away from `start`: O(log of the distance)."""
    if start > tail:
        start = tail
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
def place_of(pool, base, tail, time):
    """Where a row of this time belongs: after all rows that are not younger."""
    if tail == 0 or pool[base + tail - 1, P_TIME] <= time:
        return tail
    return seek(pool, base, tail, tail, time + 1)


@compiled
def _rebuild_blocks(block_values, values, first, last, fan, trees):
    """Recompute blocks [first, last] of `fan` rows below each."""
    for b in range(first, last + 1):
        for m in range(trees.shape[0]):
            largest = trees[m, 2] == 1
            best = values[b * fan, m]
            for k in range(1, fan):
                v = values[b * fan + k, m]
                if (v > best) == largest and v != best:
                    best = v
            block_values[b, m] = best


@compiled
def refresh_tree(leaves, blocks_1, blocks_2, blocks_3, trees, base, cap, first, tail):
    """Make the block values right again for a region whose leaves changed from offset `first` on."""
    for m in range(trees.shape[0]):
        idle = _MIN if trees[m, 2] == 1 else _MAX
        for k in range(tail, min(((tail + 15) >> 4) << 4, cap)):
            leaves[base + k, m] = idle
    if cap < 16 or tail == 0:
        return
    last = base + tail - 1
    _rebuild_blocks(blocks_1, leaves, (base + first) >> 4, last >> 4, 16, trees)
    if cap < 256:
        return
    for m in range(trees.shape[0]):
        idle = _MIN if trees[m, 2] == 1 else _MAX
        for b in range((last >> 4) + 1, ((last >> 8) + 1) << 4):
            blocks_1[b, m] = idle
    _rebuild_blocks(blocks_2, blocks_1, (base + first) >> 8, last >> 8, 16, trees)
    if cap < 4096:
        return
    for m in range(trees.shape[0]):
        idle = _MIN if trees[m, 2] == 1 else _MAX
        for b in range((last >> 8) + 1, ((last >> 12) + 1) << 4):
            blocks_2[b, m] = idle
    _rebuild_blocks(blocks_3, blocks_2, (base + first) >> 12, last >> 12, 16, trees)


@inlined
def _append_to_tree(leaves, blocks_1, blocks_2, blocks_3, trees, at, cap):
    """The row at pool position `at` became the youngest of its region: fold it into its blocks."""
    for m in range(trees.shape[0]):
        v = leaves[at, m]
        largest = trees[m, 2] == 1
        if cap >= 16:
            if at & 15 == 0:
                blocks_1[at >> 4, m] = v
                idle = _MIN if largest else _MAX
                for k in range(1, 16):
                    leaves[at + k, m] = idle
            elif (v > blocks_1[at >> 4, m]) == largest:
                blocks_1[at >> 4, m] = v
        if cap >= 256:
            if at & 255 == 0:
                blocks_2[at >> 8, m] = v
            elif (v > blocks_2[at >> 8, m]) == largest:
                blocks_2[at >> 8, m] = v
        if cap >= 4096:
            if at & 4095 == 0:
                blocks_3[at >> 12, m] = v
            elif (v > blocks_3[at >> 12, m]) == largest:
                blocks_3[at >> 12, m] = v


@inlined
def extreme(leaves, blocks_1, blocks_2, blocks_3, tree, largest, base, cap, low, high):
    """The largest (smallest) leaf in offsets [low, high], climbing to the widest whole blocks."""
    at = base + low
    end = base + high
    best = _MIN if largest else _MAX
    while at <= end:
        if cap >= 4096 and at & 4095 == 0 and at + 4095 <= end:
            v = blocks_3[at >> 12, tree]
            at += 4096
        elif cap >= 256 and at & 255 == 0 and at + 255 <= end:
            v = blocks_2[at >> 8, tree]
            at += 256
        elif cap >= 16 and at & 15 == 0 and at + 15 <= end:
            v = blocks_1[at >> 4, tree]
            at += 16
        else:
            v = leaves[at, tree]
            at += 1
        if largest:
            if v > best:
                best = v
        elif v < best:
            best = v
    return best


@compiled
def aligned(position, cap):
    """The first region start at or after `position` that keeps a region's blocks its own."""
    unit = min(cap, 4096)
    return (position + unit - 1) // unit * unit


@compiled
def _move_region(pool, leaves, trees, source, target, first, tail):
    """Move rows [first, tail) to offset 0 of `target`, totals counted from there (`first`-1 becomes zero)."""
    width = pool.shape[1]
    moved = tail - first
    for c in range(P_SUMS, width):
        before = pool[source + first - 1, c] if first > 0 else 0
        for k in range(moved):
            pool[target + k, c] = pool[source + first + k, c] - before
    for k in range(moved):
        pool[target + k, P_TIME] = pool[source + first + k, P_TIME]
        pool[target + k, P_EVENT] = pool[source + first + k, P_EVENT]
    for m in range(trees.shape[0]):
        for k in range(moved):
            leaves[target + k, m] = leaves[source + first + k, m]


@compiled
def make_room(header, events, slots, pool, leaves, blocks_1, blocks_2, blocks_3, trees, distinct, distinct_table,
              measures, windows, fmask_rows, slot):
    """Room for one more row in the slot's region: drop what the retention bound passed, or move to twice the size.

    Returns False, with nothing changed, when the pool itself is full.
    """
    base = slots[slot, S_BASE]
    cap = slots[slot, S_CAP]
    tail = slots[slot, S_TAIL]
    expired = first_at_or_after(pool, base, 0, tail, header[H_BOUND]) if header[H_BOUND] != NONE else 0
    live = tail - expired
    target = base
    new_cap = 4
    while new_cap < live + (live >> 1) + 1:
        new_cap *= 2
    if new_cap <= cap:
        new_cap = cap
    else:
        target = aligned(header[H_POOL], new_cap)
        if target + new_cap > pool.shape[0]:
            return False
    if measures.shape[0] > 0:
        _forget_distinct(header, slots, pool, events, distinct, distinct_table, measures, windows, fmask_rows, slot, expired)
    if new_cap != cap:
        header[H_POOL] = target + new_cap
    _move_region(pool, leaves, trees, base, target, expired, tail)
    slots[slot, S_BASE] = target
    slots[slot, S_CAP] = new_cap
    slots[slot, S_TAIL] = tail - expired
    for w in range(windows.shape[0]):
        left = slots[slot, S_WIDTH + w] - expired
        slots[slot, S_WIDTH + w] = left if left > 0 else 0
    if trees.shape[0] > 0:
        refresh_tree(leaves, blocks_1, blocks_2, blocks_3, trees, target, new_cap, 0, tail - expired)
    return True


# --- COUNT_DISTINCT ------------------------------------------------------------------------------------------------------


@compiled
def _find_distinct(events, distinct, distinct_table, measures, measure, slot, event):
    mask = np.uint64(distinct_table.shape[0] - 1)
    h = _mix(np.uint64(measure), slot)
    fields = measures[measure, 2]
    for k in range(fields):
        h = _mix(h, events[event, measures[measure, 3 + k]])
    at = h & mask
    while True:
        entry = distinct_table[at] - 1
        if entry < 0:
            return np.int64(at)
        if distinct[entry, D_MEASURE] == measure and distinct[entry, D_SLOT] == slot:
            same = True
            for k in range(fields):
                column = measures[measure, 3 + k]
                if events[distinct[entry, D_EVENT], column] != events[event, column]:
                    same = False
                    break
            if same:
                return np.int64(at)
        at = (at + np.uint64(1)) & mask


@compiled
def _counts_for_distinct(events, measures, fmask_rows, measure, event):
    """Whether the event passes the measure's filter and has no null among its fields."""
    if fmask_rows[event, measures[measure, 0]] == 0:
        return False
    nulls = events[event, E_NULLS]
    for k in range(measures[measure, 2]):
        if (nulls >> (measures[measure, 3 + k] - E_FIELDS)) & 1:
            return False
    return True


@compiled
def _change_distinct(header, events, distinct, distinct_table, measures, fmask_rows, measure, slot, event, delta):
    """Add or take one event from the multiset; the change of the number of distinct values."""
    if not _counts_for_distinct(events, measures, fmask_rows, measure, event):
        return 0
    at = _find_distinct(events, distinct, distinct_table, measures, measure, slot, event)
    entry = distinct_table[at] - 1
    if entry < 0:
        entry = header[H_DISTINCT]
        header[H_DISTINCT] += 1
        distinct_table[at] = entry + 1
        distinct[entry, D_MEASURE] = measure
        distinct[entry, D_SLOT] = slot
        distinct[entry, D_EVENT] = event
        distinct[entry, D_COUNT] = 0
    before = distinct[entry, D_COUNT]
    distinct[entry, D_COUNT] = before + delta
    if before == 0:
        return 1
    return -1 if before + delta == 0 else 0


@compiled
def _forget_distinct(header, slots, pool, events, distinct, distinct_table, measures, windows, fmask_rows, slot, expired):
    """Take the first `expired` rows out of the slot's multisets and shift their windows by as much."""
    base = slots[slot, S_BASE]
    for d in range(measures.shape[0]):
        at = S_WIDTH + windows.shape[0] + 3 * d
        low = slots[slot, at]
        high = slots[slot, at + 1]
        while low < expired and low < high:
            event = pool[base + low, P_EVENT]
            slots[slot, at + 2] += _change_distinct(
                header, events, distinct, distinct_table, measures, fmask_rows, d, slot, event, -1
            )
            low += 1
        if low < expired:
            low = expired
            high = expired
        slots[slot, at] = low - expired
        slots[slot, at + 1] = high - expired


@compiled
def count_distinct(header, events, slots, pool, distinct, distinct_table, measures, n_windows, fmask_rows, slot, d,
                   first, last):
    """How many distinct values offsets [first, last] hold: the measure's multiset is moved there."""
    at = S_WIDTH + n_windows + 3 * d
    base = slots[slot, S_BASE]
    low = slots[slot, at]
    high = slots[slot, at + 1]
    n = slots[slot, at + 2]
    end = last + 1
    while high < end:
        n += _change_distinct(header, events, distinct, distinct_table, measures, fmask_rows, d, slot,
                              pool[base + high, P_EVENT], 1)
        high += 1
    while low > first:
        low -= 1
        n += _change_distinct(header, events, distinct, distinct_table, measures, fmask_rows, d, slot,
                              pool[base + low, P_EVENT], 1)
    while high > end:
        high -= 1
        n += _change_distinct(header, events, distinct, distinct_table, measures, fmask_rows, d, slot,
                              pool[base + high, P_EVENT], -1)
    while low < first:
        n += _change_distinct(header, events, distinct, distinct_table, measures, fmask_rows, d, slot,
                              pool[base + low, P_EVENT], -1)
        low += 1
    slots[slot, at] = low
    slots[slot, at + 1] = high
    slots[slot, at + 2] = n
    return n


# --- one row -------------------------------------------------------------------------------------------------------------


@inlined
def _contribution(kind, passes, is_null, value):
    """What one row adds to a running total."""
    if not passes:
        return 0
    if kind == TOTAL_ROWS:
        return 1
    if is_null:
        return 0
    if kind == TOTAL_VALUES:
        return 1
    if kind == TOTAL_LOW:
        return value & _LOW_MASK
    if kind == TOTAL_HIGH:
        return value >> 32
    # |value| = a * 2**32 + b;  value**2 = a*a * 2**64 + 2*a*b * 2**32 + b*b, cut into 32-bit limbs
    size = np.uint64(value) if value >= 0 else np.uint64(-value)
    mask = np.uint64(_LOW_MASK)
    shift = np.uint64(32)
    a = size >> shift
    b = size & mask
    bb = b * b
    ab = a * b
    aa = a * a
    middle = (bb >> shift) + (ab & mask) + (ab & mask)
    top = (aa & mask) + (ab >> shift) + (ab >> shift) + (middle >> shift)
    if kind == TOTAL_SQUARE_0:
        return np.int64(bb & mask)
    if kind == TOTAL_SQUARE_0 + 1:
        return np.int64(middle & mask)
    if kind == TOTAL_SQUARE_0 + 2:
        return np.int64(top & mask)
    return np.int64((aa >> shift) + (top >> shift))


@inlined
def insert(header, events, slots, pool, leaves, blocks_1, blocks_2, blocks_3, totals, trees, windows, measures,
           distinct, distinct_table, fmask_rows, slot, event, time):
    """Put an event into its key's region (which has room); its offset there."""
    base = slots[slot, S_BASE]
    tail = slots[slot, S_TAIL]
    at = place_of(pool, base, tail, time)
    width = pool.shape[1]
    if at < tail:
        for k in range(tail, at, -1):
            for c in range(width):
                pool[base + k, c] = pool[base + k - 1, c]
        for m in range(trees.shape[0]):
            for k in range(tail, at, -1):
                leaves[base + k, m] = leaves[base + k - 1, m]
        for w in range(windows.shape[0]):
            if at < slots[slot, S_WIDTH + w]:
                slots[slot, S_WIDTH + w] += 1
        for d in range(measures.shape[0]):
            word = S_WIDTH + windows.shape[0] + 3 * d
            if at <= slots[slot, word]:
                slots[slot, word] += 1
                slots[slot, word + 1] += 1
            elif at < slots[slot, word + 1]:
                slots[slot, word + 1] += 1
                slots[slot, word + 2] += _change_distinct(
                    header, events, distinct, distinct_table, measures, fmask_rows, d, slot, event, 1
                )
    slots[slot, S_TAIL] = tail + 1
    pool[base + at, P_TIME] = time
    pool[base + at, P_EVENT] = event
    nulls = events[event, E_NULLS]
    for c in range(totals.shape[0]):
        kind = totals[c, 0]
        column = totals[c, 2]
        add = _contribution(
            kind, fmask_rows[event, totals[c, 1]] != 0, (nulls >> (column - E_FIELDS)) & 1 != 0, events[event, column]
        )
        before = pool[base + at - 1, P_SUMS + c] if at > 0 else 0
        pool[base + at, P_SUMS + c] = before + add
        if add != 0:
            for k in range(at + 1, tail + 1):
                pool[base + k, P_SUMS + c] += add
    if trees.shape[0] > 0:
        for m in range(trees.shape[0]):
            column = trees[m, 1]
            counts = fmask_rows[event, trees[m, 0]] != 0 and (nulls >> (column - E_FIELDS)) & 1 == 0
            idle = _MIN if trees[m, 2] == 1 else _MAX
            leaves[base + at, m] = events[event, column] if counts else idle
        if at == tail:
            _append_to_tree(leaves, blocks_1, blocks_2, blocks_3, trees, base + at, slots[slot, S_CAP])
        else:
            refresh_tree(leaves, blocks_1, blocks_2, blocks_3, trees, base, slots[slot, S_CAP], at, tail + 1)
    return at


@compiled
def _count_after_mark(events, pool, marks, entry, rule, base, tail, first, last, fmask_rows):
    """Rows of offsets [first, last] that pass the rule's filter and arrived after its mark.

    Rows that sort after everything present at the mark are counted by the running totals. Those that arrived later but
    sort before it are few (their number is kept): they are looked for from the boundary back.
    """
    reset_seq = marks[entry, M_RESET_SEQ]
    column = rule[R_COUNT]
    boundary = first_at_or_after(pool, base, 0, tail, marks[entry, M_RESET_TIME])
    while (
        boundary < tail
        and pool[base + boundary, P_TIME] == marks[entry, M_RESET_TIME]
        and events[pool[base + boundary, P_EVENT], E_SEQ] <= reset_seq
    ):
        boundary += 1
    n = 0
    start = first if first > boundary else boundary
    if last >= start:
        if column < 0:
            n = last - start + 1
        else:
            n = pool[base + last, column] - (pool[base + start - 1, column] if start > 0 else 0)
    revived = marks[entry, M_REVIVED]
    k = min(last, boundary - 1)
    while revived > 0 and k >= first:
        event = pool[base + k, P_EVENT]
        if events[event, E_SEQ] > reset_seq:
            revived -= 1
            n += fmask_rows[event, rule[R_FILTER]] != 0
        k -= 1
    if revived > 0 and first == 0 and last >= boundary - 1:
        marks[entry, M_REVIVED] -= revived  # the clean-up took some away: what was found is all there is
    return n


@compiled
def _revive(marks, mark_table, resets, slot, time):
    """A row arrived out of order: resets whose boundary it sorts before must look for it."""
    for k in range(resets.shape[0]):
        entry = mark_table[find_mark(marks, mark_table, resets[k], slot)] - 1
        if entry >= 0 and marks[entry, M_RESET_SEQ] != NONE and time < marks[entry, M_RESET_TIME]:
            marks[entry, M_REVIVED] += 1


@inlined
def _in_interval(high, low, rule):
    """Whether (high << 32) + low lies in the rule's firing interval."""
    if high < rule[R_FROM_HIGH] or (high == rule[R_FROM_HIGH] and low < rule[R_FROM_LOW]):
        inside = False
    elif high > rule[R_TO_HIGH] or (high == rule[R_TO_HIGH] and low > rule[R_TO_LOW]):
        inside = False
    else:
        inside = True
    return inside != (rule[R_NEGATE] != 0)


@compiled
def _holds(operator, sign):
    if operator == OP_GT:
        return sign > 0
    if operator == OP_GE:
        return sign >= 0
    if operator == OP_LT:
        return sign < 0
    if operator == OP_LE:
        return sign <= 0
    if operator == OP_EQ:
        return sign == 0
    if operator == OP_NE:
        return sign != 0
    return operator == OP_ALWAYS


@compiled
def _average_sign(high, low, n, scale, limit, negative, ratio):
    total = np.float64(high) * 4294967296.0 + np.float64(low)
    bound = ratio * np.float64(n)
    if abs(total - bound) > 1e-9 * (abs(total) + abs(bound)):
        return 1 if total > bound else -1
    return sign_of_average(high, low, n, scale, limit, negative)


@compiled
def _deviation_sign(high, low, s0, s1, s2, s3, n, scale, limit, ratio):
    total = np.float64(high) * 4294967296.0 + np.float64(low)
    squares = ((np.float64(s3) * 4294967296.0 + np.float64(s2)) * 4294967296.0 + np.float64(s1)) * 4294967296.0
    squares = (squares + np.float64(s0)) * np.float64(n)
    spread = squares - total * total
    bound = ratio * ratio * np.float64(n) * np.float64(n)
    if abs(spread - bound) > 1e-13 * (squares + total * total) + 1e-9 * bound:
        return 1 if spread > bound else -1
    return sign_of_deviation(high, low, s0, s1, s2, s3, n, scale, limit)


# --- the pass --------------------------------------------------------------------------------------------------------------


@compiled
def advance(header, events, fmask_rows, slots, key_table, id_table, pool, leaves, blocks_1, blocks_2, blocks_3,
            marks, mark_table, distinct, distinct_table,
            rows, rows_fmask, versions, time_field, id_field, key_fields, max_out_of_orderness_ms,
            totals, trees, windows, measures, rule_starts, widest, rules, resets, ratios, scales, limits,
            explain, outcomes, lateness, output, lefts, start):
    """Take rows[start:] in; returns (next row, DONE or what must grow first).

    Args, beside the cell's arrays:
        rows: the new transactions in arrival order, laid out as `events` (E_SLOT and E_SEQ are filled in here).
        rows_fmask: uint8 [row, filter]: whether the row satisfies the filter; filter 0 is "all rows".
        versions: per row, the index of its rule version into `rule_starts` and `widest`.
        totals, trees, windows, measures: the plan's measures; `windows` holds one width in ms a window class.
        rule_starts: version v evaluates rules[rule_starts[v]:rule_starts[v + 1]], ordered by rule id.
        widest: per version, the widest window in force for the grouping, ms.
        resets: incarnations of the COUNT_WITH_RESET rules of any version.
        ratios, scales, limits: per rule, limit / scale as a double, and both as exact limbs (AVG, STDDEV).
        explain: 1 writes a row for every evaluation, 0 for alerts only.
        outcomes: int8, filled with ROW_*.
        lateness: filled, for late rows, with the watermark minus the event time, ms.
        output: filled with O_* rows from header[H_OUT] on.
        lefts: scratch, one word a window class.
    """
    n_windows = windows.shape[0]
    key_at = S_WIDTH + n_windows + 3 * measures.shape[0]
    for i in range(start, rows.shape[0]):
        version = versions[i]
        first_rule = rule_starts[version]
        end_rule = rule_starts[version + 1]
        event = header[H_EVENTS]
        if event + 1 > events.shape[0] or (event + 1) * 2 > id_table.shape[0]:
            return i, NEED_EVENTS
        if header[H_SLOTS] + 1 > slots.shape[0] or (header[H_SLOTS] + 1) * 2 > key_table.shape[0]:
            return i, NEED_SLOTS
        wanted = header[H_MARKS] + end_rule - first_rule
        if wanted > marks.shape[0] or wanted * 2 > mark_table.shape[0]:
            return i, NEED_MARKS
        if header[H_OUT] + end_rule - first_rule > output.shape[0]:
            return i, NEED_OUTPUT

        time = rows[i, time_field]
        bound = header[H_BOUND]
        slot = find_slot(slots, key_table, key_fields, key_at, rows[i])
        if slot >= 0:
            place = find_event(events, id_table, id_field, slot, rows[i, id_field])
            known = id_table[place] - 1
            if known >= 0 and (bound == NONE or events[known, time_field] >= bound):
                outcomes[i] = ROW_DUPLICATE
                continue
        late = header[H_WATERMARK] != NONE and time < header[H_WATERMARK]
        if late:
            lateness[i] = header[H_WATERMARK] - time
        if late and time < bound:
            outcomes[i] = ROW_LATE_EXPIRED
        else:
            if slot < 0:
                at = -slot - 1
                slot = header[H_SLOTS]
                header[H_SLOTS] += 1
                key_table[at] = slot + 1
                for c in range(key_at):
                    slots[slot, c] = 0
                for k in range(key_fields.shape[0]):
                    slots[slot, key_at + k] = rows[i, key_fields[k]]
                place = find_event(events, id_table, id_field, slot, rows[i, id_field])
            if slots[slot, S_TAIL] == slots[slot, S_CAP] and not make_room(
                header, events, slots, pool, leaves, blocks_1, blocks_2, blocks_3, trees, distinct, distinct_table,
                measures, windows, fmask_rows, slot
            ):
                return i, NEED_POOL
            for c in range(events.shape[1]):
                events[event, c] = rows[i, c]
            for f in range(fmask_rows.shape[1]):
                fmask_rows[event, f] = rows_fmask[i, f]
            events[event, E_SLOT] = slot
            events[event, E_SEQ] = header[H_SEQ]
            id_table[place] = event + 1
            header[H_EVENTS] = event + 1
            header[H_SEQ] += 1
            at = insert(header, events, slots, pool, leaves, blocks_1, blocks_2, blocks_3, totals, trees, windows,
                        measures, distinct, distinct_table, fmask_rows, slot, event, time)
            if header[H_FIRST] == NONE:
                header[H_FIRST] = time
            base = slots[slot, S_BASE]
            tail = slots[slot, S_TAIL]
            if at < tail - 1:
                _revive(marks, mark_table, resets, slot, time)
            outcomes[i] = ROW_LATE_KEPT if late else ROW_ACCEPTED
            if not late:
                for w in range(n_windows):
                    lefts[w] = -1
                for r in range(first_rule, end_rule):
                    rule = rules[r]
                    if rule[R_ACTIVE] == 0 or rows_fmask[i, rule[R_FILTER]] == 0:
                        continue
                    w = rule[R_WINDOW]
                    opens = time - windows[w]
                    first = lefts[w]
                    if first < 0:
                        remembered = slots[slot, S_WIDTH + w]
                        first = seek(pool, base, tail, remembered, opens if opens > bound else bound)
                        if first > remembered:
                            slots[slot, S_WIDTH + w] = first
                        lefts[w] = first
                    _evaluate(header, events, fmask_rows, slots, pool, leaves, blocks_1, blocks_2, blocks_3, marks,
                              mark_table, distinct, distinct_table, measures, n_windows, trees, rule, r, ratios, scales,
                              limits, explain, output, i, slot, base, tail, first, at, time, opens)
        moved = min(time, rows[i, E_APPEND]) - max_out_of_orderness_ms
        if header[H_WATERMARK] == NONE or moved > header[H_WATERMARK]:
            header[H_WATERMARK] = moved
        reach = header[H_WATERMARK] - widest[version]
        if bound == NONE or reach > bound:
            header[H_BOUND] = reach
    return rows.shape[0], DONE


@inlined
def _evaluate(header, events, fmask_rows, slots, pool, leaves, blocks_1, blocks_2, blocks_3, marks, mark_table,
              distinct, distinct_table, measures, n_windows, trees, rule, r, ratios, scales, limits, explain, output,
              i, slot, base, tail, first, last, time, opens):
    """Evaluate one rule over offsets [first, last] of the slot's region and write what comes of it."""
    kind = rule[R_KIND]
    column = rule[R_COUNT]
    if column < 0:
        count = last - first + 1
    else:
        count = pool[base + last, column] - (pool[base + first - 1, column] if first > 0 else 0)
    values = count
    column = rule[R_VALUES]
    if column >= 0:
        values = pool[base + last, column] - (pool[base + first - 1, column] if first > 0 else 0)
    high = 0
    low = 0
    s0 = 0
    s1 = 0
    s2 = 0
    s3 = 0
    sign = 0
    if kind == KIND_SUM or kind == KIND_AVG or kind == KIND_STDDEV:
        column = rule[R_LOW]
        low = pool[base + last, column]
        high = pool[base + last, column + 1]
        if first > 0:
            low -= pool[base + first - 1, column]
            high -= pool[base + first - 1, column + 1]
        high += low >> 32
        low &= _LOW_MASK
        if kind == KIND_AVG and values > 0:
            sign = _average_sign(high, low, values, scales[r], limits[r], rule[R_LIMIT_NEGATIVE], ratios[r])
        elif kind == KIND_STDDEV and values > 0:
            s0 = pool[base + last, column + 2]
            s1 = pool[base + last, column + 3]
            s2 = pool[base + last, column + 4]
            s3 = pool[base + last, column + 5]
            if first > 0:
                s0 -= pool[base + first - 1, column + 2]
                s1 -= pool[base + first - 1, column + 3]
                s2 -= pool[base + first - 1, column + 4]
                s3 -= pool[base + first - 1, column + 5]
            sign = _deviation_sign(high, low, s0, s1, s2, s3, values, scales[r], limits[r], ratios[r])
    elif kind == KIND_EXTREME:
        if values > 0:
            tree = rule[R_TREE]
            value = extreme(leaves, blocks_1, blocks_2, blocks_3, tree, trees[tree, 2] == 1, base,
                            slots[slot, S_CAP], first, last)
            high = value >> 32
            low = value & _LOW_MASK
    else:
        if kind == KIND_DISTINCT:
            low = count_distinct(header, events, slots, pool, distinct, distinct_table, measures, n_windows,
                                 fmask_rows, slot, rule[R_DISTINCT], first, last)
            values = low
        else:
            if kind == KIND_RESET:
                entry = mark_table[find_mark(marks, mark_table, rule[R_RULE], slot)] - 1
                if entry >= 0 and marks[entry, M_RESET_SEQ] != NONE:
                    count = _count_after_mark(events, pool, marks, entry, rule, base, tail, first, last, fmask_rows)
            low = count
            values = count
        high = low >> 32
        low &= _LOW_MASK
    fires = False
    if values > 0:
        if kind == KIND_AVG or kind == KIND_STDDEV:
            fires = _holds(rule[R_OPERATOR], sign)
        else:
            fires = _in_interval(high, low, rule)
    fired = FIRED_NO
    suppressed = 0
    if fires:
        fired, suppressed = _fire(header, slots, pool, marks, mark_table, rule, slot, base, tail, time)
    if fired != FIRED_NO or explain != 0:
        at = header[H_OUT]
        header[H_OUT] = at + 1
        output[at, O_ROW] = i
        output[at, O_RULE] = r
        output[at, O_COUNT] = count
        output[at, O_VALUES] = values
        output[at, O_HIGH] = high
        output[at, O_LOW] = low
        output[at, O_SQUARE] = s0
        output[at, O_SQUARE + 1] = s1
        output[at, O_SQUARE + 2] = s2
        output[at, O_SQUARE + 3] = s3
        output[at, O_SUPPRESSED] = suppressed
        known_from = header[H_FIRST]
        if header[H_BOUND] != NONE and header[H_BOUND] > known_from:
            known_from = header[H_BOUND]
        output[at, O_COMPLETE] = 1 if opens >= known_from else 0
        output[at, O_FIRED] = fired


@compiled
def _fire(header, slots, pool, marks, mark_table, rule, slot, base, tail, time):
    """The rule's condition holds: alert or suppress, and keep the marks. Returns (FIRED_*, suppressed before)."""
    entry = ensure_mark(header, marks, mark_table, rule[R_RULE], slot)
    last_time = marks[entry, M_LAST_TIME]
    if rule[R_COOLDOWN] > 0 and last_time != NONE and time < last_time + rule[R_COOLDOWN]:
        marks[entry, M_SUPPRESSED] += 1
        return FIRED_SUPPRESSED, 0
    suppressed = marks[entry, M_SUPPRESSED]
    marks[entry, M_SUPPRESSED] = 0
    if last_time == NONE or time > last_time:
        marks[entry, M_LAST_TIME] = time
    if rule[R_KIND] == KIND_RESET:
        marks[entry, M_RESET_SEQ] = header[H_SEQ] - 1
        marks[entry, M_RESET_TIME] = pool[base + tail - 1, P_TIME]
        marks[entry, M_REVIVED] = 0
    return FIRED_YES, suppressed


@compiled
def recount_revived(events, slots, pool, marks, n_marks):
    """Set M_REVIVED of every reset mark from the rows themselves, after a rebuild or a change of rules."""
    for entry in range(n_marks):
        if marks[entry, M_RESET_SEQ] == NONE:
            continue
        slot = marks[entry, M_SLOT]
        base = slots[slot, S_BASE]
        marks[entry, M_REVIVED] = 0
        for k in range(slots[slot, S_TAIL]):
            if pool[base + k, P_TIME] >= marks[entry, M_RESET_TIME]:
                break
            if events[pool[base + k, P_EVENT], E_SEQ] > marks[entry, M_RESET_SEQ]:
                marks[entry, M_REVIVED] += 1


@compiled
def assign_slots(header, rows, slots, key_table, key_fields, key_at, assigned):
    """Write the slot of each row's key to `assigned`, new ones made in order of first use; the caller has seen to room."""
    for i in range(rows.shape[0]):
        slot = find_slot(slots, key_table, key_fields, key_at, rows[i])
        if slot < 0:
            at = -slot - 1
            slot = header[H_SLOTS]
            header[H_SLOTS] += 1
            key_table[at] = slot + 1
            for c in range(key_at):
                slots[slot, c] = 0
            for k in range(key_fields.shape[0]):
                slots[slot, key_at + k] = rows[i, key_fields[k]]
        assigned[i] = slot


@compiled
def assign_regions(header, slots, counts):
    """Give every slot a region with room for its rows and half as many; returns the pool rows needed."""
    for slot in range(header[H_SLOTS]):
        if counts[slot] == 0:
            continue
        cap = 4
        while cap < counts[slot] + (counts[slot] >> 1) + 1:
            cap *= 2
        base = aligned(header[H_POOL], cap)
        slots[slot, S_BASE] = base
        slots[slot, S_CAP] = cap
        header[H_POOL] = base + cap
    return header[H_POOL]


@compiled
def fill(header, events, order, fmask_rows, slots, id_table, pool, leaves, blocks_1, blocks_2, blocks_3, distinct,
         distinct_table, time_field, id_field, totals, trees, windows, measures):
    """Put all events, which know their slots, into their regions in the given (time, arrival) order."""
    for k in range(order.shape[0]):
        event = order[k]
        slot = events[event, E_SLOT]
        place = find_event(events, id_table, id_field, slot, events[event, id_field])
        id_table[place] = event + 1
        insert(header, events, slots, pool, leaves, blocks_1, blocks_2, blocks_3, totals, trees, windows, measures,
               distinct, distinct_table, fmask_rows, slot, event, events[event, time_field])


@compiled
def load_marks(header, rows, assigned, marks, mark_table):
    """Set marks from rows (M_*) and their slots, later rows over earlier ones; the caller has seen to room."""
    for i in range(rows.shape[0]):
        entry = ensure_mark(header, marks, mark_table, rows[i, M_RULE], assigned[i])
        for c in range(M_RESET_SEQ, rows.shape[1]):
            marks[entry, c] = rows[i, c]


# --- hash tables, filled again when they have grown --------------------------------------------------------------------


@compiled
def index_events(events, n, id_table, id_field):
    for event in range(n):
        id_table[find_event(events, id_table, id_field, events[event, E_SLOT], events[event, id_field])] = event + 1


@compiled
def index_slots(slots, n, key_table, key_fields, key_at):
    for slot in range(n):
        key_table[-find_slot(slots, key_table, key_fields, key_at, slots[slot]) - 1] = slot + 1


@compiled
def index_marks(marks, n, mark_table):
    for entry in range(n):
        mark_table[find_mark(marks, mark_table, marks[entry, M_RULE], marks[entry, M_SLOT])] = entry + 1


@compiled
def index_distinct(events, distinct, n, distinct_table, measures):
    for entry in range(n):
        at = _find_distinct(events, distinct, distinct_table, measures, distinct[entry, D_MEASURE],
                            distinct[entry, D_SLOT], distinct[entry, D_EVENT])
        distinct_table[at] = entry + 1
