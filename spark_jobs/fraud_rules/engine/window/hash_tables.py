"""Open-addressing hash tables over the rows of other arrays: an entry is a row number plus one, 0 is free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window.bundles import Ints, MeasureArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.instructions import fetch
from fraud_rules.engine.window.layout import (
    D_EVENT,
    D_MEASURE,
    D_SLOT,
    E_SLOT,
    H_DISTINCT,
    H_EVENTS,
    H_MARKS,
    H_SLOTS,
    M_LAST_TIME,
    M_RESET_SEQ,
    M_RESET_TIME,
    M_REVIVED,
    M_RULE,
    M_SLOT,
    M_SUPPRESSED,
    NONE,
)

AHEAD = 8
"""How many rows ahead memory is prefetched. These rows take about as long as an access to memory."""


@inlined
def mix(h: np.uint64, value: int) -> np.uint64:
    """Mix one more value into a hash by SplitMix64's finaliser."""
    x = np.uint64(h) ^ np.uint64(value)
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def mix_pair(first: int, second: int) -> np.uint64:
    """The hash of two values that may grow together.

    The first value is mixed before the second one joins it. Otherwise all pairs with the same difference would collide,
    such as ids and keys that both count up.
    """
    return mix(mix(np.uint64(0), first), second)


@inlined
def find_slot(state: StateArrays, measures: MeasureArrays, rows: Ints, i: int) -> int:
    """The slot of row i's key, or -(its free place in the table) - 1 for a new key."""
    h = np.uint64(0)
    for k in range(measures.key_columns.shape[0]):
        h = mix(h, rows[i, measures.key_columns[k]])
    mask = np.uint64(state.key_table.shape[0] - 1)
    at = h & mask
    while True:
        slot = state.key_table[at] - 1
        if slot < 0:
            return -np.int64(at) - 1
        same = True
        for k in range(measures.key_columns.shape[0]):
            if state.slots[slot, measures.key_at + k] != rows[i, measures.key_columns[k]]:
                same = False
                break
        if same:
            return np.int64(slot)
        at = (at + np.uint64(1)) & mask


@inlined
def make_slot(state: StateArrays, measures: MeasureArrays, rows: Ints, i: int, place: int) -> int:
    """Create the slot of row i's key at a free place of the table. The caller must provide the room."""
    slot = state.header[H_SLOTS]
    state.header[H_SLOTS] += 1
    state.key_table[place] = slot + 1
    for c in range(measures.key_at):
        state.slots[slot, c] = 0
    for k in range(measures.key_columns.shape[0]):
        state.slots[slot, measures.key_at + k] = rows[i, measures.key_columns[k]]
    return slot


@inlined
def id_place(state: StateArrays, slot: int, identity: int) -> np.uint64:
    """The table place at which the search for an event starts."""
    return mix_pair(identity, slot) & np.uint64(state.id_table.shape[0] - 1)


@inlined
def find_event(state: StateArrays, measures: MeasureArrays, slot: int, rows: Ints, i: int) -> int:
    """The table place of the event with the identity of row i in this slot, or the free place for it.

    The hash is that of the id alone, because few transactions have several rows in a slot.
    """
    mask = np.uint64(state.id_table.shape[0] - 1)
    identity = rows[i, measures.id_column]
    at = id_place(state, slot, identity)
    while True:
        event = state.id_table[at] - 1
        if event < 0:
            return np.int64(at)
        if (
            state.events[event, measures.id_column] == identity
            and state.events[event, E_SLOT] == slot
            and state.events[event, measures.role_column] == rows[i, measures.role_column]
        ):
            return np.int64(at)
        at = (at + np.uint64(1)) & mask


@inlined
def mark_place(state: StateArrays, rule: int, slot: int) -> np.uint64:
    """The table place at which the search for a mark starts."""
    return mix_pair(rule, slot) & np.uint64(state.mark_table.shape[0] - 1)


@inlined
def find_mark(state: StateArrays, rule: int, slot: int) -> int:
    """The table place of the mark of (rule, slot), or the free place for it."""
    mask = np.uint64(state.mark_table.shape[0] - 1)
    at = mark_place(state, rule, slot)
    while True:
        entry = state.mark_table[at] - 1
        if entry < 0 or (state.marks[entry, M_RULE] == rule and state.marks[entry, M_SLOT] == slot):
            return np.int64(at)
        at = (at + np.uint64(1)) & mask


@compiled
def find_marks(state: StateArrays, rules: Ints, slots: Ints, found: NDArray[np.bool_]) -> None:
    """Set `found`, bool[marks], for the marks of the pairs (rule, slot)."""
    for i in range(rules.shape[0]):
        entry = state.mark_table[find_mark(state, rules[i], slots[i])] - 1
        if entry >= 0:
            found[entry] = True


@compiled
def ensure_mark(state: StateArrays, rule: int, slot: int) -> int:
    """The mark row of (rule, slot), created if missing. The caller must provide the room."""
    at = find_mark(state, rule, slot)
    entry = state.mark_table[at] - 1
    if entry < 0:
        entry = state.header[H_MARKS]
        state.header[H_MARKS] += 1
        state.mark_table[at] = entry + 1
        state.marks[entry, M_RULE] = rule
        state.marks[entry, M_SLOT] = slot
        state.marks[entry, M_RESET_SEQ] = NONE
        state.marks[entry, M_RESET_TIME] = NONE
        state.marks[entry, M_REVIVED] = 0
        state.marks[entry, M_LAST_TIME] = NONE
        state.marks[entry, M_SUPPRESSED] = 0
    return np.int64(entry)


@compiled
def find_distinct(state: StateArrays, measures: MeasureArrays, measure: int, slot: int, event: int) -> int:
    """The table place of the event's value in a measure's multiset, or the free place for it."""
    mask = np.uint64(state.distinct_table.shape[0] - 1)
    h = mix_pair(measure, slot)
    fields = measures.distincts[measure, 2]
    for k in range(fields):
        h = mix(h, state.events[event, measures.distincts[measure, 3 + k]])
    at = h & mask
    while True:
        entry = state.distinct_table[at] - 1
        if entry < 0:
            return np.int64(at)
        if state.distinct[entry, D_MEASURE] == measure and state.distinct[entry, D_SLOT] == slot:
            same = True
            for k in range(fields):
                column = measures.distincts[measure, 3 + k]
                if state.events[state.distinct[entry, D_EVENT], column] != state.events[event, column]:
                    same = False
                    break
            if same:
                return np.int64(at)
        at = (at + np.uint64(1)) & mask


@compiled
def assign_slots(state: StateArrays, measures: MeasureArrays, rows: Ints, assigned: Ints) -> None:
    """Write the slot of each row's key to `assigned`. New keys get slots in order of first use. The caller must provide
    the room."""
    for i in range(rows.shape[0]):
        slot = find_slot(state, measures, rows, i)
        if slot < 0:
            slot = make_slot(state, measures, rows, i, -slot - 1)
        assigned[i] = slot


@compiled
def load_marks(state: StateArrays, rows: Ints, assigned: Ints) -> None:
    """Set marks from rows (M_*) and their slots. Later rows override earlier ones. The caller must provide the room."""
    for i in range(rows.shape[0]):
        entry = ensure_mark(state, rows[i, M_RULE], assigned[i])
        for c in range(M_RESET_SEQ, rows.shape[1]):
            state.marks[entry, c] = rows[i, c]


@compiled
def index_events(state: StateArrays, measures: MeasureArrays) -> None:
    """Fill a new table of identities. It holds the later of two events with the same identity."""
    events = state.header[H_EVENTS]
    for event in range(events):
        if event + AHEAD < events:
            later = event + AHEAD
            fetch(state.id_table, id_place(state, state.events[later, E_SLOT], state.events[later, measures.id_column]))
        place = find_event(state, measures, state.events[event, E_SLOT], state.events, event)
        state.id_table[place] = event + 1


@compiled
def index_slots(state: StateArrays, measures: MeasureArrays) -> None:
    """Fill a new table of keys."""
    for slot in range(state.header[H_SLOTS]):
        h = np.uint64(0)
        for k in range(measures.key_columns.shape[0]):
            h = mix(h, state.slots[slot, measures.key_at + k])
        mask = np.uint64(state.key_table.shape[0] - 1)
        at = h & mask
        while state.key_table[at] != 0:
            at = (at + np.uint64(1)) & mask
        state.key_table[at] = slot + 1


@compiled
def index_marks(state: StateArrays) -> None:
    """Fill a new table of marks."""
    for entry in range(state.header[H_MARKS]):
        state.mark_table[find_mark(state, state.marks[entry, M_RULE], state.marks[entry, M_SLOT])] = entry + 1


@compiled
def index_distinct(state: StateArrays, measures: MeasureArrays) -> None:
    """Fill a new table of distinct values."""
    for entry in range(state.header[H_DISTINCT]):
        measure, slot = state.distinct[entry, D_MEASURE], state.distinct[entry, D_SLOT]
        place = find_distinct(state, measures, measure, slot, state.distinct[entry, D_EVENT])
        state.distinct_table[place] = entry + 1
