"""Limits that are expressions: each row has its own limit, in the form in which the kernel compares with it.

A literal limit is compiled once, with its rule (see `plan`). The value of an expression differs from row to row, so it
is compiled for the rows of one call of the kernel, in whole columns. All steps are exact, as in `plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import KIND_AVG, KIND_STDDEV
from fraud_rules.engine.window.bundles import Ints, RuleArrays
from fraud_rules.engine.window.plan import FAR, OPERATORS, RowLimit, limbs_of
from fraud_rules.model.expressions.unscaled import Integers, absolute, added, constant, rescaled
from fraud_rules.model.rule import Operator
from fraud_rules.model.transaction import Column

_MASK: Final = 0xFFFF_FFFF
_INT64_LIMBS: Final = 2
_INT64_MAX: Final = 2**63 - 1


def row_limits(rules: RuleArrays, limits: Sequence[RowLimit], values: Sequence[Column], n: int) -> RuleArrays:
    """The limits of n rows, in place of the limits of rules: row i * len(limits) + k has limit k of row i.

    `values` has the column of each limit's expression.
    """
    if not limits:
        return rules
    rows = np.zeros((n, len(limits), at.R_WIDTH), dtype=np.int64)
    ratios = np.zeros((n, len(limits)), dtype=np.float64)
    wide = n if any(_is_ratio(each) for each in limits) else 0
    denominators = np.zeros((wide, len(limits), at.LIMBS), dtype=np.uint64)
    numerators = np.zeros((wide, len(limits), at.LIMBS), dtype=np.uint64)
    for k, (limit, column) in enumerate(zip(limits, values, strict=True)):
        more = limit.scale - limit.expression.digits.after
        numerator, denominator = rescaled(column.values, more), int(10 ** max(-more, 0))
        if denominator > _INT64_MAX:
            numerator = numerator.astype(object)
        own = rows[:, k]
        own[:, at.R_KIND] = limit.aggregate.kind
        own[:, at.R_OPERATOR] = OPERATORS[limit.operator]
        own[:, at.R_LIMIT_NEGATIVE] = numerator < 0
        _set_interval(own, limit, numerator, denominator)
        if _is_ratio(limit):
            ratios[:, k] = numerator.astype(np.float64) / float(denominator)
            denominators[:, k] = limbs_of(denominator)
            _set_limbs(numerators[:, k], absolute(numerator))
        if limit.aggregate.kind == KIND_STDDEV:
            always = limit.operator in (Operator.GREATER, Operator.GREATER_EQUAL, Operator.NOT_EQUAL)
            own[own[:, at.R_LIMIT_NEGATIVE] != 0, at.R_OPERATOR] = at.OP_ALWAYS if always else at.OP_NEVER
        if column.valid is not None:
            _never(own, ~column.valid)
    flat = (-1, at.LIMBS)
    return rules._replace(
        rows=rows.reshape(-1, at.R_WIDTH),
        ratios=ratios.reshape(-1),
        scales=denominators.reshape(flat),
        limits=numerators.reshape(flat),
    )


def _is_ratio(limit: RowLimit) -> bool:
    """Whether the comparison multiplies with the limit. Otherwise the aggregate is compared with an interval."""
    return limit.aggregate.kind in (KIND_AVG, KIND_STDDEV)


def _set_interval(rows: Ints, limit: RowLimit, numerator: Integers, denominator: int) -> None:
    """Set the firing interval of each row, as `plan` does for a literal."""
    floor = numerator // denominator if denominator > 1 else numerator
    ceiling = added(floor, (floor * denominator != numerator).astype(np.int64)) if denominator > 1 else numerator
    first, last = constant(-FAR), constant(FAR)
    match limit.operator:
        case Operator.GREATER:
            first = added(floor, constant(1))
        case Operator.LESS:
            last = added(ceiling, constant(-1))
        case Operator.GREATER_EQUAL:
            first = ceiling
        case Operator.LESS_EQUAL:
            last = floor
        case _:
            first, last = ceiling, floor
    negate: Any = limit.operator is Operator.NOT_EQUAL
    one = limit.aggregate.constant
    if one is not None:
        negate = ((first <= one) & (one <= last)) == negate
        first, last = constant(-FAR), constant(FAR)
    rows[:, at.R_NEGATE] = negate
    rows[:, at.R_FROM_HIGH], rows[:, at.R_FROM_LOW] = _halves(first)
    rows[:, at.R_TO_HIGH], rows[:, at.R_TO_LOW] = _halves(last)


def _never(rows: Ints, nulls: NDArray[np.bool_]) -> None:
    """Let the condition of these rows never hold."""
    rows[nulls, at.R_OPERATOR] = at.OP_NEVER
    rows[nulls, at.R_NEGATE] = 0
    rows[nulls, at.R_FROM_HIGH], rows[nulls, at.R_TO_HIGH] = FAR >> 32, -FAR >> 32


def _halves(values: Integers) -> tuple[Ints, Ints]:
    """Each value as (value >> 32, value & 0xFFFFFFFF), clamped to FAR."""
    if values.dtype == object:
        values = np.maximum(np.minimum(values, FAR), -FAR)
    return (values >> 32).astype(np.int64), (values & _MASK).astype(np.int64)


def _set_limbs(limbs: NDArray[np.uint64], values: Integers) -> None:
    """Set the limbs of non-negative values."""
    for k in range(at.LIMBS if values.dtype == object else _INT64_LIMBS):
        limbs[:, k] = (values >> (32 * k)) & _MASK
