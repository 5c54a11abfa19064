"""Decides whether an aggregate meets a rule's condition. The decision is exact.

It uses integers, or doubles where their error cannot change the result.
"""

from __future__ import annotations

from fraud_rules.engine.window.aggregates import KIND_AVG, KIND_COUNT, KIND_DISTINCT, KIND_RESET, KIND_STDDEV
from fraud_rules.engine.window.bundles import Arrivals, EvaluatedRow, Ints, KernelArrays, RuleArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.evaluation.aggregate import WindowAggregate
from fraud_rules.engine.window.evaluation.exact import Limbs, sign_of_average, sign_of_deviation
from fraud_rules.engine.window.layout import (
    OP_ALWAYS,
    OP_EQ,
    OP_GE,
    OP_GT,
    OP_LE,
    OP_LT,
    OP_NE,
    R_FROM_HIGH,
    R_FROM_LOW,
    R_KIND,
    R_LIMIT,
    R_LIMIT_NEGATIVE,
    R_NEGATE,
    R_OPERATOR,
    R_TO_HIGH,
    R_TO_LOW,
)

_TWO_32 = 4294967296.0


@inlined
def meets_limit(arrays: KernelArrays, row: EvaluatedRow, r: int, aggregate: WindowAggregate) -> bool:
    """Whether an aggregate meets the condition of rule r, whose limit is a literal or that of the row."""
    if arrays.rules.rows[r, R_LIMIT] < 0:
        return is_met(arrays.rules, r, arrays.results.limbs, aggregate)
    return _is_met_at(arrays.arrivals, arrays.rules, row.number, r, arrays.results.limbs, aggregate)


@inlined
def is_met(rules: RuleArrays, r: int, scratch: Limbs, aggregate: WindowAggregate) -> bool:
    """Whether rule r's condition holds. Without values, only a count can meet it."""
    kind = rules.rows[r, R_KIND]
    if aggregate.values <= 0 and kind != KIND_COUNT and kind != KIND_RESET and kind != KIND_DISTINCT:
        return False
    if kind == KIND_AVG:
        return holds(rules.rows[r, R_OPERATOR], _average_sign(rules, r, scratch, aggregate))
    if kind == KIND_STDDEV:
        return holds(rules.rows[r, R_OPERATOR], _deviation_sign(rules, r, scratch, aggregate))
    return _in_interval(aggregate.high, aggregate.low, rules.rows, r)


@compiled
def _is_met_at(
    arrivals: Arrivals, rules: RuleArrays, i: int, r: int, scratch: Limbs, aggregate: WindowAggregate
) -> bool:
    """`is_met` with the limit of row i."""
    place = (i - arrivals.limits_from) * rules.row_limits + rules.rows[r, R_LIMIT]
    met: bool = is_met(arrivals.limits, place, scratch, aggregate)
    return met


@inlined
def _in_interval(high: int, low: int, rows: Ints, r: int) -> bool:
    """Whether (high << 32) + low lies in rule r's firing interval."""
    below = high < rows[r, R_FROM_HIGH] or (high == rows[r, R_FROM_HIGH] and low < rows[r, R_FROM_LOW])
    above = high > rows[r, R_TO_HIGH] or (high == rows[r, R_TO_HIGH] and low > rows[r, R_TO_LOW])
    return (below or above) == (rows[r, R_NEGATE] != 0)


@inlined
def holds(operator: int, sign: int) -> bool:
    """Whether the comparison holds if the difference has this sign."""
    return (
        (operator == OP_GT and sign > 0)
        or (operator == OP_GE and sign >= 0)
        or (operator == OP_LT and sign < 0)
        or (operator == OP_LE and sign <= 0)
        or (operator == OP_EQ and sign == 0)
        or (operator == OP_NE and sign != 0)
        or operator == OP_ALWAYS
    )


@inlined
def _average_sign(rules: RuleArrays, r: int, scratch: Limbs, of: WindowAggregate) -> int:
    """The sign of sum - limit * n, by doubles where their error cannot change it."""
    total = of.high * _TWO_32 + of.low
    bound = rules.ratios[r] * of.values
    if abs(total - bound) > 1e-9 * (abs(total) + abs(bound)):
        return 1 if total > bound else -1
    negative = rules.rows[r, R_LIMIT_NEGATIVE]
    return sign_of_average(scratch, of.high, of.low, of.values, rules.scales[r], rules.limits[r], negative)


@compiled
def _deviation_sign(rules: RuleArrays, r: int, scratch: Limbs, of: WindowAggregate) -> int:
    """The sign of n * sum(v**2) - sum(v)**2 - limit**2 * n**2, by doubles where their error cannot change it."""
    n = of.values
    total = of.high * _TWO_32 + of.low
    squares = (((of.s3 * _TWO_32 + of.s2) * _TWO_32 + of.s1) * _TWO_32 + of.s0) * n
    spread = squares - total * total
    bound = rules.ratios[r] * rules.ratios[r] * n * n
    if abs(spread - bound) > 1e-13 * (squares + total * total) + 1e-9 * bound:
        return 1 if spread > bound else -1
    return sign_of_deviation(scratch, of.high, of.low, of.s0, of.s1, of.s2, of.s3, n, rules.scales[r], rules.limits[r])
