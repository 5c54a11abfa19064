"""`previous(field)`: the value of a field in the previous payment of the key.

Which payment this is depends on the filter and the window of the rule that has the expression, and on the state of its
grouping. So the expression reads a column with the values, and `engine.state.previous_payments` fills it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fraud_rules.model.expressions.expression import Columns, Digits, Expression, ExpressionType, FieldRef
from fraud_rules.model.transaction import Column

PREVIOUS: Final = "previous"
"""The name of the function."""


@dataclass(frozen=True, slots=True)
class PreviousValue(Expression):
    """The value of the field `item` in the previous payment, null without one. The columns must contain the
    `previous_column` of the field."""

    item: FieldRef

    def evaluate(self, columns: Columns, n: int) -> Column:
        return columns[previous_column(self.item.name)]

    @property
    def kind(self) -> ExpressionType:
        return self.item.kind

    @property
    def digits(self) -> Digits:
        return self.item.digits

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.item,)

    @property
    def previous_fields(self) -> frozenset[str]:
        return self.item.fields

    def __str__(self) -> str:
        return previous_column(self.item.name)


def previous_column(field: str) -> str:
    """The name of the column with the values of a field in the previous payments. It is no field's name."""
    return f"{PREVIOUS}({field})"
