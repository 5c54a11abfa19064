"""The largest or smallest value of a run of rows: blocks of 16, 256 and 4,096 rows over the pool.

A region of the pool starts at a multiple of its size (or of 4,096), so that blocks never span two regions. Rows that
do not count hold the value that loses every comparison.
"""

from __future__ import annotations

import numpy as np

from fraud_rules.engine.window.bundles import Ints, State
from fraud_rules.engine.window.compiler import compiled, inlined

IDLE = np.iinfo(np.int64).max
"""What a row that does not count holds: it loses every comparison."""


@inlined
def rank(trees: Ints, m: int, value: int) -> int:
    """The value as tree m holds it: the smallest is wanted of either. Applied twice it gives the value back."""
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
def refresh(state: State, base: int, cap: int, first: int, tail: int) -> None:
    """Make the blocks right again for a region whose leaves changed from offset `first` on."""
    if cap < 16 or tail == 0:
        return
    last = base + tail - 1
    _fill_idle(state.leaves, last + 1, ((last >> 4) + 1) << 4)
    _rebuild(state.blocks_16, state.leaves, (base + first) >> 4, last >> 4)
    if cap >= 256:
        _fill_idle(state.blocks_16, (last >> 4) + 1, ((last >> 8) + 1) << 4)
        _rebuild(state.blocks_256, state.blocks_16, (base + first) >> 8, last >> 8)
    if cap >= 4096:
        _fill_idle(state.blocks_256, (last >> 8) + 1, ((last >> 12) + 1) << 4)
        _rebuild(state.blocks_4096, state.blocks_256, (base + first) >> 12, last >> 12)


@inlined
def append(state: State, at: int, cap: int) -> None:
    """The row at pool position `at`, not the first of a block, became the youngest of its region: fold it in."""
    for m in range(state.leaves.shape[1]):
        value = state.leaves[at, m]
        if cap >= 16:
            state.blocks_16[at >> 4, m] = min(state.blocks_16[at >> 4, m], value)
        if cap >= 256:
            state.blocks_256[at >> 8, m] = min(state.blocks_256[at >> 8, m], value)
        if cap >= 4096:
            state.blocks_4096[at >> 12, m] = min(state.blocks_4096[at >> 12, m], value)


@compiled
def best_of(state: State, m: int, base: int, cap: int, first: int, last: int, tail: int) -> int:
    """The best rank in tree m of offsets [first, last], read off the widest blocks that fit.

    Behind the youngest row of a region its blocks hold nothing that counts, so that a run that ends there may read them
    whole.
    """
    at = base + first
    end = base + last
    open_end = 4095 if last == tail - 1 else 0
    end_16 = end | (open_end & 15)
    end_256 = end | (open_end & 255)
    end_4096 = end | open_end
    best = IDLE
    while at <= end:
        if cap >= 4096 and at & 4095 == 0 and at + 4095 <= end_4096:
            best = min(best, state.blocks_4096[at >> 12, m])
            at += 4096
        elif cap >= 256 and at & 255 == 0 and at + 255 <= end_256:
            best = min(best, state.blocks_256[at >> 8, m])
            at += 256
        elif cap >= 16 and at & 15 == 0 and at + 15 <= end_16:
            best = min(best, state.blocks_16[at >> 4, m])
            at += 16
        else:
            best = min(best, state.leaves[at, m])
            at += 1
    return best
