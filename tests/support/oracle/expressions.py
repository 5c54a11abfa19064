"""The oracle's expressions: a kind, the digits of a number, and a function of one row.

Numbers are fractions, timestamps are `Instant`, texts and booleans are Python's own. A null is None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

from fraud_rules.model.schema import Field, FieldType
from tests.support.oracle.moments import Instant, epoch_ms, is_in_another_unit
from tests.support.oracle.refusal import FilterRefused
from tests.support.oracle.texts import text_of

Values: TypeAlias = Mapping[str, Any]
Truth: TypeAlias = bool | None
"""True, false, or None for unknown (Kleene's logic, as in SQL)."""

MOST_DIGITS = 38
QUOTIENT_DECIMALS = 6
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Kind(Enum):
    """The type of an expression."""

    NUMBER = "number"
    TEXT = "text"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"


KINDS = {
    FieldType.LONG: Kind.NUMBER,
    FieldType.DECIMAL: Kind.NUMBER,
    FieldType.STRING: Kind.TEXT,
    FieldType.TIMESTAMP: Kind.TIMESTAMP,
    FieldType.BOOLEAN: Kind.BOOLEAN,
}


@dataclass(frozen=True)
class Digits:
    """The most digits that a number has before and after the point, together 38 at most."""

    before: int
    after: int

    def __post_init__(self) -> None:
        if self.before + self.after > MOST_DIGITS:
            raise FilterRefused(f"a number has {self.before + self.after} digits, above {MOST_DIGITS}")

    def larger(self, other: Digits) -> tuple[int, int]:
        return max(self.before, other.before), max(self.after, other.after)


NO_DIGITS = Digits(0, 0)


@dataclass(frozen=True)
class Expression:
    """A part of a filter. Only a literal has `literal`, and only a field by itself has `field`.

    `names_field` says whether a field stands anywhere in it.
    """

    kind: Kind
    read: Callable[[Values], Any]
    digits: Digits = NO_DIGITS
    names_field: bool = True
    literal: Fraction | str | bool | None = None
    field: Field | None = None


def field_of(field: Field) -> Expression:
    """A field by itself."""
    kind = KINDS[field.type]
    digits = NO_DIGITS
    if field.type is FieldType.LONG:
        digits = Digits(19, 0)
    elif field.type is FieldType.DECIMAL:
        digits = Digits(field.precision - field.scale, field.scale)

    def read(row: Values) -> Any:
        value = row[field.name]
        if value is None:
            return None
        match kind:
            case Kind.NUMBER:
                return Fraction(value)
            case Kind.TIMESTAMP:
                return Instant(int(value))
        return value

    return Expression(kind, read, digits, field=field)


def literal_of(value: Fraction | str | bool) -> Expression:
    """A literal. A number has the digits of its value: none before the point below 1."""
    match value:
        case bool():
            kind, digits = Kind.BOOLEAN, NO_DIGITS
        case str():
            kind, digits = Kind.TEXT, NO_DIGITS
        case _:
            kind, digits = Kind.NUMBER, _digits_of(value)
    return Expression(kind, lambda _: value, digits, names_field=False, literal=value)


def _digits_of(number: Fraction) -> Digits:
    before = len(str(abs(int(number)))) if abs(number) >= 1 else 0
    after = 0
    while (number * 10**after).denominator != 1:
        after += 1
    return Digits(before, after)


def lifted(function: Callable[..., Any], *operands: Expression) -> Callable[[Values], Any]:
    """The function of the operands' values, null if one of them is null."""

    def read(row: Values) -> Any:
        values = [operand.read(row) for operand in operands]
        return None if None in values else function(*values)

    return read


def computed(kind: Kind, function: Callable[..., Any], *operands: Expression, digits: Digits = NO_DIGITS) -> Expression:
    """An expression over operands: null if one of them is null."""
    return Expression(kind, lifted(function, *operands), digits, names_field=any(each.names_field for each in operands))


def require(kind: Kind, *operands: Expression) -> None:
    """Refuse operands of another kind."""
    for operand in operands:
        if operand.kind is not kind:
            raise FilterRefused(f"a {operand.kind.value} is no {kind.value}")


# Arithmetic


def negative(operand: Expression) -> Expression:
    """`-a`. The negative of a literal is a literal."""
    require(Kind.NUMBER, operand)
    if operand.literal is not None:
        assert isinstance(operand.literal, Fraction)
        return literal_of(-operand.literal)
    return computed(Kind.NUMBER, operator.neg, operand, digits=operand.digits)


def arithmetic(left: Expression, sign: str, right: Expression) -> Expression:
    """`a + b`, `a - b`, `a * b`, `a / b` and the seconds between two timestamps."""
    if sign == "-" and Kind.TIMESTAMP in (left.kind, right.kind):
        left, right = beside(left, right)
        return computed(Kind.NUMBER, _seconds_between, left, right, digits=Digits(17, 3))
    require(Kind.NUMBER, left, right)
    a, b = left.digits, right.digits
    before, after = a.larger(b)
    match sign:
        case "+":
            return computed(Kind.NUMBER, operator.add, left, right, digits=Digits(before + 1, after))
        case "-":
            return computed(Kind.NUMBER, operator.sub, left, right, digits=Digits(before + 1, after))
        case "*":
            digits = Digits(a.before + b.before, a.after + b.after)
            return computed(Kind.NUMBER, operator.mul, left, right, digits=digits)
    return computed(Kind.NUMBER, _quotient, left, right, digits=Digits(a.before + b.after + 1, QUOTIENT_DECIMALS))


def _seconds_between(end: Instant, start: Instant) -> Fraction:
    return Fraction(end.ms - start.ms, 1000)


def _quotient(dividend: Fraction, divisor: Fraction) -> Fraction | None:
    return rounded(dividend / divisor, QUOTIENT_DECIMALS) if divisor else None


def rounded(number: Fraction, decimals: int) -> Fraction:
    """The number to so many decimals, half even; a negative number of decimals gives tens, hundreds and so on."""
    unit = Fraction(10) ** -decimals
    return round(number / unit) * unit


# Comparisons


def compared(left: Expression, sign: str, right: Expression) -> Expression:
    """The comparison of two expressions of one kind, unknown beside a null."""
    left, right = beside(left, right)
    require_field(left, right)
    if left.kind is Kind.BOOLEAN and sign not in ("=", "!=", "<>"):
        raise FilterRefused("booleans have no order")
    return computed(Kind.BOOLEAN, COMPARE[sign], left, right)


def beside(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """The two expressions as one kind: a literal takes the form of the other side."""
    left, right = _like_other(left, right), _like_other(right, left)
    require(left.kind, right)
    return left, right


def _like_other(literal: Expression, other: Expression) -> Expression:
    """A literal beside a timestamp as a timestamp, and a text beside a field normalized like the field's texts."""
    value = literal.literal
    if value is None or isinstance(value, bool):
        return literal
    if other.kind is Kind.TIMESTAMP:
        return _timestamp(literal, value, other)
    if isinstance(value, str) and other.field is not None and other.kind is Kind.TEXT:
        return literal_of(text_of(value, other.field))
    return literal


def _timestamp(literal: Expression, value: Fraction | str, other: Expression) -> Expression:
    if isinstance(value, str):
        ms = epoch_ms(value)
    elif value.denominator != 1:
        raise FilterRefused(f"{value} is no whole number of milliseconds")
    elif other.field is not None and other.field.name == "eventTime" and is_in_another_unit(int(value)):
        raise FilterRefused(f"{value} is not in milliseconds")
    else:
        ms = int(value)
    moment = Instant(ms)
    return replace(literal, kind=Kind.TIMESTAMP, read=lambda _: moment, digits=NO_DIGITS, literal=None)


def require_field(*operands: Expression) -> None:
    """Refuse operands none of which names a field."""
    if not any(operand.names_field for operand in operands):
        raise FilterRefused("each comparison, `in`, `like` and `is null` names a field")


# Three-valued logic


def is_null(operand: Expression) -> Expression:
    """`x is null`: never unknown."""
    require_field(operand)
    return Expression(Kind.BOOLEAN, lambda row: operand.read(row) is None)


def negated(operand: Expression) -> Expression:
    """`not x`."""
    return computed(Kind.BOOLEAN, operator.not_, condition(operand))


def any_of(parts: Sequence[Expression]) -> Expression:
    """The parts joined by `or`."""
    return _joined(parts, decisive=True)


def all_of(parts: Sequence[Expression]) -> Expression:
    """The parts joined by `and`."""
    return _joined(parts, decisive=False)


def _joined(parts: Sequence[Expression], *, decisive: bool) -> Expression:
    """One true decides `or`, one false decides `and`. Otherwise one unknown makes the whole unknown."""
    conditions = [condition(part) for part in parts]

    def read(row: Values) -> Truth:
        truths = [each.read(row) for each in conditions]
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive

    return Expression(Kind.BOOLEAN, read)


def condition(expression: Expression) -> Expression:
    """A boolean that names a field, and so can be a filter by itself or a part of `and`, `or` and `not`."""
    require(Kind.BOOLEAN, expression)
    require_field(expression)
    return expression
