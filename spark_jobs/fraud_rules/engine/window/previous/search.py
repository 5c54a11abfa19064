"""Finds the previous payment of each new transaction, before the kernel accepts the transactions.

The kernel needs the results of conditions and limits for whole columns. An expression with `previous(field)` has a
result only if the previous payment is known, which may be a transaction of the same call. So this pass runs first. It
repeats the kernel's decisions about acceptance for the rows of the call: duplicates, lateness, watermark and retention
bound. They do not depend on rules except for the widest window, so both passes decide alike. It changes no state.

For each class (a filter and a window), the previous payment of a row is the later one of two candidates:

- among the key rows of the state: the last row not after the time of the row that passes the filter. The running count
  of rows that pass finds it in O(log of the distance);
- among the rows of this call: the links of a class connect the accepted rows of a key that pass the filter, from the
  newest down. A row enters at its place by (time, arrival), and the row below this place is the candidate. The walk is
  as long as the row is out of order within the call, whose rows the caller limits.

All windows end at the row's time. So the latest row that passes the filter is the previous payment if it is in the
window, and otherwise the window has no other row. The key rows must be without displaced runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window.bundles import Arrivals, Ints, MeasureArrays, StateArrays, Table
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.hash_tables import find_event, find_slot, mix
from fraud_rules.engine.window.key_rows import insert_offset, opening
from fraud_rules.engine.window.layout import (
    E_APPEND,
    H_BOUND,
    H_WATERMARK,
    NONE,
    P_EVENT,
    P_TIME,
    S_BASE,
)

NO_ROW = -1
"""No previous payment."""

C_FILTER = 0  # filter, as a column of `Arrivals.passes`
C_COUNT = 1  # pool column with the running count of the rows that pass; -1: all rows pass
C_WINDOW = 2  # window class
C_WIDTH = 3


class PreviousSearch(NamedTuple):
    """The classes, the results and the scratch memory of a search for the m rows of a call."""

    classes: Ints
    """[class, C_*]."""
    found: Ints
    """[m, class]: the previous payment as a row of `events`, or as -2 - its row of the arrivals; NO_ROW without one."""
    judged: NDArray[np.bool_]
    """Per row, whether the kernel will evaluate it."""
    keys: Ints
    """Per row, the first row of the call with its key."""
    identities: Ints
    """Per row, the first row of the call with its key, id and role."""
    accepted: Ints
    """Scratch, by `identities`: the last accepted row of the call, initially NO_ROW."""
    newest: Ints
    """Scratch, [class, m] by `keys`: the newest linked row of the call, initially NO_ROW."""
    links: Ints
    """Scratch, [class, m]: the next older linked row of the key."""


@compiled
def first_alike(rows: Ints, start: int, columns: Ints, table: Table, first: Ints) -> None:
    """For each row from `start` on, write the number of the first one with the same values of `columns`, counted from
    `start`. `table` has zeros; its size is a power of two of at least twice the number of rows."""
    mask = np.uint64(table.shape[0] - 1)
    for k in range(first.shape[0]):
        h = np.uint64(0)
        for c in range(columns.shape[0]):
            h = mix(h, rows[start + k, columns[c]])
        at = h & mask
        while table[at] != 0 and not _is_alike(rows, start + table[at] - 1, start + k, columns):
            at = (at + np.uint64(1)) & mask
        if table[at] == 0:
            table[at] = k + 1
        first[k] = table[at] - 1


@inlined
def _is_alike(rows: Ints, one: int, other: int, columns: Ints) -> bool:
    for c in range(columns.shape[0]):
        if rows[one, columns[c]] != rows[other, columns[c]]:
            return False
    return True


@compiled
def find_previous(
    state: StateArrays,
    measures: MeasureArrays,
    arrivals: Arrivals,
    widest: Ints,
    search: PreviousSearch,
    max_out_of_orderness_ms: int,
    start: int,
) -> None:
    """Find the previous payments of the arrivals from row `start` on. `widest` has the widest window of each version,
    in ms."""
    watermark, bound = state.header[H_WATERMARK], state.header[H_BOUND]
    for i in range(start, arrivals.rows.shape[0]):
        k = i - start
        time = arrivals.rows[i, measures.time_column]
        slot = find_slot(state, measures, arrivals.rows, i)
        known = _known_time(state, measures, arrivals, search, start, i, slot)
        if known != NONE and known >= bound:  # without a bound, `bound` is NONE, the smallest value
            continue
        late = watermark != NONE and time < watermark
        if not late or time >= bound:
            search.accepted[search.identities[k]] = k
            _find_and_link(state, measures, arrivals, search, start, i, slot, time, bound, late)
            search.judged[k] = not late
        watermark = max(watermark, min(time, arrivals.rows[i, E_APPEND]) - max_out_of_orderness_ms)
        bound = max(bound, watermark - widest[arrivals.versions[i]])


@inlined
def _known_time(
    state: StateArrays,
    measures: MeasureArrays,
    arrivals: Arrivals,
    search: PreviousSearch,
    start: int,
    i: int,
    slot: int,
) -> int:
    """The event time of the last accepted transaction with the key and the id of row i; NONE without one."""
    known = search.accepted[search.identities[i - start]]
    if known != NO_ROW:
        return np.int64(arrivals.rows[start + known, measures.time_column])
    if slot < 0:
        return NONE
    event = state.id_table[find_event(state, measures, slot, arrivals.rows, i)] - 1
    return NONE if event < 0 else np.int64(state.events[event, measures.time_column])


@inlined
def _find_and_link(
    state: StateArrays,
    measures: MeasureArrays,
    arrivals: Arrivals,
    search: PreviousSearch,
    start: int,
    i: int,
    slot: int,
    time: int,
    bound: int,
    late: bool,
) -> None:
    """Find the previous payments of an accepted row, unless it is late, and link the row."""
    k = i - start
    last = insert_offset(state, slot, time) - 1 if slot >= 0 else -1
    for c in range(search.classes.shape[0]):
        after = NO_ROW
        before = search.newest[c, search.keys[k]]
        while before != NO_ROW and arrivals.rows[start + before, measures.time_column] > time:
            after = before
            before = search.links[c, before]
        if not late:
            opens = opening(measures, arrivals, i, search.classes[c, C_WINDOW], time)
            if opens != NONE:
                search.found[k, c] = _later_of(
                    state, measures, arrivals, start, slot, last, search.classes[c, C_COUNT], before, max(opens, bound)
                )
        if arrivals.passes[i, search.classes[c, C_FILTER]] != 0:
            search.links[c, k] = before
            if after == NO_ROW:
                search.newest[c, search.keys[k]] = k
            else:
                search.links[c, after] = k


@inlined
def _later_of(
    state: StateArrays,
    measures: MeasureArrays,
    arrivals: Arrivals,
    start: int,
    slot: int,
    last: int,
    column: int,
    before: int,
    opens: int,
) -> int:
    """The later one of two candidates that is not before `opens`: row `before` of the call, and the last of the key
    rows up to offset `last` that passes."""
    best = NO_ROW
    best_time = opens - 1
    if before != NO_ROW and arrivals.rows[start + before, measures.time_column] >= opens:
        best = -2 - (start + before)
        best_time = arrivals.rows[start + before, measures.time_column]
    if last >= 0:
        base = state.slots[slot, S_BASE]
        if column >= 0:
            last = _last_that_passes(state.pool, base, last, column)
        if last >= 0 and state.pool[base + last, P_TIME] > best_time:  # at equal times, the row of the call is later
            best = state.pool[base + last, P_EVENT]
    return np.int64(best)


@inlined
def _last_that_passes(pool: Ints, base: int, last: int, column: int) -> int:
    """The last offset up to `last` of a row that passes, from the running count of these rows; -1 without one."""
    count = pool[base + last, column]
    if count == 0:
        return -1
    high = last
    step = 1
    while high - step >= 0 and pool[base + high - step, column] == count:
        high -= step
        step <<= 1
    low = max(high - step + 1, 0)
    while low < high:
        middle = (low + high) >> 1
        if pool[base + middle, column] < count:
            low = middle + 1
        else:
            high = middle
    return np.int64(low)
