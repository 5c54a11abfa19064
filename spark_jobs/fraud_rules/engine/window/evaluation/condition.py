"""Decides whether an aggregate meets a rule's condition. The decision is exact.

It uses integers, or doubles where their error cannot change the result. An aggregate is (high << 32) + low over `n`
values, and for STDDEV also the four limbs of the sum of squares.
"""

from __future__ import annotations

from fraud_rules.engine.window.aggregates import KIND_AVG, KIND_COUNT, KIND_DISTINCT, KIND_RESET, KIND_STDDEV
from fraud_rules.engine.window.bundles import Arrivals, Ints, RuleArrays
from fraud_rules.engine.window.compiler import compiled, inlined
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
def is_met(
    rules: RuleArrays, r: int, scratch: Limbs, high: int, low: int, n: int, s0: int, s1: int, s2: int, s3: int
) -> bool:
    """Whether rule r's condition holds. Without values, only a count can meet it. s0 to s3 are the squares, lowest limb
    first."""
    kind = rules.rows[r, R_KIND]
    if n <= 0 and kind != KIND_COUNT and kind != KIND_RESET and kind != KIND_DISTINCT:
        return False
    if kind == KIND_AVG:
        return holds(rules.rows[r, R_OPERATOR], _average_sign(rules, r, scratch, high, low, n))
    if kind == KIND_STDDEV:
        return holds(rules.rows[r, R_OPERATOR], _deviation_sign(rules, r, scratch, high, low, n, s0, s1, s2, s3))
    return _in_interval(high, low, rules.rows, r)


@compiled
def is_met_at(
    arrivals: Arrivals,
    rules: RuleArrays,
    i: int,
    r: int,
    scratch: Limbs,
    high: int,
    low: int,
    n: int,
    s0: int,
    s1: int,
    s2: int,
    s3: int,
) -> bool:
    """Whether rule r's condition holds with the limit of row i."""
    place = (i - arrivals.limits_from) * rules.row_limits + rules.rows[r, R_LIMIT]
    met: bool = is_met(arrivals.limits, place, scratch, high, low, n, s0, s1, s2, s3)
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
def _average_sign(rules: RuleArrays, r: int, scratch: Limbs, high: int, low: int, n: int) -> int:
    """The sign of sum - limit * n, by doubles where their error cannot change it."""
    total = high * _TWO_32 + low
    bound = rules.ratios[r] * n
    if abs(total - bound) > 1e-9 * (abs(total) + abs(bound)):
        return 1 if total > bound else -1
    return sign_of_average(scratch, high, low, n, rules.scales[r], rules.limits[r], rules.rows[r, R_LIMIT_NEGATIVE])


@compiled
def _deviation_sign(
    rules: RuleArrays, r: int, scratch: Limbs, high: int, low: int, n: int, s0: int, s1: int, s2: int, s3: int
) -> int:
    """The sign of n * sum(v**2) - sum(v)**2 - limit**2 * n**2, by doubles where their error cannot change it."""
    total = high * _TWO_32 + low
    squares = (((s3 * _TWO_32 + s2) * _TWO_32 + s1) * _TWO_32 + s0) * n
    spread = squares - total * total
    bound = rules.ratios[r] * rules.ratios[r] * n * n
    if abs(spread - bound) > 1e-13 * (squares + total * total) + 1e-9 * bound:
        return 1 if spread > bound else -1
    return sign_of_deviation(scratch, high, low, s0, s1, s2, s3, n, rules.scales[r], rules.limits[r])
