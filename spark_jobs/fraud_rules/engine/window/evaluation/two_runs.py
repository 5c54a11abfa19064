"""Evaluates the rules of a row whose key has a displaced run: each window has key rows and displaced rows.

A window is the key rows [first, last] and the displaced rows [side_first, side_last]. Either part may be empty. The
kernel has a body of its own for the rows without such a run: with one body for both, a backlog of skewed keys was
measured at about 0.9 of the rate.
"""

from __future__ import annotations

from fraud_rules.engine.window.bundles import Arrivals, MeasureArrays, ResultArrays, RuleArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled
from fraud_rules.engine.window.evaluation import baseline
from fraud_rules.engine.window.evaluation.combined import read_aggregate
from fraud_rules.engine.window.evaluation.firing import conclude
from fraud_rules.engine.window.key_rows import insert_offset, lowest, move_left, opening
from fraud_rules.engine.window.layout import (
    B_REACH,
    MODE_BASELINE,
    MODE_PAUSED,
    NONE,
    R_MODE,
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
            opens = max(opens, lowest(state, measures, w))
            results.lefts[w] = move_left(state, slot, w, opens)
            results.lefts[windows + w] = move_left(side, run, w, opens)
        first, side_first = results.lefts[w], results.lefts[windows + w]
        if rules.rows[r, R_MODE] == MODE_BASELINE:
            reach = rules.baselines[r, B_REACH]
            if results.lefts[reach] < 0:
                opens = max(opening(measures, arrivals, i, reach, time), lowest(state, measures, reach))
                results.lefts[reach] = move_left(state, slot, reach, opens)
                results.lefts[windows + reach] = move_left(side, run, reach, opens)
            baseline.evaluate(
                state, side, measures, rules, arrivals, results, explain, i, r, slot, run, first, last, side_first,
                side_last, results.lefts[reach], results.lefts[windows + reach], time,
            )  # fmt: skip
            continue
        count, values, high, low, s0, s1, s2, s3 = read_aggregate(
            state, side, measures, rules.rows, results.shared, i, r, slot, run, first, last, side_first, side_last
        )
        conclude(
            state, side, measures, rules, arrivals, results, explain, i, r, slot, run, time, count, values, high, low,
            s0, s1, s2, s3,
        )  # fmt: skip
