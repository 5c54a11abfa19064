"""Finds the largest or smallest value of a run of rows, by blocks of 16, 256 and 4,096 rows over the pool.

A key uses blocks of a size if its range has room for four of them. The start of the range and its length are multiples
of the widest of these sizes, so that a block never spans two keys.
A row that does not count holds `IDLE`, which loses every comparison.
"""

from __future__ import annotations

import numpy as np

from fraud_rules.engine.window.bundles import Ints, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.layout import S_BASE, S_CAP, S_TAIL

IDLE = np.iinfo(np.int64).max
"""The value of a row that does not count. It loses every comparison."""


FROM_16 = 64
"""The capacity from which a range uses blocks of 16 rows."""
FROM_256 = 1_024
FROM_4096 = 16_384


@inlined
def widest_block(cap: int) -> int:
    """The size of the widest blocks that a range of this capacity uses; 1 without blocks."""
    if cap < FROM_16:
        return 1
    if cap < FROM_256:
        return 16
    return 256 if cap < FROM_4096 else 4096


@inlined
def rank(trees: Ints, m: int, value: int) -> int:
    """The value as stored in tree m, whose best value is always the smallest. Its own inverse."""
    return ~value if trees[m, 2] == 1 else value


@compiled
def _rebuild(blocks: Ints, below: Ints, first: int, last: int) -> None:
    """Recompute blocks [first, last] from the 16 values below each."""
    for b in range(first, last + 1):
        for m in range(below.shape[1]):
            best = below[b * 16, m]
            for k in range(1, 16):
                best = min(best, below[b * 16 + k, m])
            blocks[b, m] = best


@compiled
def _fill_idle(values: Ints, first: int, end: int) -> None:
    for k in range(first, end):
        for m in range(values.shape[1]):
            values[k, m] = IDLE


@compiled
def refresh(state: StateArrays, base: int, cap: int, first: int, tail: int) -> None:
    """Recompute the blocks of a key's rows after its leaves changed from offset `first` on."""
    if cap < FROM_16 or tail == 0:
        return
    last = base + tail - 1
    _fill_idle(state.leaves, last + 1, ((last >> 4) + 1) << 4)
    _rebuild(state.blocks_16, state.leaves, (base + first) >> 4, last >> 4)
    if cap >= FROM_256:
        _fill_idle(state.blocks_16, (last >> 4) + 1, ((last >> 8) + 1) << 4)
        _rebuild(state.blocks_256, state.blocks_16, (base + first) >> 8, last >> 8)
    if cap >= FROM_4096:
        _fill_idle(state.blocks_256, (last >> 8) + 1, ((last >> 12) + 1) << 4)
        _rebuild(state.blocks_4096, state.blocks_256, (base + first) >> 12, last >> 12)


@inlined
def append(state: StateArrays, at: int, cap: int) -> None:
    """Add the row at pool position `at` to its blocks. It must be the newest row of its key, and not start a block."""
    for m in range(state.leaves.shape[1]):
        value = state.leaves[at, m]
        if cap >= FROM_16:
            state.blocks_16[at >> 4, m] = min(state.blocks_16[at >> 4, m], value)
        if cap >= FROM_256:
            state.blocks_256[at >> 8, m] = min(state.blocks_256[at >> 8, m], value)
        if cap >= FROM_4096:
            state.blocks_4096[at >> 12, m] = min(state.blocks_4096[at >> 12, m], value)


@compiled
def best_of(state: StateArrays, m: int, base: int, cap: int, first: int, last: int, tail: int) -> int:
    """The best rank in tree m of offsets [first, last], read from the widest blocks that fit.

    Rows after the newest row of a key do not count in its blocks, so a run that ends at the newest row may read
    its last blocks whole.
    """
    at = base + first
    end = base + last
    open_end = 4095 if last == tail - 1 else 0
    end_16 = end | (open_end & 15)
    end_256 = end | (open_end & 255)
    end_4096 = end | open_end
    best = IDLE
    while at <= end:
        if cap >= FROM_4096 and at & 4095 == 0 and at + 4095 <= end_4096:
            best = min(best, state.blocks_4096[at >> 12, m])
            at += 4096
        elif cap >= FROM_256 and at & 255 == 0 and at + 255 <= end_256:
            best = min(best, state.blocks_256[at >> 8, m])
            at += 256
        elif cap >= FROM_16 and at & 15 == 0 and at + 15 <= end_16:
            best = min(best, state.blocks_16[at >> 4, m])
            at += 16
        else:
            best = min(best, state.leaves[at, m])
            at += 1
    return best


@inlined
def best_in(state: StateArrays, slot: int, tree: int, first: int, last: int) -> int:
    """`best_of` over the rows of a slot."""
    base, cap, tail = state.slots[slot, S_BASE], state.slots[slot, S_CAP], state.slots[slot, S_TAIL]
    return best_of(state, tree, base, cap, first, last, tail)
