"""The oracle's arithmetic: aggregates and comparisons on plain Python values, one row at a time.

The oracle shares only the class of a parsed rule with the product. An error in the product's masks, 128-bit sums or
rounding therefore shows up as a difference.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isqrt
from typing import Any, TypeAlias

from fraud_rules.model.rule import AggregateFunction, Rule

Value: TypeAlias = int | str | Decimal | None
Values: TypeAlias = Mapping[str, Value]

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def compare_with_limit(rule: Rule, window: Sequence[Values]) -> tuple[bool, str] | None:
    """Compare the aggregate of the window with the rule's limit; return the result and the aggregate as text.

    None without a value in the aggregated field. The counts of an empty window are 0. COUNT_DISTINCT is 0 if every row
    is null in one of the `unique` fields. A rule without a field (AVG, MIN, MAX of COUNT_FLINK) aggregates a 1 for each
    row.
    """
    compare = COMPARE[rule.operator.value]
    limit = Fraction(rule.limit)
    if rule.aggregate_function in (AggregateFunction.COUNT, AggregateFunction.COUNT_WITH_RESET):
        return compare(len(window), limit), str(len(window))
    if rule.aggregate_function is AggregateFunction.COUNT_DISTINCT:
        tuples = {tuple(row[name] for name in rule.unique) for row in window}
        distinct = sum(None not in members for members in tuples)
        return compare(distinct, limit), str(distinct)
    field = rule.aggregate_field
    given = [1 if field is None else row[field] for row in window]
    values = [Fraction(value) for value in given if value is not None]
    if not values:
        return None
    n, total = len(values), sum(values, Fraction())
    match rule.aggregate_function:
        case AggregateFunction.AVG:
            return compare(total, limit * n), _text(Fraction(round(total / n * 10**6), 10**6))
        case AggregateFunction.STDDEV:
            spread = n * sum(value * value for value in values) - total * total
            holds = compare(spread, limit * limit * n * n) if limit >= 0 else compare(0, limit)
            return holds, _text(_sqrt_half_even(spread / n**2, 6))
        case AggregateFunction.SUM:
            aggregate = Fraction(total)
        case AggregateFunction.MIN:
            aggregate = min(values)
        case AggregateFunction.MAX:
            aggregate = max(values)
    return compare(aggregate, limit), _text(aggregate)


def _sqrt_half_even(square: Fraction, digits: int) -> Fraction:
    """The square root, rounded half even to `digits` decimals. The exact square decides the rounding, never a float."""
    scaled = square * 10 ** (2 * digits)
    root = isqrt(scaled.numerator // scaled.denominator)
    half = Fraction(2 * root + 1, 2) ** 2
    if scaled > half or (scaled == half and root % 2 == 1):
        root += 1
    return Fraction(root, 10**digits)


def _text(value: Fraction) -> str:
    """A decimal fraction without exponent and without trailing zeros; zero has no sign."""
    digits = 0
    while value * 10**digits % 1:
        digits += 1
    whole = int(abs(value) * 10**digits)
    sign = "-" if value < 0 else ""
    if not digits:
        return f"{sign}{whole}"
    padded = str(whole).rjust(digits + 1, "0")
    return f"{sign}{padded[:-digits]}.{padded[-digits:]}"
