"""COUNT_DISTINCT: a multiset of the values in a key's current window, updated as the window moves.

`members` stores, for each row of the pool, the entry of its value in the multiset, so that a row is looked up only once
although many windows move over it.
"""

from __future__ import annotations

import numpy as np

from fraud_rules.engine.window.bundles import MeasureArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.hash_tables import find_distinct
from fraud_rules.engine.window.layout import (
    D_COUNT,
    D_EVENT,
    D_MEASURE,
    D_SLOT,
    E_FIELDS,
    E_NULLS,
    E_SLOT,
    H_DISTINCT,
    NO_EVENT,
    P_EVENT,
    S_BASE,
    S_TAIL,
    S_WIDTH,
)

_UNKNOWN = 0
_COUNTS_NOT = -1


@inlined
def words_of(measures: MeasureArrays, measure: int) -> int:
    """The column of the measure's first word in `slots`. The words are the window's low and high offset and the
    count."""
    return S_WIDTH + measures.windows.shape[0] + 3 * measure


@inlined
def _counts(state: StateArrays, measures: MeasureArrays, measure: int, event: int) -> bool:
    """Whether a row is an event that passes the measure's filter and has no null in the measure's fields."""
    if event == NO_EVENT or state.passes[event, measures.distincts[measure, 0]] == 0:
        return False
    nulls = state.events[event, E_NULLS]
    whole = True
    for k in range(measures.distincts[measure, 2]):
        if (nulls >> (measures.distincts[measure, 3 + k] - E_FIELDS)) & 1:
            whole = False
    return whole


@compiled
def _find_or_add(state: StateArrays, measures: MeasureArrays, measure: int, event: int) -> int:
    """The entry of the event's value plus one, created if missing; _COUNTS_NOT for an event that does not count."""
    if not _counts(state, measures, measure, event):
        return _COUNTS_NOT
    slot = state.events[event, E_SLOT]
    at = find_distinct(state, measures, measure, slot, event)
    if state.distinct_table[at] == 0:
        entry = state.header[H_DISTINCT]
        state.header[H_DISTINCT] += 1
        state.distinct_table[at] = entry + 1
        state.distinct[entry, D_MEASURE] = measure
        state.distinct[entry, D_SLOT] = slot
        state.distinct[entry, D_EVENT] = event
        state.distinct[entry, D_COUNT] = 0
    return np.int64(state.distinct_table[at])


@inlined
def change(state: StateArrays, measures: MeasureArrays, measure: int, row: int, delta: int) -> int:
    """Add (1) or remove (-1) one row of the pool. Returns the change of the number of distinct values."""
    member = state.members[row, measure]
    if member == _UNKNOWN:
        member = _find_or_add(state, measures, measure, state.pool[row, P_EVENT])
        state.members[row, measure] = member
    if member == _COUNTS_NOT:
        return 0
    entry = member - 1
    before = state.distinct[entry, D_COUNT]
    state.distinct[entry, D_COUNT] = before + delta
    if before == 0:
        return 1
    return -1 if before + delta == 0 else 0


@compiled
def shift_windows(state: StateArrays, measures: MeasureArrays, slot: int, at: int, tail: int) -> None:
    """Adjust the windows to a row inserted at offset `at` of `tail` rows: later windows shift, a window around it
    grows."""
    row = state.slots[slot, S_BASE] + at
    for measure in range(measures.distincts.shape[0]):
        state.members[row, measure] = _UNKNOWN
        if at == tail:
            continue
        word = words_of(measures, measure)
        if at <= state.slots[slot, word]:
            state.slots[slot, word] += 1
            state.slots[slot, word + 1] += 1
        elif at < state.slots[slot, word + 1]:
            state.slots[slot, word + 1] += 1
            state.slots[slot, word + 2] += change(state, measures, measure, row, 1)


@compiled
def remove_expired(state: StateArrays, measures: MeasureArrays, slot: int, expired: int) -> None:
    """Remove the first `expired` rows from the slot's multisets, and shift the windows by as many rows."""
    base = state.slots[slot, S_BASE]
    for measure in range(measures.distincts.shape[0]):
        word = words_of(measures, measure)
        low = state.slots[slot, word]
        high = state.slots[slot, word + 1]
        while low < expired and low < high:
            state.slots[slot, word + 2] += change(state, measures, measure, base + low, -1)
            low += 1
        state.slots[slot, word] = max(low - expired, 0)
        state.slots[slot, word + 1] = max(high - expired, 0)


@compiled
def prepend(state: StateArrays, measures: MeasureArrays, slot: int, rows: int) -> None:
    """Shift the windows by so many rows that they do not hold."""
    for measure in range(measures.distincts.shape[0]):
        word = words_of(measures, measure)
        state.slots[slot, word] += rows
        state.slots[slot, word + 1] += rows


@compiled
def clear_windows(state: StateArrays, measures: MeasureArrays, slot: int) -> None:
    """Empty the slot's windows. The caller must clear the multisets."""
    base = state.slots[slot, S_BASE]
    for measure in range(measures.distincts.shape[0]):
        for k in range(state.slots[slot, S_TAIL]):
            state.members[base + k, measure] = _UNKNOWN
        word = words_of(measures, measure)
        state.slots[slot, word] = 0
        state.slots[slot, word + 1] = 0
        state.slots[slot, word + 2] = 0


@compiled
def count(state: StateArrays, measures: MeasureArrays, slot: int, measure: int, first: int, last: int) -> int:
    """Move the measure's window to offsets [first, last], and return its number of distinct values."""
    word = words_of(measures, measure)
    base = state.slots[slot, S_BASE]
    low = state.slots[slot, word]
    high = state.slots[slot, word + 1]
    n = state.slots[slot, word + 2]
    end = last + 1
    while high < end:
        n += change(state, measures, measure, base + high, 1)
        high += 1
    while low > first:
        low -= 1
        n += change(state, measures, measure, base + low, 1)
    while high > end:
        high -= 1
        n += change(state, measures, measure, base + high, -1)
    while low < first:
        n += change(state, measures, measure, base + low, -1)
        low += 1
    state.slots[slot, word] = low
    state.slots[slot, word + 1] = high
    state.slots[slot, word + 2] = n
    return n
