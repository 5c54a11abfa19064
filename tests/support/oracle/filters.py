"""The filter language, parsed a second time: recursive descent from the text to a function of one row.

This parser follows the description of the language. It uses neither the product's grammar nor its tree nor its columns,
so that an error in them shows up as a difference:

    filter       conjunction, or conjunctions joined by `or`
    conjunction  factor, or factors joined by `and`
    factor       `not` factor, `(` filter `)`, or a condition
    condition    operand sign operand
                 operand [`not`] `between` operand `and` operand
                 operand [`not`] `in` `(` literal `,` ... `)`
                 field [`not`] `in` `list` `(` text `)`, in `when` only
                 operand `is` [`not`] `null`
                 a field of type boolean
    operand      a field, or a literal: a number, text in quotes, `true` or `false`; not the latter two after `in`

The bounds on length, depth and digits are the product's alone.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from tests.support.oracle.texts import text_of

Value: TypeAlias = int | str | Decimal | None
Values: TypeAlias = Mapping[str, Value]
Truth: TypeAlias = bool | None
Condition: TypeAlias = Callable[[Values], Truth]
"""True, false, or None for unknown (Kleene's logic, as in SQL)."""

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?)(?![A-Za-z0-9_.])"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>!=|<>|>=|<=|[=<>(),])|(?P<end>$))"
)
_NUMBERS = (FieldType.LONG, FieldType.DECIMAL)


class FilterRefused(Exception):
    """The text is no filter, or its types do not fit."""


@dataclass(frozen=True)
class Operand:
    """One side of a comparison. `type` is None for a literal, whose value is `literal`."""

    read: Callable[[Values], Value]
    type: FieldType | None = None
    literal: Decimal | str | bool = ""
    field: Field | None = None


def parse_filter(text: str, schema: TransactionSchema) -> Condition:
    """Compile a filter to a function of one row. Raises FilterRefused."""
    found, lists = _parse(text, schema)
    if lists:
        raise FilterRefused("a filter names no lists")
    return found


def parse_when(text: str, schema: TransactionSchema) -> tuple[Condition, Mapping[str, FieldType]]:
    """Compile a `when` to a function of one row, and return the lists that it names with the types that it needs.

    The row holds the values of a list under `list_key`. Raises FilterRefused.
    """
    return _parse(text, schema)


def list_key(name: str) -> str:
    """The name under which a row holds the values of a list."""
    return f"list('{name}')"


def _parse(text: str, schema: TransactionSchema) -> tuple[Condition, Mapping[str, FieldType]]:
    parser = _Parser(text, schema)
    found = parser.any_of()
    parser.expect("end", "")
    return found, parser.lists


class _Parser:
    """Reads tokens from left to right; one method for each line of the grammar."""

    def __init__(self, text: str, schema: TransactionSchema) -> None:
        self._tokens = list(_tokens(text))
        self._schema = schema
        self._next = 0
        self.lists: dict[str, FieldType] = {}

    def any_of(self) -> Condition:
        parts = [self.all_of()]
        while self.accept("word", "or"):
            parts.append(self.all_of())
        return lambda row: _strongest([part(row) for part in parts], decisive=True)

    def all_of(self) -> Condition:
        parts = [self.factor()]
        while self.accept("word", "and"):
            parts.append(self.factor())
        return lambda row: _strongest([part(row) for part in parts], decisive=False)

    def factor(self) -> Condition:
        if self.accept("word", "not"):
            return _negated(self.factor())
        if self.accept("sign", "("):
            inner = self.any_of()
            self.expect("sign", ")")
            return inner
        return self.condition()

    def condition(self) -> Condition:
        left = self.operand()
        if self.accept("word", "is"):
            negated = self.accept("word", "not")
            self.expect("word", "null")
            _require_field(left)
            return lambda row: (left.read(row) is None) is not negated
        negated = self.accept("word", "not")
        if self.accept("word", "between"):
            found = self.between(left)
        elif self.accept("word", "in"):
            found = self.membership(left)
        elif not negated and left.type is FieldType.BOOLEAN and not self.at_sign():
            return left.read  # type: ignore[return-value]
        elif not negated:
            return _compared(left, self.sign(), self.operand())
        else:
            raise FilterRefused("`not` is followed by neither `between` nor `in`")
        return _negated(found) if negated else found

    def between(self, operand: Operand) -> Condition:
        low = self.operand()
        self.expect("word", "and")
        bounds = [_compared(operand, ">=", low), _compared(operand, "<=", self.operand())]
        return lambda row: _strongest([bound(row) for bound in bounds], decisive=False)

    def membership(self, operand: Operand) -> Condition:
        _require_field(operand)
        if self.accept("word", "list"):
            return self.listed(operand)
        self.expect("sign", "(")
        equal = [_compared(operand, "=", self.literal())]
        while self.accept("sign", ","):
            equal.append(_compared(operand, "=", self.literal()))
        self.expect("sign", ")")
        return lambda row: _strongest([each(row) for each in equal], decisive=True)

    def listed(self, operand: Operand) -> Condition:
        self.expect("sign", "(")
        name = self.literal().literal
        self.expect("sign", ")")
        if not isinstance(name, str) or operand.type not in (FieldType.LONG, FieldType.STRING):
            raise FilterRefused("a list has a name, and longs or strings")
        if self.lists.setdefault(name, operand.type) is not operand.type:
            raise FilterRefused(f"the list {name} is compared with fields of two types")

        def membership(row: Values) -> Truth:
            value, values = operand.read(row), row[list_key(name)]
            return None if value is None else value in values  # type: ignore[operator]

        return membership

    def operand(self) -> Operand:
        kind, text = self._tokens[self._next]
        if kind != "word":
            return self.literal()
        self._next += 1
        field = next((each for each in self._schema.fields if text in (each.name, *each.aliases)), None)
        if field is None and text.lower() in ("true", "false"):
            truth = text.lower() == "true"
            return Operand(lambda _: truth, literal=truth)
        if field is None:
            raise FilterRefused(f"{text} is not declared")
        return Operand(lambda row: row[field.name], field.type, field=field)

    def literal(self) -> Operand:
        kind, text = self._tokens[self._next]
        self._next += 1
        match kind:
            case "number":
                value: Decimal | str = Decimal(text)
            case "text":
                value = text[1:-1].replace("''", "'")
            case _:
                raise FilterRefused(f"{text!r} is no literal")
        return Operand(lambda _: value, literal=value)

    def sign(self) -> str:
        kind, text = self._tokens[self._next]
        self._next += 1
        if kind != "sign" or text not in SIGNS:
            raise FilterRefused(f"{text!r} compares nothing")
        return text

    def at_sign(self) -> bool:
        """Whether the next token compares."""
        kind, text = self._tokens[self._next]
        return kind == "sign" and text in SIGNS

    def accept(self, kind: str, text: str) -> bool:
        """Read the next token if it is this one, and return whether it was. Words ignore case."""
        found = self._tokens[self._next]
        if (found[0], found[1].lower()) != (kind, text):
            return False
        self._next += 1
        return True

    def expect(self, kind: str, text: str) -> None:
        if not self.accept(kind, text):
            raise FilterRefused(f"{text or kind} is missing before {self._tokens[self._next][1]!r}")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while True:
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise FilterRefused(f"character {position} begins no word")
        yield found.lastgroup, found[found.lastgroup]
        if found.lastgroup == "end":
            return
        position = found.end()


def _strongest(truths: list[Truth], *, decisive: bool) -> Truth:
    """Combine truths: one true decides `or`, one false decides `and`. Otherwise one unknown makes the whole unknown."""
    if decisive in truths:
        return decisive
    return None if None in truths else not decisive


def _negated(condition: Condition) -> Condition:
    def negation(row: Values) -> Truth:
        truth = condition(row)
        return None if truth is None else not truth

    return negation


def _compared(left: Operand, sign: str, right: Operand) -> Condition:
    """The comparison of two operands of one kind. A null on either side makes it unknown."""
    if left.type is None and right.type is None:
        raise FilterRefused("a comparison needs a field")
    if left.type is None:
        left = _typed(left, right)
    elif right.type is None:
        right = _typed(right, left)
    elif left.type is not right.type and not (left.type in _NUMBERS and right.type in _NUMBERS):
        raise FilterRefused(f"{left.type} and {right.type} cannot be compared")
    if FieldType.BOOLEAN in (left.type, right.type) and sign not in ("=", "!=", "<>"):
        raise FilterRefused("booleans have no order")
    compare = SIGNS[sign]

    def comparison(row: Values) -> Truth:
        one, other = left.read(row), right.read(row)
        return None if one is None or other is None else compare(one, other)

    return comparison


def _typed(operand: Operand, other: Operand) -> Operand:
    """The literal as a value of the field on the other side."""
    literal, wanted = operand.literal, other.type
    if isinstance(literal, str) and other.field is not None and wanted is FieldType.STRING:
        literal = text_of(literal, other.field)
    if wanted is FieldType.TIMESTAMP and isinstance(literal, str):
        literal = _epoch_ms(literal)
    elif other.field is not None and other.field.name == "eventTime" and _is_in_another_unit(literal):
        raise FilterRefused(f"{literal} is not in milliseconds")
    is_text, is_boolean = wanted is FieldType.STRING, wanted is FieldType.BOOLEAN
    if isinstance(literal, str) is not is_text or isinstance(literal, bool) is not is_boolean:
        raise FilterRefused(f"{literal!r} is no {wanted}")
    return Operand(lambda _: literal, literal=literal)


def _is_in_another_unit(number: object) -> bool:
    """Whether the number is a time of 2000 to 2099 in seconds, microseconds or nanoseconds."""
    if not isinstance(number, Decimal):
        return False
    first, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2000, 2100))
    return any(first * a_second <= int(number) < end * a_second for a_second in (1, 10**6, 10**9))


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)


def _epoch_ms(text: str) -> Decimal:
    """The forms of times in payments."""
    found = _TIME.fullmatch(text)
    if found is None or found[2] >= "24" or (found[3] or "+00")[1:3] > "18":
        raise FilterRefused(f"{text!r} is no time")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise FilterRefused(f"{text!r} is no time") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if "." in found[2] and found[2].split(".")[1][3:].strip("0"):
        raise FilterRefused(f"{text!r} is finer than a millisecond")
    return Decimal((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


def _require_field(operand: Operand) -> None:
    if operand.type is None:
        raise FilterRefused("a field is required before `in` and `is`")
