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

from fraud_rules.engine.window import extremes
from fraud_rules.engine.window.aggregates import KIND_AVG, KIND_COUNT, KIND_EXTREME, KIND_ONE, KIND_SUM
from fraud_rules.engine.window.bundles import Arrivals, Ints, MeasureArrays, ResultArrays, RuleArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.displaced import sum_of_both
from fraud_rules.engine.window.evaluation.condition import holds
from fraud_rules.engine.window.evaluation.exact import Limbs, sign_of_excess, sign_of_ratio
from fraud_rules.engine.window.evaluation.firing import report
from fraud_rules.engine.window.key_rows import LOW_MASK
from fraud_rules.engine.window.layout import (
    B_BASE_SCALE,
    B_COUNT,
    B_DEVIATIONS,
    B_KIND,
    B_LOW,
    B_MIN_COUNT,
    B_OWN_SCALE,
    B_REACH,
    B_TREE,
    B_VALUES,
    O_BASE_COUNT,
    O_BASE_HIGH,
    O_BASE_LOW,
    O_BASE_VALUES,
    O_HIGH,
    O_LOW,
    O_SQUARE,
    O_VALUES,
    OP_GE,
    OP_GT,
    R_COUNT,
    R_KIND,
    R_LIMIT_NEGATIVE,
    R_LOW,
    R_OPERATOR,
    R_REPORTED,
    R_TREE,
    R_VALUES,
)

_TWO_32 = 4294967296.0


@inlined
def _rows(
    state: StateArrays,
    side: StateArrays,
    slot: int,
    run: int,
    first: int,
    last: int,
    side_first: int,
    side_last: int,
    column: int,
    otherwise: int,
) -> int:
    """The rows that a running count counts, or `otherwise` without such a count."""
    if column < 0:
        return otherwise
    return sum_of_both(state, side, slot, run, first, last, side_first, side_last, column)


@compiled
def _aggregate(
    state: StateArrays,
    side: StateArrays,
    trees: Ints,
    slot: int,
    run: int,
    first: int,
    last: int,
    side_first: int,
    side_last: int,
    kind: int,
    low_column: int,
    tree: int,
    values: int,
) -> tuple[int, int]:
    """An aggregate over both parts as (high, low): the value is (high << 32) + low."""
    if kind == KIND_SUM or kind == KIND_AVG:
        low = sum_of_both(state, side, slot, run, first, last, side_first, side_last, low_column)
        high = sum_of_both(state, side, slot, run, first, last, side_first, side_last, low_column + 1)
        return high + (low >> 32), low & LOW_MASK
    if kind == KIND_EXTREME and values > 0:
        best = extremes.best_in(state, slot, tree, first, last)
        if side_last >= side_first:
            best = min(best, extremes.best_in(side, run, tree, side_first, side_last))
        value = extremes.rank(trees, tree, best)
        return value >> 32, value & LOW_MASK
    return 0, values


@compiled
def evaluate(
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
    reach_first: int,
    side_reach_first: int,
    time: int,
) -> None:
    """Evaluate rule r, and write the output row.

    The window is the key rows [first, last] and the displaced rows [side_first, side_last]. The baseline is the rows
    from `reach_first` and `side_reach_first` to the row before the window.
    """
    base = rules.baselines
    rows = rules.rows
    end, side_end = first - 1, side_first - 1
    all_before = end - reach_first + 1 + side_end - side_reach_first + 1
    before = _rows(state, side, slot, run, reach_first, end, side_reach_first, side_end, base[r, B_COUNT], all_before)
    if before < base[r, B_MIN_COUNT] and explain == 0 and rows[r, R_REPORTED] == 0:
        return
    past = _rows(state, side, slot, run, reach_first, end, side_reach_first, side_end, base[r, B_VALUES], before)
    all_rows = last - first + 1 + side_last - side_first + 1
    count = _rows(state, side, slot, run, first, last, side_first, side_last, rows[r, R_COUNT], all_rows)
    values = _rows(state, side, slot, run, first, last, side_first, side_last, rows[r, R_VALUES], count)
    high, low = _aggregate(
        state, side, measures.trees, slot, run, first, last, side_first, side_last,
        rows[r, R_KIND], rows[r, R_LOW], rows[r, R_TREE], values,
    )  # fmt: skip
    column = base[r, B_LOW]
    base_high, base_low = _aggregate(
        state, side, measures.trees, slot, run, reach_first, end, side_reach_first, side_end,
        base[r, B_KIND], column, base[r, B_TREE], past,
    )  # fmt: skip
    s0 = s1 = s2 = s3 = 0
    if base[r, B_DEVIATIONS] != 0:
        s0 = past
        if base[r, B_KIND] == KIND_AVG:
            s0 = sum_of_both(state, side, slot, run, reach_first, end, side_reach_first, side_end, column + 2)
            s1 = sum_of_both(state, side, slot, run, reach_first, end, side_reach_first, side_end, column + 3)
            s2 = sum_of_both(state, side, slot, run, reach_first, end, side_reach_first, side_end, column + 4)
            s3 = sum_of_both(state, side, slot, run, reach_first, end, side_reach_first, side_end, column + 5)
    met = _is_met(rules, r, results.limbs, values, high, low, before, past, base_high, base_low, s0, s1, s2, s3)
    at = report(
        state, side, measures, rules, arrivals, results, explain, i, r, slot, run, base[r, B_REACH], time, met, count,
        values, high, low, 0, 0, 0, 0,
    )  # fmt: skip
    if at >= 0:
        output = results.output
        output[at, O_BASE_COUNT] = before
        output[at, O_BASE_VALUES] = past
        output[at, O_BASE_HIGH] = base_high
        output[at, O_BASE_LOW] = base_low
        output[at, O_SQUARE] = s0
        output[at, O_SQUARE + 1] = s1
        output[at, O_SQUARE + 2] = s2
        output[at, O_SQUARE + 3] = s3


@compiled
def is_met_by(rules: RuleArrays, r: int, scratch: Limbs, output: Ints, e: int) -> bool:
    """Whether the evaluation in output row e meets the condition of rule r."""
    return _is_met(
        rules, r, scratch, output[e, O_VALUES], output[e, O_HIGH], output[e, O_LOW],
        output[e, O_BASE_COUNT], output[e, O_BASE_VALUES], output[e, O_BASE_HIGH], output[e, O_BASE_LOW],
        output[e, O_SQUARE], output[e, O_SQUARE + 1], output[e, O_SQUARE + 2], output[e, O_SQUARE + 3],
    )  # fmt: skip


@compiled
def _is_met(
    rules: RuleArrays,
    r: int,
    scratch: Limbs,
    values: int,
    high: int,
    low: int,
    before: int,
    past: int,
    base_high: int,
    base_low: int,
    s0: int,
    s1: int,
    s2: int,
    s3: int,
) -> bool:
    """Whether rule r's condition holds for `values` values of the window and `past` values of `before` rows of the
    baseline."""
    kind = rules.rows[r, R_KIND]
    if before < rules.baselines[r, B_MIN_COUNT] or past <= 0 or (values <= 0 and kind != KIND_COUNT):
        return False
    operator = rules.rows[r, R_OPERATOR]
    if kind == KIND_ONE:
        high, low = 0, 1
    n = values if kind == KIND_AVG else 1
    if rules.baselines[r, B_DEVIATIONS] != 0:
        upper = operator == OP_GT or operator == OP_GE
        sign = _excess_sign(rules, r, scratch, upper, high, low, n, base_high, base_low, past, s0, s1, s2, s3)
        return holds(operator, sign)
    if rules.baselines[r, B_KIND] == KIND_ONE:
        base_high, base_low = 0, 1
    m = past if rules.baselines[r, B_KIND] == KIND_AVG else 1
    return holds(operator, _ratio_sign(rules, r, scratch, high, low, n, base_high, base_low, m))


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
    rules: RuleArrays,
    r: int,
    scratch: Limbs,
    upper: bool,
    high: int,
    low: int,
    n: int,
    base_high: int,
    base_low: int,
    m: int,
    s0: int,
    s1: int,
    s2: int,
    s3: int,
) -> int:
    """The sign of the aggregate minus (mean + limit * deviation), or minus (mean - limit * deviation) unless `upper`,
    by doubles where their error cannot change it."""
    own_scale, base_scale = rules.baselines[r, B_OWN_SCALE], rules.baselines[r, B_BASE_SCALE]
    total = base_high * _TWO_32 + base_low
    left = (high * _TWO_32 + low) * m * own_scale
    right = total * n * base_scale
    difference = left - right
    error = 1e-14 * (abs(left) + abs(right))
    if abs(difference) > error:
        if upper and difference < 0:
            return -1
        if not upper and difference > 0:
            return 1
        squares = (((s3 * _TWO_32 + s2) * _TWO_32 + s1) * _TWO_32 + s0) * m
        factor = rules.ratios[r] * n * base_scale
        square = difference * difference
        bound = factor * factor * (squares - total * total)
        uncertain = 4 * error * abs(difference) + 1e-12 * square
        uncertain += factor * factor * 1e-13 * (squares + total * total) + 1e-9 * abs(bound)
        if abs(square - bound) > uncertain:
            return 1 if (square > bound) == upper else -1
    return sign_of_excess(
        scratch, int(upper), high, low, n, own_scale, base_high, base_low, m, base_scale,
        s0, s1, s2, s3, rules.scales[r], rules.limits[r],
    )  # fmt: skip
