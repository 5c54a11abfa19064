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
from typing import TYPE_CHECKING, Any, TypeAlias

from fraud_rules.model.aggregate import AggregateFunction
from tests.support.oracle.rules.windows import FixedWindow

if TYPE_CHECKING:
    from tests.support.oracle.rules.rule import Aggregate, Baseline

Value: TypeAlias = int | str | Decimal | None
Values: TypeAlias = Mapping[str, Value]

COUNT = AggregateFunction.COUNT
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def compare_with_limit(rule: Aggregate, window: Sequence[Values], limit: Fraction | None) -> tuple[bool, str] | None:
    """Compare the aggregate of the window with the limit; return the result and the aggregate as text.

    The comparison with a limit that is null does not hold. None without a value in the aggregated field. The counts of
    an empty window are 0. COUNT_DISTINCT is 0 if every row is null in one of the `unique` fields. A rule without a
    field (AVG, MIN, MAX of COUNT_FLINK) aggregates a 1 for each row.
    """
    if limit is None:
        verdict = compare_with_limit(rule, window, Fraction())
        return None if verdict is None else (False, verdict[1])
    compare = COMPARE[rule.operator.value]
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
            return compare(total, limit * n), text_of_number(Fraction(round(total / n * 10**6), 10**6))
        case AggregateFunction.STDDEV:
            spread = n * sum(value * value for value in values) - total * total
            holds = compare(spread, limit * limit * n * n) if limit >= 0 else compare(0, limit)
            return holds, text_of_number(_sqrt_half_even(spread / n**2, 6))
        case AggregateFunction.SUM:
            aggregate = Fraction(total)
        case AggregateFunction.MIN:
            aggregate = min(values)
        case AggregateFunction.MAX:
            aggregate = max(values)
    return compare(aggregate, limit), text_of_number(aggregate)


def compare_with_baseline(
    rule: Aggregate, baseline: Baseline, window: Sequence[Values], before: Sequence[Values], limit: Fraction
) -> tuple[bool, str] | None:
    """Compare the aggregate of the window with that of the rows `before`; None if one of them has no value."""
    past = _values(baseline.aggregate_function, baseline.aggregate_field, before)
    now = _values(rule.aggregate_function, rule.aggregate_field, window)
    if len(before) < baseline.min_count or not past or (not now and rule.aggregate_function is not COUNT):
        return None
    aggregate = _aggregate(rule.aggregate_function, now)
    text = text_of_number(Fraction(round(aggregate * 10**6), 10**6) if rule.aggregate_function == "AVG" else aggregate)
    if not baseline.deviations:
        return COMPARE[rule.operator.value](aggregate, limit * _usual(rule, baseline, past)), text
    excess = aggregate - _usual(rule, baseline, past)
    mean = sum(past, Fraction()) / len(past)
    square = limit * limit * sum((value - mean) ** 2 for value in past) / len(past)
    if rule.operator.value.startswith("<"):
        excess, sign = -excess, rule.operator.value.replace("<", ">")
    else:
        sign = rule.operator.value
    return (excess >= 0 and COMPARE[sign](excess * excess, square)), text


def baseline_text(rule: Aggregate, baseline: Baseline, before: Sequence[Values]) -> str:
    """The value of the baseline in an alert, to six decimals."""
    past = _values(baseline.aggregate_function, baseline.aggregate_field, before)
    return text_of_number(Fraction(round(_usual(rule, baseline, past) * 10**6), 10**6))


def _usual(rule: Aggregate, baseline: Baseline, past: Sequence[Fraction]) -> Fraction:
    """The value of the baseline. Sums and counts are those of a time as long as the window."""
    value = _aggregate(baseline.aggregate_function, past)
    if baseline.aggregate_function in (AggregateFunction.SUM, AggregateFunction.COUNT):
        assert isinstance(rule.window, FixedWindow)
        value *= Fraction(rule.window.length_ms, baseline.window_ms)
    return value


def _values(function: AggregateFunction, field: str | None, rows: Sequence[Values]) -> list[Fraction]:
    """The values that are not null. COUNT, and a rule without a field, have a 1 for each row."""
    if function is COUNT or field is None:
        return [Fraction(1)] * len(rows)
    return [Fraction(value) for row in rows if (value := row[field]) is not None]


def _aggregate(function: AggregateFunction, values: Sequence[Fraction]) -> Fraction:
    match function:
        case AggregateFunction.MIN:
            return min(values)
        case AggregateFunction.MAX:
            return max(values)
        case AggregateFunction.AVG:
            return sum(values, Fraction()) / len(values)
    return sum(values, Fraction())


def _sqrt_half_even(square: Fraction, digits: int) -> Fraction:
    """The square root, rounded half even to `digits` decimals. The exact square decides the rounding, never a float."""
    scaled = square * 10 ** (2 * digits)
    root = isqrt(scaled.numerator // scaled.denominator)
    half = Fraction(2 * root + 1, 2) ** 2
    if scaled > half or (scaled == half and root % 2 == 1):
        root += 1
    return Fraction(root, 10**digits)


def text_of_number(value: Fraction) -> str:
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
