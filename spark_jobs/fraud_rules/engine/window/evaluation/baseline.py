"""Evaluates rules with a baseline: an aggregate of the window, compared with the past of its key.

The rows of a baseline are the rows between the left end of the reach (window and baseline together) and the left end of
the window. The running totals of the key rows give the sums of both parts, so the cost does not depend on the number of
rows. The smallest and largest values of a part come from the blocks of `extremes`.

With the aggregate a / n of the window, the aggregate b / m of the baseline and a factor p / q, the condition compares
a * m * q with b * n * p. With deviations, d = a * m * own - b * n * base is the difference between aggregate and mean,
and v = m * sum(x**2) - b**2 is the variance times m**2. The condition then compares d * q with p * n * base * sqrt(v),
by the sign of d first, and then by the squares. Doubles decide where their error cannot change the result.
"""

from __future__ import annotations

from fraud_rules.engine.window.aggregates import KIND_AVG, KIND_COUNT, KIND_ONE
from fraud_rules.engine.window.bundles import EvaluatedRow, Ints, KernelArrays, RuleArrays, Span
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.evaluation.aggregate import (
    WindowAggregate,
    count_rows,
    read_aggregate,
    written_aggregate,
)
from fraud_rules.engine.window.evaluation.condition import holds
from fraud_rules.engine.window.evaluation.exact import Limbs, sign_of_excess, sign_of_ratio
from fraud_rules.engine.window.evaluation.firing import report
from fraud_rules.engine.window.evaluation.windows import window_of
from fraud_rules.engine.window.layout import (
    B_BASE_SCALE,
    B_DEVIATIONS,
    B_KIND,
    B_MIN_COUNT,
    B_OWN_SCALE,
    B_REACH,
    O_BASE_COUNT,
    O_BASE_HIGH,
    O_BASE_LOW,
    O_BASE_VALUES,
    O_SQUARE,
    OP_GE,
    OP_GT,
    R_KIND,
    R_LIMIT_NEGATIVE,
    R_OPERATOR,
    R_REPORTED,
    R_SHARED,
)

_TWO_32 = 4294967296.0


@compiled
def evaluate(arrays: KernelArrays, row: EvaluatedRow, r: int, span: Span) -> None:
    """Evaluate rule r, whose window is `span`, and write the output row. The baseline is the rows of the reach before
    the window."""
    rows, baselines = arrays.rules.rows, arrays.rules.baselines
    reach = window_of(arrays, row, baselines[r, B_REACH])
    before = Span(reach.first, span.first - 1, reach.side_first, span.side_first - 1)
    count = count_rows(arrays, baselines, r, row, before)
    if count < baselines[r, B_MIN_COUNT] and arrays.explain == 0 and rows[r, R_REPORTED] == 0:
        return
    own = read_aggregate(arrays, rows, r, rows[r, R_SHARED], row, span)
    past = read_aggregate(arrays, baselines, r, -1, row, before)
    met = _is_met(arrays.rules, r, arrays.results.limbs, own, past)
    at = report(arrays, row, r, baselines[r, B_REACH], met, own)
    if at >= 0:
        output = arrays.results.output
        output[at, O_BASE_COUNT] = past.rows
        output[at, O_BASE_VALUES] = past.values
        output[at, O_BASE_HIGH] = past.high
        output[at, O_BASE_LOW] = past.low
        output[at, O_SQUARE] = past.s0
        output[at, O_SQUARE + 1] = past.s1
        output[at, O_SQUARE + 2] = past.s2
        output[at, O_SQUARE + 3] = past.s3


@compiled
def is_met_by(rules: RuleArrays, r: int, scratch: Limbs, output: Ints, e: int) -> bool:
    """Whether the evaluation in output row e meets the condition of rule r."""
    own = written_aggregate(output, e)
    past = WindowAggregate(
        output[e, O_BASE_COUNT], output[e, O_BASE_VALUES], output[e, O_BASE_HIGH], output[e, O_BASE_LOW],
        own.s0, own.s1, own.s2, own.s3,
    )  # fmt: skip
    return _is_met(rules, r, scratch, own, past)


@compiled
def _is_met(rules: RuleArrays, r: int, scratch: Limbs, own: WindowAggregate, past: WindowAggregate) -> bool:
    """Whether rule r's condition holds for the aggregates of the window and of the baseline."""
    kind, past_kind = rules.rows[r, R_KIND], rules.baselines[r, B_KIND]
    if past.rows < rules.baselines[r, B_MIN_COUNT] or past.values <= 0 or (own.values <= 0 and kind != KIND_COUNT):
        return False
    operator = rules.rows[r, R_OPERATOR]
    high = 0 if kind == KIND_ONE else own.high
    low = 1 if kind == KIND_ONE else own.low
    n = own.values if kind == KIND_AVG else 1
    if rules.baselines[r, B_DEVIATIONS] != 0:
        upper = operator == OP_GT or operator == OP_GE
        return holds(operator, _excess_sign(rules, r, scratch, upper, high, low, n, past))
    past_high = 0 if past_kind == KIND_ONE else past.high
    past_low = 1 if past_kind == KIND_ONE else past.low
    m = past.values if past_kind == KIND_AVG else 1
    return holds(operator, _ratio_sign(rules, r, scratch, high, low, n, past_high, past_low, m))


@inlined
def _ratio_sign(
    rules: RuleArrays, r: int, scratch: Limbs, high: int, low: int, n: int, base_high: int, base_low: int, m: int
) -> int:
    """The sign of a / n - factor * b / m, by doubles where their error cannot change it."""
    left = (high * _TWO_32 + low) * m
    right = rules.ratios[r] * (base_high * _TWO_32 + base_low) * n
    if abs(left - right) > 1e-9 * (abs(left) + abs(right)):
        return 1 if left > right else -1
    return sign_of_ratio(
        scratch, high, low, n, base_high, base_low, m, rules.scales[r], rules.limits[r], rules.rows[r, R_LIMIT_NEGATIVE]
    )


@compiled
def _excess_sign(
    rules: RuleArrays, r: int, scratch: Limbs, upper: bool, high: int, low: int, n: int, past: WindowAggregate
) -> int:
    """The sign of the aggregate minus (mean + limit * deviation), or minus (mean - limit * deviation) unless `upper`,
    by doubles where their error cannot change it."""
    own_scale, base_scale = rules.baselines[r, B_OWN_SCALE], rules.baselines[r, B_BASE_SCALE]
    m = past.values
    total = past.high * _TWO_32 + past.low
    left = (high * _TWO_32 + low) * m * own_scale
    right = total * n * base_scale
    difference = left - right
    error = 1e-14 * (abs(left) + abs(right))
    if abs(difference) > error:
        if upper and difference < 0:
            return -1
        if not upper and difference > 0:
            return 1
        squares = (((past.s3 * _TWO_32 + past.s2) * _TWO_32 + past.s1) * _TWO_32 + past.s0) * m
        factor = rules.ratios[r] * n * base_scale
        square = difference * difference
        bound = factor * factor * (squares - total * total)
        uncertain = 4 * error * abs(difference) + 1e-12 * square
        uncertain += factor * factor * 1e-13 * (squares + total * total) + 1e-9 * abs(bound)
        if abs(square - bound) > uncertain:
            return 1 if (square > bound) == upper else -1
    return sign_of_excess(
        scratch, int(upper), high, low, n, own_scale, past.high, past.low, m, base_scale,
        past.s0, past.s1, past.s2, past.s3, rules.scales[r], rules.limits[r],
    )  # fmt: skip
