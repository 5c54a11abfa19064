"""Evaluates the conditions of a rule whose own aggregate meets its limit, so that both are one outcome.

A condition is compiled like a rule without an alert: a row of `RuleArrays.rows`, behind the rules of all versions. The
kernel does not visit these rows. It comes here from a rule that would alert, so a rule without conditions costs nothing
more. If a rule does not hold, its conditions are not evaluated; if another rule names it, the kernel still checks that
their windows are complete. The output rows of the conditions are written behind the place of the rule's row, and stay
there only if the rule's row is written.
"""

from __future__ import annotations

from fraud_rules.engine.window.bundles import EvaluatedRow, KernelArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.evaluation.aggregate import WindowAggregate, read_aggregate, write_aggregate
from fraud_rules.engine.window.evaluation.condition import meets_limit
from fraud_rules.engine.window.evaluation.windows import is_complete, window_of
from fraud_rules.engine.window.instructions import call
from fraud_rules.engine.window.layout import (
    H_OUT,
    O_COMPLETE,
    O_FIRED,
    O_ROW,
    O_RULE,
    O_WIDTH,
    R_CONDITIONS,
    R_FIRST_CONDITION,
    R_NAMED,
    R_OWN,
    R_REQUIRED,
    R_SHARED,
    R_WINDOW,
)


@compiled
def evaluate_conditions(
    arrays: KernelArrays, row: EvaluatedRow, r: int, own: WindowAggregate
) -> tuple[int, bool, bool]:
    """Evaluate the conditions of rule r, whose own aggregate is `own`.

    Returns (the number of conditions that hold, whether these are as many as required, whether all windows are
    complete). If the rule names rules, each of them can hold.
    """
    rows, output, at = arrays.rules.rows, arrays.results.output, arrays.state.header[H_OUT]
    if rows[r, R_OWN] != 0:
        write_aggregate(output, at, own)
        call(arrays.results.own_limits, row.number, r)
    holding = 0
    complete = True
    for k in range(rows[r, R_CONDITIONS]):
        at += 1
        _evaluate_one(arrays, row, rows[r, R_FIRST_CONDITION] + k, at)
        holding += output[at, O_FIRED]
        complete = complete and output[at, O_COMPLETE] != 0
    required = rows[r, R_REQUIRED]
    enough = holding + rows[r, R_NAMED] >= required if required > 0 else holding == 0
    return holding, enough, complete


@compiled
def are_conditions_complete(arrays: KernelArrays, row: EvaluatedRow, r: int) -> bool:
    """Whether the windows of all conditions of rule r are complete."""
    rows = arrays.rules.rows
    for k in range(rows[r, R_CONDITIONS]):
        if not is_complete(arrays, row, rows[rows[r, R_FIRST_CONDITION] + k, R_WINDOW]):
            return False
    return True


@inlined
def _evaluate_one(arrays: KernelArrays, row: EvaluatedRow, c: int, at: int) -> None:
    """Evaluate condition c, and write output row `at`. Without a window it does not hold."""
    rows, output = arrays.rules.rows, arrays.results.output
    for column in range(O_WIDTH):
        output[at, column] = 0
    output[at, O_ROW] = row.number
    output[at, O_RULE] = c
    output[at, O_COMPLETE] = is_complete(arrays, row, rows[c, R_WINDOW])
    span = window_of(arrays, row, rows[c, R_WINDOW])
    if span.first < 0:
        return
    aggregate = read_aggregate(arrays, rows, c, rows[c, R_SHARED], row, span)
    output[at, O_FIRED] = meets_limit(arrays, row, c, aggregate)
    write_aggregate(output, at, aggregate)
