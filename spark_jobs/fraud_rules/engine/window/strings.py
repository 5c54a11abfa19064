"""The strings of a grouping state, in arrays that every worker of a host maps: a string is the code of its text.

The texts lie one after the other in the order of their codes. A hash table over them finds the code of a text. So a
worker needs no memory of its own for strings, and reads none that another worker has added.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window.bundles import Ints, MeasureArrays, StateArrays, StringArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.hash_tables import index_distinct, index_events, index_slots, mix
from fraud_rules.engine.window.layout import H_EVENTS, H_SEED, H_SLOTS, H_STRINGS, H_TEXT

Bytes = NDArray[np.uint8]


@inlined
def _start(ends: Ints, code: int) -> int:
    """Where the text of a code begins."""
    return ends[code - 1] if code > 0 else 0


@inlined
def _hash(text: Bytes, start: int, end: int, seed: int) -> np.uint64:
    """The hash of text[start:end]. The seed differs between states, so that payers cannot choose texts that collide."""
    h: np.uint64 = mix(np.uint64(seed), end - start)
    word = np.uint64(0)
    for k in range(start, end):
        word = (word << np.uint64(8)) | np.uint64(text[k])
        if (k - start) & 7 == 7:
            h = mix(h, np.int64(word))
            word = np.uint64(0)
    return np.uint64(mix(h, np.int64(word)))


@inlined
def _find(strings: StringArrays, text: Bytes, start: int, end: int, h: np.uint64) -> np.int64:
    """The table place of the string text[start:end] with this hash, or the free place for it."""
    mask = np.uint64(strings.table.shape[0] - 1)
    at = h & mask
    while True:
        code = np.int64(strings.table[at]) - 1
        if code < 0:
            return np.int64(at)
        first = _start(strings.ends, code)
        same = strings.ends[code] - first == end - start
        k = 0
        while same and k < end - start:
            same = strings.text[first + k] == text[start + k]
            k += 1
        if same:
            return np.int64(at)
        at = (at + np.uint64(1)) & mask


@compiled
def intern(header: Ints, strings: StringArrays, text: Bytes, ends: Ints, codes: Ints) -> None:
    """Write the codes of strings to `codes`: string i is the part of `text` before ends[i]. New strings get new codes.
    The caller must provide the room."""
    for i in range(ends.shape[0]):
        start = _start(ends, i)
        place = _find(strings, text, start, ends[i], _hash(text, start, ends[i], header[H_SEED]))
        code = np.int64(strings.table[place]) - 1
        if code < 0:
            code = header[H_STRINGS]
            used = header[H_TEXT]
            for k in range(ends[i] - start):
                strings.text[used + k] = text[start + k]
            header[H_TEXT] = strings.ends[code] = used + ends[i] - start
            header[H_STRINGS] = code + 1
            strings.table[place] = code + 1
        codes[i] = code


@compiled
def index_strings(header: Ints, strings: StringArrays) -> None:
    """Fill a new table of strings."""
    mask = np.uint64(strings.table.shape[0] - 1)
    for code in range(header[H_STRINGS]):
        at = _hash(strings.text, _start(strings.ends, code), strings.ends[code], header[H_SEED]) & mask
        while strings.table[at] != 0:
            at = (at + np.uint64(1)) & mask
        strings.table[at] = code + 1


@compiled
def find_used(state: StateArrays, measures: MeasureArrays, columns: Ints, codes: Ints) -> None:
    """Set `codes`, zeros int64[strings], to 1 for the strings of rows and keys. `columns` are the fields with strings,
    as columns of `events`."""
    for c in range(columns.shape[0]):
        for event in range(state.header[H_EVENTS]):
            code = state.events[event, columns[c]]
            if code < codes.shape[0]:
                codes[code] = 1
        for k in range(measures.key_columns.shape[0]):
            if measures.key_columns[k] == columns[c]:
                for slot in range(state.header[H_SLOTS]):
                    codes[state.slots[slot, measures.key_at + k]] = 1


@compiled
def drop_unused(state: StateArrays, measures: MeasureArrays, strings: StringArrays, columns: Ints, codes: Ints) -> None:
    """Remove the strings whose entry in `codes` is 0 (see `find_used`), and give the others the first codes.

    `codes` then holds the new code of each string.
    """
    header = state.header
    kept, used, start = 0, 0, 0
    for code in range(header[H_STRINGS]):
        end = strings.ends[code]
        if codes[code] != 0:
            for k in range(end - start):
                strings.text[used + k] = strings.text[start + k]
            used += end - start
            strings.ends[kept] = used
            codes[code] = kept
            kept += 1
        start = end
    header[H_STRINGS] = kept
    header[H_TEXT] = used
    strings.table[:] = 0
    index_strings(header, strings)
    _renumber(state, measures, columns, codes)


@compiled
def _renumber(state: StateArrays, measures: MeasureArrays, columns: Ints, codes: Ints) -> None:
    """Replace the codes in rows and keys, and index these again."""
    for c in range(columns.shape[0]):
        for event in range(state.header[H_EVENTS]):
            code = state.events[event, columns[c]]
            if code < codes.shape[0]:
                state.events[event, columns[c]] = codes[code]
        for k in range(measures.key_columns.shape[0]):
            if measures.key_columns[k] == columns[c]:
                for slot in range(state.header[H_SLOTS]):
                    state.slots[slot, measures.key_at + k] = codes[state.slots[slot, measures.key_at + k]]
    state.key_table[:] = 0
    index_slots(state, measures)
    state.id_table[:] = 0
    index_events(state, measures)
    if measures.distincts.shape[0] > 0:
        state.distinct_table[:] = 0
        index_distinct(state, measures)
