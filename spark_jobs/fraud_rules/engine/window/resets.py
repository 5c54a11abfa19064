"""COUNT_WITH_RESET: counts the rows that arrived after the last alert of the same rule and key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window.bundles import EvaluatedRow, Ints, Span, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.displaced import NO_RUN
from fraud_rules.engine.window.hash_tables import find_mark
from fraud_rules.engine.window.key_rows import sum_of_part
from fraud_rules.engine.window.layout import (
    E_SEQ,
    H_MARKS,
    M_RESET_SEQ,
    M_RESET_TIME,
    M_REVIVED,
    M_SLOT,
    NO_EVENT,
    NONE,
    P_EVENT,
    P_TIME,
    R_COUNT,
    R_FILTER,
    S_BASE,
    S_TAIL,
)
from fraud_rules.engine.window.series.step_sums import first_at_or_after


@inlined
def arrival_of(state: StateArrays, row: int) -> int:
    """The arrival number of the event of a pool row; NONE for a sum, which no reset counts."""
    event = state.pool[row, P_EVENT]
    return NONE if event == NO_EVENT else state.events[event, E_SEQ]


@compiled
def count_after(
    state: StateArrays, side: StateArrays, entry: int, rules: Ints, r: int, row: EvaluatedRow, span: Span
) -> int:
    """Count the rows of a span that pass rule r's filter and arrived after its mark."""
    n = 0
    revived = state.marks[entry, M_REVIVED]
    if row.run != NO_RUN:
        n = _count_part(side, entry, row.run, rules, r, span.side_first, span.side_last, revived)
        # Each displaced row that arrived after the mark and sorts before its boundary is one of the revived rows.
        base = side.slots[row.run, S_BASE]
        for k in range(_boundary(side, entry, row.run)):
            revived -= side.events[side.pool[base + k, P_EVENT], E_SEQ] > state.marks[entry, M_RESET_SEQ]
    return n + _count_part(state, entry, row.slot, rules, r, span.first, span.last, revived)


@compiled
def _count_part(
    state: StateArrays, entry: int, slot: int, rules: Ints, r: int, first: int, last: int, revived: int
) -> int:
    """`count_after` for the rows at offsets [first, last], of which at most `revived` arrived after the mark but sort
    before its boundary.

    The boundary is the end of the rows that were present at the mark. The running totals count the rows after the
    boundary. Few rows arrived later but sort before it. A backward search from the boundary finds them.
    """
    boundary = _boundary(state, entry, slot)
    n = _count_from(state, slot, rules[r, R_COUNT], max(first, boundary), last)
    return n + _count_revived(state, entry, slot, rules[r, R_FILTER], first, min(last, boundary - 1), revived)


@compiled
def _boundary(state: StateArrays, entry: int, slot: int) -> int:
    """The offset of the first row that was not present at the mark and does not sort before its time."""
    base = state.slots[slot, S_BASE]
    tail = state.slots[slot, S_TAIL]
    reset_time = state.marks[entry, M_RESET_TIME]
    boundary = first_at_or_after(state.pool, base, 0, tail, reset_time)
    while (
        boundary < tail
        and state.pool[base + boundary, P_TIME] == reset_time
        and arrival_of(state, base + boundary) <= state.marks[entry, M_RESET_SEQ]
    ):
        boundary += 1
    return boundary


@inlined
def _count_from(state: StateArrays, slot: int, column: int, start: int, last: int) -> int:
    """Count the rows at offsets [start, last] by a running total, or all of them if `column` is negative."""
    if column < 0:
        return max(last - start + 1, 0)
    return sum_of_part(state, slot, start, last, column)


@inlined
def _count_revived(state: StateArrays, entry: int, slot: int, number: int, first: int, last: int, revived: int) -> int:
    """Count the rows at offsets [first, last] that arrived after the mark and pass a filter, of `revived` such rows."""
    base = state.slots[slot, S_BASE]
    n = 0
    k = last
    while revived > 0 and k >= first:
        if arrival_of(state, base + k) > state.marks[entry, M_RESET_SEQ]:
            revived -= 1
            if state.passes[state.pool[base + k, P_EVENT], number] != 0:
                n += 1
        k -= 1
    return n


@compiled
def revive(state: StateArrays, resets: Ints, slot: int, time: int) -> None:
    """Record an out-of-order row in each reset mark whose boundary is after the row."""
    for k in range(resets.shape[0]):
        entry = state.mark_table[find_mark(state, resets[k], slot)] - 1
        if entry >= 0 and state.marks[entry, M_RESET_SEQ] != NONE and time < state.marks[entry, M_RESET_TIME]:
            state.marks[entry, M_REVIVED] += 1


@compiled
def extend_resets(state: StateArrays) -> None:
    """Move the boundary of each reset behind the rows that arrived before it, and recompute M_REVIVED.

    The rows of a warm-up arrived before all resets, also those with a later event time.
    """
    for entry in range(state.header[H_MARKS]):
        if state.marks[entry, M_RESET_SEQ] != NONE:
            base = state.slots[state.marks[entry, M_SLOT], S_BASE]
            k = state.slots[state.marks[entry, M_SLOT], S_TAIL] - 1
            while k >= 0 and state.pool[base + k, P_TIME] > state.marks[entry, M_RESET_TIME]:
                if arrival_of(state, base + k) <= state.marks[entry, M_RESET_SEQ]:
                    state.marks[entry, M_RESET_TIME] = state.pool[base + k, P_TIME]
                k -= 1
            _recount(state, entry)


@compiled
def recount_revived(state: StateArrays) -> None:
    """Recompute M_REVIVED of every reset mark from the rows, after a rebuild or a change of rules."""
    for entry in range(state.header[H_MARKS]):
        _recount(state, entry)


@compiled
def recount_revived_in(state: StateArrays, slots: NDArray[np.bool_]) -> None:
    """`recount_revived` for the marks of the given slots: bool[slots]."""
    for entry in range(state.header[H_MARKS]):
        if slots[state.marks[entry, M_SLOT]]:
            _recount(state, entry)


@inlined
def _recount(state: StateArrays, entry: int) -> None:
    if state.marks[entry, M_RESET_SEQ] != NONE:
        base = state.slots[state.marks[entry, M_SLOT], S_BASE]
        tail = state.slots[state.marks[entry, M_SLOT], S_TAIL]
        revived = 0
        for k in range(tail):
            if state.pool[base + k, P_TIME] >= state.marks[entry, M_RESET_TIME]:
                break
            revived += arrival_of(state, base + k) > state.marks[entry, M_RESET_SEQ]
        state.marks[entry, M_REVIVED] = revived
