"""Evaluates the rules of a row, in order of rule id.

There is one body for a row whose key has a displaced run, and for any other row, which is nearly every row. It is
compiled twice: for the rows without a run, the compiler leaves out all that reads one. With one compiled body for both,
a backlog of skewed keys was measured at about 0.9 of the rate.
"""

from __future__ import annotations

from fraud_rules.engine.window.bundles import EvaluatedRow, KernelArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.displaced import NO_RUN
from fraud_rules.engine.window.evaluation import baseline
from fraud_rules.engine.window.evaluation.aggregate import read_aggregate
from fraud_rules.engine.window.evaluation.condition import meets_limit
from fraud_rules.engine.window.evaluation.firing import report
from fraud_rules.engine.window.evaluation.windows import window_of
from fraud_rules.engine.window.instructions import read_cycles
from fraud_rules.engine.window.key_rows import insert_offset
from fraud_rules.engine.window.layout import (
    MODE_BASELINE,
    MODE_PAUSED,
    R_MODE,
    R_SHARED,
    R_WHEN,
    R_WINDOW,
)

INTERRUPTED_CYCLES = 100_000
"""The most cycles that count for one evaluation. A longer one was interrupted by another thread."""


@inlined
def evaluate_row(arrays: KernelArrays, i: int, slot: int, run: int, at: int, time: int) -> None:
    """Evaluate row i of the arrivals. It is at offset `at` of its key's rows if the key has no displaced run."""
    if run == NO_RUN:
        _evaluate_rules(arrays, i, slot, NO_RUN, time, at, -1)
    else:
        _evaluate_beside_run(arrays, i, slot, run, time)


@compiled
def _evaluate_beside_run(arrays: KernelArrays, i: int, slot: int, run: int, time: int) -> None:
    last = insert_offset(arrays.state, slot, time) - 1
    side_last = insert_offset(arrays.side, run, time) - 1
    _evaluate_rules(arrays, i, slot, run, time, last, side_last)


@inlined
def _evaluate_rules(arrays: KernelArrays, i: int, slot: int, run: int, time: int, last: int, side_last: int) -> None:
    row = EvaluatedRow(i, slot, run, time, last, side_last)
    rules, results, passes = arrays.rules, arrays.results, arrays.arrivals.passes
    version = arrays.arrivals.versions[i]
    for w in range(arrays.measures.windows.shape[0]):
        results.lefts[w] = -1
    timed = results.timed_every > 0 and i % results.timed_every == 0
    for r in range(rules.starts[version], rules.starts[version + 1]):
        began = read_cycles() if timed else 0
        if rules.rows[r, R_MODE] != MODE_PAUSED and passes[i, rules.rows[r, R_WHEN]] != 0:
            _evaluate_rule(arrays, row, r)
        if timed:
            results.timings[r, 0] += min(read_cycles() - began, INTERRUPTED_CYCLES)
            results.timings[r, 1] += 1


@inlined
def _evaluate_rule(arrays: KernelArrays, row: EvaluatedRow, r: int) -> None:
    """Evaluate rule r, if the row has the rule's window."""
    rows = arrays.rules.rows
    span = window_of(arrays, row, rows[r, R_WINDOW])
    if span.first < 0:
        return
    if rows[r, R_MODE] == MODE_BASELINE:
        baseline.evaluate(arrays, row, r, span)
    else:
        aggregate = read_aggregate(arrays, rows, r, rows[r, R_SHARED], row, span)
        report(arrays, row, r, rows[r, R_WINDOW], meets_limit(arrays, row, r, aggregate), aggregate)
