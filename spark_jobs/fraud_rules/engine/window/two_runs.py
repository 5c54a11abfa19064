"""Evaluates the rules of a row whose key has a displaced run: each window has key rows and displaced rows.

A window is the key rows [first, last] and the displaced rows [side_first, side_last]. Either part may be empty. The
kernel has a body of its own for the rows without such a run: with one body for both, a backlog of skewed keys was
measured at about 0.9 of the rate.
"""

from __future__ import annotations

from fraud_rules.engine.window import baseline, extremes, multiset, resets
from fraud_rules.engine.window.aggregates import (
    KIND_AVG,
    KIND_DISTINCT,
    KIND_EXTREME,
    KIND_RESET,
    KIND_STDDEV,
    KIND_SUM,
)
from fraud_rules.engine.window.bundles import Arrivals, Ints, MeasureArrays, ResultArrays, RuleArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled
from fraud_rules.engine.window.displaced import sum_of_both
from fraud_rules.engine.window.firing import conclude
from fraud_rules.engine.window.hash_tables import find_mark
from fraud_rules.engine.window.key_rows import LOW_MASK, insert_offset, move_left, opening
from fraud_rules.engine.window.layout import (
    B_REACH,
    H_BOUND,
    M_RESET_SEQ,
    MODE_BASELINE,
    MODE_PAUSED,
    NONE,
    R_COUNT,
    R_DISTINCT,
    R_KIND,
    R_LOW,
    R_MODE,
    R_RULE,
    R_SHARED,
    R_TREE,
    R_VALUES,
    R_WHEN,
    R_WINDOW,
)


@compiled
def evaluate_all(
    state: StateArrays,
    side: StateArrays,
    measures: MeasureArrays,
    rules: RuleArrays,
    arrivals: Arrivals,
    results: ResultArrays,
    explain: int,
    i: int,
    slot: int,
    run: int,
    time: int,
) -> None:
    """Evaluate the rules of row i's version, in order of rule id. The row is among the key rows or in the run."""
    version = arrivals.versions[i]
    bound = state.header[H_BOUND]
    windows = measures.windows.shape[0]
    last = insert_offset(state, slot, time) - 1
    side_last = insert_offset(side, run, time) - 1
    for w in range(windows):
        results.lefts[w] = -1
    for r in range(rules.starts[version], rules.starts[version + 1]):
        if rules.rows[r, R_MODE] == MODE_PAUSED or arrivals.passes[i, rules.rows[r, R_WHEN]] == 0:
            continue
        w = rules.rows[r, R_WINDOW]
        if results.lefts[w] < 0:
            opens = opening(measures, arrivals, i, w, time)
            if opens == NONE:
                continue
            opens = max(opens, bound)
            results.lefts[w] = move_left(state, slot, w, opens)
            results.lefts[windows + w] = move_left(side, run, w, opens)
        first, side_first = results.lefts[w], results.lefts[windows + w]
        if rules.rows[r, R_MODE] == MODE_BASELINE:
            reach = rules.baselines[r, B_REACH]
            if results.lefts[reach] < 0:
                opens = max(opening(measures, arrivals, i, reach, time), bound)
                results.lefts[reach] = move_left(state, slot, reach, opens)
                results.lefts[windows + reach] = move_left(side, run, reach, opens)
            baseline.evaluate(
                state, side, measures, rules, arrivals, results, explain, i, r, slot, run, first, last, side_first,
                side_last, results.lefts[reach], results.lefts[windows + reach], time,
            )  # fmt: skip
            continue
        _evaluate(
            state, side, measures, rules, arrivals, results, explain, i, r, slot, run,
            first, last, side_first, side_last, time,
        )  # fmt: skip


@compiled
def _evaluate(
    state: StateArrays,
    side: StateArrays,
    measures: MeasureArrays,
    rules: RuleArrays,
    arrivals: Arrivals,
    results: ResultArrays,
    explain: int,
    i: int,
    r: int,
    slot: int,
    run: int,
    first: int,
    last: int,
    side_first: int,
    side_last: int,
    time: int,
) -> None:
    """Evaluate rule r over both parts of the window, and write the output row. See `kernel` for the branches."""
    kind = rules.rows[r, R_KIND]
    column = rules.rows[r, R_COUNT]
    count = last - first + 1 + side_last - side_first + 1
    if column >= 0:
        count = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column)
    values = count
    column = rules.rows[r, R_VALUES]
    if column >= 0:
        values = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column)
    column = rules.rows[r, R_LOW]
    high = 0
    low = 0
    if kind == KIND_SUM or kind == KIND_AVG or kind == KIND_STDDEV:
        low = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column)
        high = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 1) + (low >> 32)
        low &= LOW_MASK
    elif kind == KIND_EXTREME:
        low = _shared(
            state, side, measures, rules.rows, results.shared, i, r, slot, run, first, last, side_first, side_last
        )
        high = low >> 32
        low &= LOW_MASK
    else:
        if kind == KIND_RESET:
            entry = state.mark_table[find_mark(state, rules.rows[r, R_RULE], slot)] - 1
            if entry >= 0 and state.marks[entry, M_RESET_SEQ] != NONE:
                count = resets.count_after_in_both(
                    state, side, entry, slot, run, rules.rows, r, first, last, side_first, side_last
                )
                values = count
        low = values
        if kind == KIND_DISTINCT:
            low = _shared(
                state, side, measures, rules.rows, results.shared, i, r, slot, run, first, last, side_first, side_last
            )
    s0 = s1 = s2 = s3 = 0
    if kind == KIND_STDDEV:
        s0 = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 2)
        s1 = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 3)
        s2 = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 4)
        s3 = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 5)
    conclude(
        state, measures, rules, arrivals, results, explain, i, r, slot, time, count, values, high, low, s0, s1, s2, s3
    )


@compiled
def _shared(
    state: StateArrays,
    side: StateArrays,
    measures: MeasureArrays,
    rows: Ints,
    shared: Ints,
    i: int,
    r: int,
    slot: int,
    run: int,
    first: int,
    last: int,
    side_first: int,
    side_last: int,
) -> int:
    """Rule r's extreme or number of distinct values, computed once for all rules that share it at row i."""
    number = rows[r, R_SHARED]
    if shared[number, 0] != i:
        shared[number, 0] = i
        if rows[r, R_KIND] == KIND_DISTINCT:
            # A value in both parts has one entry in the multiset, so the numbers of both parts add up.
            shared[number, 1] = multiset.count(state, measures, slot, rows[r, R_DISTINCT], first, last)
            shared[number, 1] += multiset.count(side, measures, run, rows[r, R_DISTINCT], side_first, side_last)
        else:
            tree = rows[r, R_TREE]
            best = min(
                extremes.best_in(state, slot, tree, first, last),
                extremes.best_in(side, run, tree, side_first, side_last),
            )
            shared[number, 1] = extremes.rank(measures.trees, tree, best)
    return shared[number, 1]
