"""Reads the aggregate of a window, for a rule, a condition of a rule, or a baseline."""

from __future__ import annotations

from typing import NamedTuple

from fraud_rules.engine.window import extremes, multiset, resets
from fraud_rules.engine.window.aggregates import (
    KIND_AVG,
    KIND_DISTINCT,
    KIND_EXTREME,
    KIND_RESET,
    KIND_STDDEV,
    KIND_SUM,
)
from fraud_rules.engine.window.bundles import EvaluatedRow, Ints, KernelArrays, Span, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.displaced import NO_RUN
from fraud_rules.engine.window.evaluation.windows import rows_in, sum_in
from fraud_rules.engine.window.hash_tables import find_mark
from fraud_rules.engine.window.key_rows import LOW_MASK
from fraud_rules.engine.window.layout import (
    M_RESET_SEQ,
    NONE,
    O_COUNT,
    O_HIGH,
    O_LOW,
    O_SQUARE,
    O_VALUES,
    R_COUNT,
    R_DISTINCT,
    R_KIND,
    R_LOW,
    R_RULE,
    R_TREE,
    R_VALUES,
)


class WindowAggregate(NamedTuple):
    """The aggregate of a window with so many `rows` and `values` that are not null: (high << 32) + low, with
    0 <= low < 2**32. s0 to s3 are the limbs of the sum of squares, lowest first."""

    rows: int
    values: int
    high: int
    low: int
    s0: int
    s1: int
    s2: int
    s3: int


@inlined
def read_aggregate(
    arrays: KernelArrays, rows: Ints, r: int, number: int, row: EvaluatedRow, span: Span
) -> WindowAggregate:
    """Read the aggregate that row r of `rows` declares, over a span. `rows` are `RuleArrays.rows` or `baselines`.

    `number` is the row of `ResultArrays.shared` of an extreme or a number of distinct values; -1: no rule shares it.
    """
    kind = rows[r, R_KIND]
    count = count_rows(arrays, rows, r, row, span)
    values = count
    if rows[r, R_VALUES] >= 0:
        values = sum_in(arrays, row, span, rows[r, R_VALUES])
    column = rows[r, R_LOW]
    high = low = s0 = s1 = s2 = s3 = 0
    if kind == KIND_SUM or kind == KIND_AVG or kind == KIND_STDDEV:
        low = sum_in(arrays, row, span, column)
        high = sum_in(arrays, row, span, column + 1) + (low >> 32)
        low &= LOW_MASK
        if kind == KIND_STDDEV:
            s0 = sum_in(arrays, row, span, column + 2)
            s1 = sum_in(arrays, row, span, column + 3)
            s2 = sum_in(arrays, row, span, column + 4)
            s3 = sum_in(arrays, row, span, column + 5)
    elif kind == KIND_EXTREME:
        low = _shared(arrays, rows, r, number, row, span)
        high = low >> 32
        low &= LOW_MASK
    else:
        if kind == KIND_RESET:
            count = values = _count_since_reset(arrays.state, arrays.side, rows, r, row, span, count)
        low = s0 = values  # a sum of ones, and of their squares
        if kind == KIND_DISTINCT:  # no tuple without a null is 0, which is compared like any other count
            low = _shared(arrays, rows, r, number, row, span)
    return WindowAggregate(count, values, high, low, s0, s1, s2, s3)


@inlined
def count_rows(arrays: KernelArrays, rows: Ints, r: int, row: EvaluatedRow, span: Span) -> int:
    """Count the rows of a span that pass the filter of row r of `rows`."""
    if rows[r, R_COUNT] < 0:
        return rows_in(span)
    return sum_in(arrays, row, span, rows[r, R_COUNT])


@inlined
def _shared(arrays: KernelArrays, rows: Ints, r: int, number: int, row: EvaluatedRow, span: Span) -> int:
    """An extreme or number of distinct values, computed once for all rules that share it at a row."""
    shared = arrays.results.shared
    if number >= 0 and shared[number, 0] == row.number:
        return shared[number, 1]
    if rows[r, R_KIND] == KIND_DISTINCT:
        measure = rows[r, R_DISTINCT]
        value = multiset.count(arrays.state, arrays.measures, row.slot, measure, span.first, span.last)
        if row.run != NO_RUN:
            # A value in both parts has one entry in the multiset, so the numbers of both parts add up.
            value += multiset.count(arrays.side, arrays.measures, row.run, measure, span.side_first, span.side_last)
    else:
        tree = rows[r, R_TREE]
        best = extremes.best_in(arrays.state, row.slot, tree, span.first, span.last)
        if row.run != NO_RUN:
            best = min(best, extremes.best_in(arrays.side, row.run, tree, span.side_first, span.side_last))
        value = extremes.rank(arrays.measures.trees, tree, best)
    if number >= 0:
        shared[number, 0] = row.number
        shared[number, 1] = value
    return value


@compiled
def _count_since_reset(
    state: StateArrays, side: StateArrays, rows: Ints, r: int, row: EvaluatedRow, span: Span, count: int
) -> int:
    """Count the rows of a span that arrived after the last alert of rule r; all `count` rows without one."""
    entry = state.mark_table[find_mark(state, rows[r, R_RULE], row.slot)] - 1
    if entry < 0 or state.marks[entry, M_RESET_SEQ] == NONE:
        return count
    return resets.count_after(state, side, entry, rows, r, row, span)


@inlined
def write_aggregate(output: Ints, at: int, aggregate: WindowAggregate) -> None:
    """Write an aggregate to output row `at`."""
    output[at, O_COUNT] = aggregate.rows
    output[at, O_VALUES] = aggregate.values
    output[at, O_HIGH] = aggregate.high
    output[at, O_LOW] = aggregate.low
    output[at, O_SQUARE] = aggregate.s0
    output[at, O_SQUARE + 1] = aggregate.s1
    output[at, O_SQUARE + 2] = aggregate.s2
    output[at, O_SQUARE + 3] = aggregate.s3


@inlined
def written_aggregate(output: Ints, e: int) -> WindowAggregate:
    """The aggregate in output row e."""
    return WindowAggregate(
        output[e, O_COUNT], output[e, O_VALUES], output[e, O_HIGH], output[e, O_LOW],
        output[e, O_SQUARE], output[e, O_SQUARE + 1], output[e, O_SQUARE + 2], output[e, O_SQUARE + 3],
    )  # fmt: skip
