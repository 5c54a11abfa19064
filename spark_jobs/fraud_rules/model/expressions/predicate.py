"""Conditions: the expressions that are true, false or unknown, and their evaluation over columns.

Logic is three-valued, as in SQL: a comparison with a null is neither true nor false, and a row passes only if the
filter is true. So each node computes two masks: the rows where it is true, and the rows where it is false. `and`, `or`
and `not` combine these masks with Kleene's logic. `columnwise` has the comparisons.

`codec.rules.filter` builds the nodes and checks their types. `str` of a node is its canonical text, which parses to an
equal tree.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TypeAlias

import numpy as np

from fraud_rules.model.expressions.columnwise import (
    COMPARE,
    COMPARE_TEXT,
    Mask,
    both_valid,
    compare_number,
    is_one_of,
    of_strings,
    ranks,
    where_known,
)
from fraud_rules.model.expressions.expression import (
    Columns,
    Constant,
    Expression,
    ExpressionType,
    FieldRef,
    Rank,
    literal_text,
)
from fraud_rules.model.expressions.text_pattern import like_expression
from fraud_rules.model.expressions.unscaled import compare_scaled
from fraud_rules.model.transaction import Column

__all__ = [
    "And", "Comparison", "FieldRef", "Flag", "IsNull", "Like", "Literal", "Membership", "Not", "OfOne", "Or",
    "Predicate", "truth_of", "value_of_condition",
]  # fmt: skip

Literal: TypeAlias = Decimal | str


class Predicate(Expression):
    """A condition on one transaction."""

    __slots__ = ()

    def mask(self, columns: Columns, n: int) -> Mask:
        """The rows where the condition is true: bool[n], read-only. `columns` holds each of `fields` with n rows."""
        true = self.truth_masks(columns, n)[0]
        return true if len(true) == n else np.broadcast_to(true, n)

    @abstractmethod
    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        """The rows where the condition is true, and the rows where it is false. In all other rows it is unknown. Both
        masks are read-only. They have one row if all rows are alike."""

    def evaluate(self, columns: Columns, n: int) -> Column:
        true, false = self.truth_masks(columns, n)
        return Column(true.astype(np.int64), true | false, None)

    @property
    def kind(self) -> ExpressionType:
        return ExpressionType.BOOLEAN

    @property
    def rank(self) -> Rank:
        return Rank.CONDITION


@dataclass(frozen=True, slots=True)
class OfOne(Predicate):
    """A condition on one value."""

    item: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.item,)


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`left <op> right`, of two values of one type; booleans with `=` and `!=` only. A literal is on the right."""

    left: Expression
    operator: str
    right: Expression

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        left, right = self.left.evaluate(columns, n), self.right
        if isinstance(right, Constant):
            return where_known(self._compared_with(left, right), left.valid)
        other = right.evaluate(columns, n)
        if self.left.kind is ExpressionType.TEXT:
            holds = COMPARE[self.operator](*ranks(left, other))
        else:
            scale, other_scale = self.left.digits.after, right.digits.after
            holds = compare_scaled(left.values, scale, self.operator, other.values, other_scale)
        return where_known(holds, both_valid(left.valid, other.valid))

    def _compared_with(self, left: Column, right: Constant) -> Mask:
        literal = right.value
        if isinstance(literal, str):
            compare = COMPARE_TEXT[self.operator]
            return of_strings(left, lambda text: compare(text, literal))
        return compare_number(left.values, self.operator, Decimal(literal), self.left.digits.after)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"{self.left.text(Rank.SUM)} {self.operator} {self.right.text(Rank.SUM)}"


@dataclass(frozen=True, slots=True)
class Flag(OfOne):
    """A boolean value as a condition: true or false as the value is, unknown where it is null. The value is no
    condition itself."""

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        column = self.item.evaluate(columns, n)
        return where_known(column.values != 0, column.valid)

    def __str__(self) -> str:
        return str(self.item)


@dataclass(frozen=True, slots=True)
class Membership(OfOne):
    """`item in (...)`, or `item not in (...)` if negated. The literals are distinct and sorted."""

    literals: tuple[Literal, ...]
    negated: bool = False

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        column = self.item.evaluate(columns, n)
        texts = frozenset(literal for literal in self.literals if isinstance(literal, str))
        if texts:
            holds = of_strings(column, texts.__contains__)
        else:
            numbers = [literal for literal in self.literals if isinstance(literal, Decimal)]
            holds = is_one_of(column.values, numbers, self.item.digits.after)
        return where_known(~holds if self.negated else holds, column.valid)

    def __str__(self) -> str:
        listed = ", ".join(map(literal_text, self.literals))
        return f"{self.item.text(Rank.SUM)} {'not in' if self.negated else 'in'} ({listed})"


@dataclass(frozen=True, slots=True)
class Like(OfOne):
    """`item like 'pattern'`, or `item not like 'pattern'` if negated. The pattern is valid."""

    pattern: str
    negated: bool = False

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        column = self.item.evaluate(columns, n)
        matches = like_expression(self.pattern).fullmatch
        holds = of_strings(column, lambda text: matches(text) is not None)
        return where_known(~holds if self.negated else holds, column.valid)

    def __str__(self) -> str:
        return f"{self.item.text(Rank.SUM)} {'not like' if self.negated else 'like'} {literal_text(self.pattern)}"


@dataclass(frozen=True, slots=True)
class IsNull(OfOne):
    """`item is null`, or `item is not null` if negated. It is never unknown."""

    negated: bool = False

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        valid = self.item.evaluate(columns, n).valid
        present = np.ones(n, dtype=np.bool_) if valid is None else valid
        return (present, ~present) if self.negated else (~present, present)

    def __str__(self) -> str:
        return f"{self.item.text(Rank.SUM)} {'is not null' if self.negated else 'is null'}"


@dataclass(frozen=True, slots=True)
class _Combination(Predicate):
    """Two or more conditions."""

    items: tuple[Predicate, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.items


@dataclass(frozen=True, slots=True)
class And(_Combination):
    """The conjunction of two or more conditions. The conditions are not `And` nodes themselves."""

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = zip(*(item.truth_masks(columns, n) for item in self.items), strict=True)
        return reduce(np.logical_and, true), reduce(np.logical_or, false)

    def __str__(self) -> str:
        return " and ".join(f"({item})" if isinstance(item, Or) else str(item) for item in self.items)


@dataclass(frozen=True, slots=True)
class Or(_Combination):
    """The disjunction of two or more conditions. The conditions are not `Or` nodes themselves."""

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = zip(*(item.truth_masks(columns, n) for item in self.items), strict=True)
        return reduce(np.logical_or, true), reduce(np.logical_and, false)

    def __str__(self) -> str:
        return " or ".join(map(str, self.items))


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The negation of a condition. It is unknown where the condition is. The condition is not a `Not` node itself."""

    item: Predicate

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        true, false = self.item.truth_masks(columns, n)
        return false, true

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.item,)

    def __str__(self) -> str:
        return f"not ({self.item})"


def truth_of(value: Expression) -> Predicate:
    """A boolean value as a condition."""
    return value if isinstance(value, Predicate) else Flag(value)


def value_of_condition(condition: Expression) -> Expression:
    """A condition as a boolean value, the opposite of `truth_of`. Every other value stays as it is."""
    return condition.item if isinstance(condition, Flag) else condition
