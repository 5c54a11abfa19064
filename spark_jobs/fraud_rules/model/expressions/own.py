"""`own()`: the value of the rule's own aggregate, in the limit of a condition.

The value is known only while the kernel evaluates the transaction. So the expression reads a column with the value, and
`engine.state.own_limits` fills it. Without this column, the value is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.expressions.expression import MAX_DIGITS, Columns, Digits, Expression, ExpressionType
from fraud_rules.model.transaction import Column

OWN: Final = "own"
"""The name of the function."""

OWN_COLUMN: Final = f"{OWN}()"
"""The name of the column with the value. It is no field's name."""

_MORE_BEFORE: Final = 10
"""The digits that a sum has before the point, beside those of its values: ten billion values need so many."""

_RATIO: Final = 6
"""The digits after the point of an average or a deviation, as in an alert."""

_COUNT: Final = Digits(19, 0)

_NULL: Final = Column(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_), None)


@dataclass(frozen=True, slots=True)
class OwnValue(Expression):
    """The value of the rule's own aggregate, as an alert has it; null without one. `digits` are those of the
    aggregate."""

    digits: Digits

    def evaluate(self, columns: Columns, n: int) -> Column:
        return columns.get(OWN_COLUMN, _NULL)

    @property
    def kind(self) -> ExpressionType:
        return ExpressionType.NUMBER

    @property
    def reads_own(self) -> bool:
        return True

    def __str__(self) -> str:
        return OWN_COLUMN


def own_digits(function: AggregateFunction, field: Digits) -> Digits:
    """The largest number of digits of an aggregate of a field with these digits, as an alert has it."""
    match function:
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return field
        case AggregateFunction.AVG | AggregateFunction.STDDEV:
            return Digits(min(field.before, MAX_DIGITS - _RATIO), _RATIO)
        case AggregateFunction.SUM:
            return Digits(min(field.before + _MORE_BEFORE, MAX_DIGITS - field.after), field.after)
    return _COUNT
