"""The largest or smallest value of a run of rows: blocks of 16, 256 and 4,096 rows over the pool.

A region of the pool starts at a multiple of its size (or of 4,096), so that blocks never span two regions. Rows that
do not count hold the value that loses every comparison.
"""

from __future__ import annotations

import numpy as np

from fraud_rules.window.compiler import compiled, inlined
from fraud_rules.window.state import Ints, State

MAX = np.iinfo(np.int64).max
MIN = np.iinfo(np.int64).min


@inlined
def idle_value(trees: Ints, m: int) -> int:
    """What a row that does not count holds in tree m."""
    return MIN if trees[m, 2] == 1 else MAX


@inlined
def beats(trees: Ints, m: int, value: int, best: int) -> bool:
    """Whether the value is to be preferred in tree m."""
    return value > best if trees[m, 2] == 1 else value < best


@compiled
def _rebuild(blocks: Ints, below: Ints, trees: Ints, first: int, last: int) -> None:
    """Recompute blocks [first, last] from the 16 values below each."""
    for b in range(first, last + 1):
        for m in range(trees.shape[0]):
            best = below[b * 16, m]
            for k in range(1, 16):
                if beats(trees, m, below[b * 16 + k, m], best):
                    best = below[b * 16 + k, m]
            blocks[b, m] = best


@compiled
def _fill_idle(values: Ints, trees: Ints, first: int, end: int) -> None:
    for m in range(trees.shape[0]):
        for k in range(first, end):
            values[k, m] = idle_value(trees, m)


@compiled
def refresh(state: State, trees: Ints, base: int, cap: int, first: int, tail: int) -> None:
    """Make the blocks right again for a region whose leaves changed from offset `first` on."""
    if cap < 16 or tail == 0:
        return
    last = base + tail - 1
    _fill_idle(state.leaves, trees, last + 1, ((last >> 4) + 1) << 4)
    _rebuild(state.blocks_16, state.leaves, trees, (base + first) >> 4, last >> 4)
    if cap >= 256:
        _fill_idle(state.blocks_16, trees, (last >> 4) + 1, ((last >> 8) + 1) << 4)
        _rebuild(state.blocks_256, state.blocks_16, trees, (base + first) >> 8, last >> 8)
    if cap >= 4096:
        _fill_idle(state.blocks_256, trees, (last >> 8) + 1, ((last >> 12) + 1) << 4)
        _rebuild(state.blocks_4096, state.blocks_256, trees, (base + first) >> 12, last >> 12)


@inlined
def _fold(blocks: Ints, trees: Ints, m: int, block: int, value: int) -> None:
    if beats(trees, m, value, blocks[block, m]):
        blocks[block, m] = value


@inlined
def append(state: State, trees: Ints, at: int, cap: int) -> None:
    """The row at pool position `at`, not the first of a block, became the youngest of its region: fold it in."""
    for m in range(trees.shape[0]):
        value = state.leaves[at, m]
        if cap >= 16:
            _fold(state.blocks_16, trees, m, at >> 4, value)
        if cap >= 256:
            _fold(state.blocks_256, trees, m, at >> 8, value)
        if cap >= 4096:
            _fold(state.blocks_4096, trees, m, at >> 12, value)


@inlined
def best_of(state: State, trees: Ints, m: int, base: int, cap: int, first: int, last: int) -> int:
    """The best value of offsets [first, last], read off the widest blocks that fit."""
    at = base + first
    end = base + last
    best = idle_value(trees, m)
    while at <= end:
        if cap >= 4096 and at & 4095 == 0 and at + 4095 <= end:
            value = state.blocks_4096[at >> 12, m]
            at += 4096
        elif cap >= 256 and at & 255 == 0 and at + 255 <= end:
            value = state.blocks_256[at >> 8, m]
            at += 256
        elif cap >= 16 and at & 15 == 0 and at + 15 <= end:
            value = state.blocks_16[at >> 4, m]
            at += 16
        else:
            value = state.leaves[at, m]
            at += 1
        if beats(trees, m, value, best):
            best = value
    return best
