"""Expressions: typed trees that compute one value for each transaction.

`codec.rules.filter` builds the trees and checks their types. A tree is evaluated over whole columns. `str` of a tree is
its canonical text, which parses to an equal tree. `predicate` has the expressions that are conditions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from fraud_rules.model.expressions.columnwise import both_valid
from fraud_rules.model.expressions.unscaled import (
    added,
    constant,
    divided_half_even,
    multiplied,
    negated,
    rescaled,
    subtracted,
)
from fraud_rules.model.schema import FieldType
from fraud_rules.model.transaction import Column

if TYPE_CHECKING:
    from fraud_rules.model.expressions.lookups import Lookup

Columns: TypeAlias = Mapping[str, Column]
LiteralValue: TypeAlias = Decimal | str | bool

MAX_DIGITS: Final = 38
"""The most digits of a number expression, before and after the point together."""


class ExpressionType(StrEnum):
    """The type of an expression's values."""

    NUMBER = "number"
    TEXT = "text"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"


_TYPES: Final = {
    FieldType.LONG: ExpressionType.NUMBER,
    FieldType.DECIMAL: ExpressionType.NUMBER,
    FieldType.STRING: ExpressionType.TEXT,
    FieldType.TIMESTAMP: ExpressionType.TIMESTAMP,
    FieldType.BOOLEAN: ExpressionType.BOOLEAN,
}
_LONG_DIGITS: Final = 19


class Digits(NamedTuple):
    """The largest number of digits of a number before and after the point. Other types have none."""

    before: int
    after: int

    @property
    def total(self) -> int:
        """The digits before and after the point together."""
        return self.before + self.after


NO_DIGITS: Final = Digits(0, 0)


class Rank(IntEnum):
    """How tightly the parts of a text hold together. A part of a lower rank needs parentheses."""

    CONDITION = 0
    SUM = 1
    PRODUCT = 2
    SIGNED = 3
    SINGLE = 4


class Expression(ABC):
    """A value of one type for each transaction. Expressions are frozen and hashable, and equal if their trees are
    equal."""

    __slots__ = ()

    @abstractmethod
    def evaluate(self, columns: Columns, n: int) -> Column:
        """The values for n rows. `columns` holds each of `fields`. The result has one row if all rows have the same
        value. A number is unscaled, with `digits.after` digits after the point. It is an int64, or a Python integer if
        the values of the batch need more. The value of a null is undefined."""

    @property
    @abstractmethod
    def kind(self) -> ExpressionType:
        """The type of the values."""

    @property
    def digits(self) -> Digits:
        """The largest number of digits of a number."""
        return NO_DIGITS

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The expressions of which this one consists."""
        return ()

    @property
    def fields(self) -> frozenset[str]:
        """All fields that the expression reads."""
        return frozenset().union(*(each.fields for each in self.operands))

    @property
    def lookups(self) -> frozenset[Lookup]:
        """The look-ups in lists and maps of this expression."""
        return frozenset().union(*(each.lookups for each in self.operands))

    @property
    def previous_fields(self) -> frozenset[str]:
        """The fields of the previous payment that the expression reads."""
        return frozenset().union(*(each.previous_fields for each in self.operands))

    @property
    def reads_own(self) -> bool:
        """Whether the expression reads the rule's own aggregate."""
        return any(each.reads_own for each in self.operands)

    @property
    def rank(self) -> Rank:
        """The rank of the canonical text."""
        return Rank.SINGLE

    def text(self, rank: Rank) -> str:
        """The canonical text, in parentheses if it is of a lower rank."""
        return str(self) if self.rank >= rank else f"({self})"


@dataclass(frozen=True, slots=True)
class FieldRef(Expression):
    """A declared field: canonical name, type, and scale and precision (0 unless decimal)."""

    name: str
    type: FieldType
    scale: int = 0
    precision: int = 0
    kind: ExpressionType = field(init=False, compare=False, repr=False)
    digits: Digits = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        precision = _LONG_DIGITS if self.type is FieldType.LONG else self.precision
        object.__setattr__(self, "kind", _TYPES[self.type])
        object.__setattr__(self, "digits", Digits(precision - self.scale, self.scale))

    def evaluate(self, columns: Columns, n: int) -> Column:
        return columns[self.name]

    @property
    def fields(self) -> frozenset[str]:
        return frozenset((self.name,))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A literal. A number is normal: it has no exponent, no trailing zeros and no negative zero. A timestamp is a
    number of epoch ms."""

    value: LiteralValue
    kind: ExpressionType
    digits: Digits = field(init=False, compare=False, repr=False)
    column: Column = field(init=False, compare=False, repr=False)
    """The value of all rows, as one row."""

    def __post_init__(self) -> None:
        digits = _digits_of(self.value) if self.kind is ExpressionType.NUMBER else NO_DIGITS
        object.__setattr__(self, "digits", digits)
        if isinstance(self.value, str):
            column = Column(np.zeros(1, dtype=np.int64), None, (self.value,))
        else:
            column = Column(constant(int(Fraction(self.value) * int(10**digits.after))), None, None)
        object.__setattr__(self, "column", column)

    def evaluate(self, columns: Columns, n: int) -> Column:
        return self.column

    @property
    def rank(self) -> Rank:
        return Rank.SIGNED if isinstance(self.value, Decimal) and self.value < 0 else Rank.SINGLE

    def __str__(self) -> str:
        return literal_text(self.value)


@dataclass(frozen=True, slots=True)
class Negation(Expression):
    """`-item`. The item is neither a number literal nor a negation itself."""

    item: Expression

    def evaluate(self, columns: Columns, n: int) -> Column:
        item = self.item.evaluate(columns, n)
        return Column(negated(item.values), item.valid, None)

    @property
    def kind(self) -> ExpressionType:
        return ExpressionType.NUMBER

    @property
    def digits(self) -> Digits:
        return self.item.digits

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.item,)

    @property
    def rank(self) -> Rank:
        return Rank.SIGNED

    def __str__(self) -> str:
        return f"-{self.item.text(Rank.SIGNED)}"


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`left <op> right`, where the operator is `+`, `-`, `*` or `/`. The operands are numbers, or two timestamps, whose
    difference is in seconds."""

    left: Expression
    operator: str
    right: Expression
    digits: Digits = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        is_difference = self.left.kind is ExpressionType.TIMESTAMP
        digits = _SECONDS if is_difference else _RESULTS[self.operator](self.left.digits, self.right.digits)
        object.__setattr__(self, "digits", digits)

    def evaluate(self, columns: Columns, n: int) -> Column:
        left, right = self.left.evaluate(columns, n), self.right.evaluate(columns, n)
        valid = both_valid(left.valid, right.valid)
        a, b = left.values, right.values
        more = self.right.digits.after - self.left.digits.after
        if self.operator == "*":
            return Column(multiplied(a, b), valid, None)
        if self.operator == "/":
            divisible = b != 0
            if not divisible.all():
                valid, b = both_valid(valid, divisible), np.where(divisible, b, 1)
            more += _QUOTIENT_SCALE
            return Column(divided_half_even(rescaled(a, more), rescaled(b, -more)), valid, None)
        combined = added if self.operator == "+" else subtracted
        return Column(combined(rescaled(a, more), rescaled(b, -more)), valid, None)

    @property
    def kind(self) -> ExpressionType:
        return ExpressionType.NUMBER

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    @property
    def rank(self) -> Rank:
        return Rank.SUM if self.operator in _SUMS else Rank.PRODUCT

    def __str__(self) -> str:
        tighter = Rank(self.rank + 1)
        return f"{self.left.text(self.rank)} {self.operator} {self.right.text(tighter)}"


def _sum_digits(a: Digits, b: Digits) -> Digits:
    return Digits(max(a.before, b.before) + 1, max(a.after, b.after))


_SUMS: Final = ("+", "-")
_QUOTIENT_SCALE: Final = 6
_SECONDS: Final = Digits(17, 3)
_RESULTS: Final[Mapping[str, Callable[[Digits, Digits], Digits]]] = {
    "+": _sum_digits,
    "-": _sum_digits,
    "*": lambda a, b: Digits(a.before + b.before, a.after + b.after),
    "/": lambda a, b: Digits(a.before + b.after + 1, _QUOTIENT_SCALE),
}


def _digits_of(number: LiteralValue) -> Digits:
    """The digits of a normal number. A number below 1 has none before the point."""
    _, digits, exponent = Decimal(number).as_tuple()
    return Digits(max(len(digits) + int(exponent), 0) if number else 0, max(-int(exponent), 0))


def literal_text(literal: LiteralValue) -> str:
    """Format a literal in the language: quoted text with doubled quotes, a number without an exponent, or a word."""
    if isinstance(literal, str):
        return "'" + literal.replace("'", "''") + "'"
    return str(literal).lower() if isinstance(literal, bool) else format(literal, "f")
