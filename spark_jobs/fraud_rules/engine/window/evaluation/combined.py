"""Evaluates the conditions of a rule whose own aggregate meets its limit, so that both are one outcome.

A condition is compiled like a rule without an alert: a row of `RuleArrays.rows`, behind the rules of all versions. The
kernel does not visit these rows. It comes here from a rule that would alert, so a rule without conditions costs nothing
more, and the conditions of a rule that does not hold cost nothing. The output rows of the conditions are written behind
the place of the rule's row, and stay there only if the rule's row is written.

`read_aggregate` reads an aggregate from key rows and displaced rows, for a condition, and for a rule whose key has a
displaced run.
"""

from __future__ import annotations

from fraud_rules.engine.window import extremes, multiset, resets
from fraud_rules.engine.window.aggregates import (
    KIND_AVG,
    KIND_DISTINCT,
    KIND_EXTREME,
    KIND_RESET,
    KIND_STDDEV,
    KIND_SUM,
)
from fraud_rules.engine.window.bundles import Arrivals, Ints, MeasureArrays, ResultArrays, RuleArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.displaced import NO_RUN, sum_of_both
from fraud_rules.engine.window.evaluation.condition import is_met, is_met_at
from fraud_rules.engine.window.hash_tables import find_mark
from fraud_rules.engine.window.instructions import call
from fraud_rules.engine.window.key_rows import LOW_MASK, insert_offset, move_left, opening
from fraud_rules.engine.window.layout import (
    H_BOUND,
    H_FIRST,
    H_OUT,
    M_RESET_SEQ,
    NONE,
    O_COMPLETE,
    O_COUNT,
    O_FIRED,
    O_HIGH,
    O_LOW,
    O_ROW,
    O_RULE,
    O_SQUARE,
    O_VALUES,
    O_WIDTH,
    R_CONDITIONS,
    R_COUNT,
    R_DISTINCT,
    R_FIRST_CONDITION,
    R_KIND,
    R_LIMIT,
    R_LOW,
    R_NAMED,
    R_OWN,
    R_REQUIRED,
    R_RULE,
    R_SHARED,
    R_TREE,
    R_VALUES,
    R_WINDOW,
)


@compiled
def evaluate_conditions(
    state: StateArrays,
    side: StateArrays,
    measures: MeasureArrays,
    rules: RuleArrays,
    arrivals: Arrivals,
    results: ResultArrays,
    i: int,
    r: int,
    slot: int,
    run: int,
    time: int,
    count: int,
    values: int,
    high: int,
    low: int,
    s0: int,
    s1: int,
    s2: int,
    s3: int,
) -> tuple[int, bool, bool]:
    """Evaluate the conditions of rule r for row i, with the own aggregate of the rule as in `conclude`.

    Returns (the number of conditions that hold, whether these are as many as required, whether all windows are
    complete). If the rule names rules, each of them can hold.
    """
    if rules.rows[r, R_OWN] != 0:
        at = state.header[H_OUT]
        _write_aggregate(results.output, at, count, values, high, low, s0, s1, s2, s3)
        call(results.own_limits, i, r)
    last = insert_offset(state, slot, time) - 1
    side_last = -1 if run == NO_RUN else insert_offset(side, run, time) - 1
    first = rules.rows[r, R_FIRST_CONDITION]
    holding = 0
    complete = True
    for k in range(rules.rows[r, R_CONDITIONS]):
        at = state.header[H_OUT] + 1 + k
        _evaluate_one(
            state, side, measures, rules, arrivals, results, i, first + k, slot, run, last, side_last, time, at
        )
        holding += results.output[at, O_FIRED]
        complete = complete and results.output[at, O_COMPLETE] != 0
    required = rules.rows[r, R_REQUIRED]
    enough = holding + rules.rows[r, R_NAMED] >= required if required > 0 else holding == 0
    return holding, enough, complete


@inlined
def _evaluate_one(
    state: StateArrays,
    side: StateArrays,
    measures: MeasureArrays,
    rules: RuleArrays,
    arrivals: Arrivals,
    results: ResultArrays,
    i: int,
    c: int,
    slot: int,
    run: int,
    last: int,
    side_last: int,
    time: int,
    at: int,
) -> None:
    """Evaluate condition c, and write output row `at`. Without a window it does not hold."""
    output = results.output
    for column in range(O_WIDTH):
        output[at, column] = 0
    output[at, O_ROW] = i
    output[at, O_RULE] = c
    output[at, O_COMPLETE] = 1
    w = rules.rows[c, R_WINDOW]
    opens = opening(measures, arrivals, i, w, time)
    if opens == NONE:
        return
    bound = state.header[H_BOUND]
    windows = measures.windows.shape[0]
    output[at, O_COMPLETE] = opens >= max(state.header[H_FIRST], bound)
    if results.lefts[w] < 0:
        results.lefts[w] = move_left(state, slot, w, max(opens, bound))
        if run != NO_RUN:
            results.lefts[windows + w] = move_left(side, run, w, max(opens, bound))
    side_first = 0 if run == NO_RUN else results.lefts[windows + w]
    count, values, high, low, s0, s1, s2, s3 = read_aggregate(
        state, side, measures, rules.rows, results.shared, i, c, slot, run, results.lefts[w], last, side_first,
        side_last,
    )  # fmt: skip
    if rules.rows[c, R_LIMIT] < 0:
        output[at, O_FIRED] = is_met(rules, c, results.limbs, high, low, values, s0, s1, s2, s3)
    else:
        output[at, O_FIRED] = is_met_at(arrivals, rules, i, c, results.limbs, high, low, values, s0, s1, s2, s3)
    _write_aggregate(output, at, count, values, high, low, s0, s1, s2, s3)


@inlined
def _write_aggregate(
    output: Ints, at: int, count: int, values: int, high: int, low: int, s0: int, s1: int, s2: int, s3: int
) -> None:
    """Write an aggregate to output row `at`."""
    output[at, O_COUNT] = count
    output[at, O_VALUES] = values
    output[at, O_HIGH] = high
    output[at, O_LOW] = low
    output[at, O_SQUARE] = s0
    output[at, O_SQUARE + 1] = s1
    output[at, O_SQUARE + 2] = s2
    output[at, O_SQUARE + 3] = s3


@compiled
def read_aggregate(
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
) -> tuple[int, int, int, int, int, int, int, int]:
    """The aggregate of row r of `RuleArrays.rows` over both parts of the window.

    Returns (rows, values, high, low, and four limbs of the sum of squares): the aggregate is (high << 32) + low. See
    `kernel` for the branches. Without a displaced run, `side_last` is below `side_first`.
    """
    kind = rows[r, R_KIND]
    column = rows[r, R_COUNT]
    count = last - first + 1 + side_last - side_first + 1
    if column >= 0:
        count = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column)
    values = count
    column = rows[r, R_VALUES]
    if column >= 0:
        values = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column)
    column = rows[r, R_LOW]
    high = 0
    low = 0
    if kind == KIND_SUM or kind == KIND_AVG or kind == KIND_STDDEV:
        low = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column)
        high = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 1) + (low >> 32)
        low &= LOW_MASK
    elif kind == KIND_EXTREME:
        low = _shared(state, side, measures, rows, shared, i, r, slot, run, first, last, side_first, side_last)
        high = low >> 32
        low &= LOW_MASK
    else:
        if kind == KIND_RESET:
            entry = state.mark_table[find_mark(state, rows[r, R_RULE], slot)] - 1
            if entry >= 0 and state.marks[entry, M_RESET_SEQ] != NONE:
                count = resets.count_after_in_both(
                    state, side, entry, slot, run, rows, r, first, last, side_first, side_last
                )
                values = count
        low = values
        if kind == KIND_DISTINCT:
            low = _shared(state, side, measures, rows, shared, i, r, slot, run, first, last, side_first, side_last)
    s0 = s1 = s2 = s3 = 0
    if kind == KIND_STDDEV:
        s0 = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 2)
        s1 = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 3)
        s2 = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 4)
        s3 = sum_of_both(state, side, slot, run, first, last, side_first, side_last, column + 5)
    return count, values, high, low, s0, s1, s2, s3


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
            if run != NO_RUN:
                shared[number, 1] += multiset.count(side, measures, run, rows[r, R_DISTINCT], side_first, side_last)
        else:
            tree = rows[r, R_TREE]
            best = extremes.best_in(state, slot, tree, first, last)
            if run != NO_RUN:
                best = min(best, extremes.best_in(side, run, tree, side_first, side_last))
            shared[number, 1] = extremes.rank(measures.trees, tree, best)
    value: int = shared[number, 1]
    return value
