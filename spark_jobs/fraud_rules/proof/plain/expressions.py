"""Expressions of rules, compiled to functions of one row. They belong to rules in force, so they are valid.

A row has the values of its fields by name; `list:NAME` has a set, `map:NAME` a mapping, `previous()` the values of the
previous payment or None, and `own()` the value of the rule's own aggregate. Times are epoch ms, numbers fractions.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from fraud_rules.proof.plain.moments import clock, distance_m, epoch_ms

Row: TypeAlias = Mapping[str, Any]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<>": operator.ne, ">=": operator.ge, "<=": operator.le, ">": operator.gt,
    "<": operator.lt,
}  # fmt: skip
_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[0-9]+(?:\.[0-9]+)?|[A-Za-z_]\w*|!=|<>|>=|<=|[=<>(),*/+-])", re.ASCII)
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


class PlainField(NamedTuple):
    """A field: its name, its kind (number, text, time or boolean), and the form in which it keeps texts."""

    name: str
    kind: str
    form: Callable[[str], str]


class _Term(NamedTuple):
    """A part of an expression: a function, and what is known if it is a time, a literal or a field by itself."""

    read: Callable[[Row], Any]
    is_time: bool = False
    literal: Any = None
    field: PlainField | None = None


def compile_expression(text: str, fields: Mapping[str, PlainField]) -> Callable[[Row], Any]:
    """The function of a row that an expression is. `fields` has the fields by name and alias."""
    return _Parser([*_TOKEN.findall(text), ""], fields).any().read


def rounded(value: Fraction, digits: int = 0) -> Fraction:
    """The value with so many decimals, half even."""
    return round(value * Fraction(10) ** digits) / Fraction(10) ** digits


def _lifted(function: Callable[..., Any], *parts: _Term) -> _Term:
    """The function of the values of the parts: null if one of them is null."""

    def read(row: Row) -> Any:
        values = [part.read(row) for part in parts]
        return None if None in values else function(*values)

    return _Term(read)


def _joined(parts: Sequence[_Term], *, decisive: bool) -> _Term:
    """`or`, which true decides, and `and`, which false decides, three-valued."""

    def read(row: Row) -> bool | None:
        values = [part.read(row) for part in parts]
        return decisive if decisive in values else None if None in values else not decisive

    return parts[0] if len(parts) == 1 else _Term(read)


def _alike(left: _Term, right: _Term) -> tuple[_Term, _Term]:
    """Two terms with a literal in the form of the other side."""

    def like(term: _Term, other: _Term) -> _Term:
        value = term.literal
        if value is not None and other.is_time:
            value = epoch_ms(value) if isinstance(value, str) else int(value)
        elif isinstance(value, str) and other.field is not None:
            value = other.field.form(value)
        return term if value is None else _Term(lambda _: value, other.is_time)

    return like(left, right), like(right, left)


def _literal(value: Any) -> _Term:
    return _Term(lambda _: value, literal=value)


class _Parser:
    """Recursive descent, one method for each level of precedence."""

    def __init__(self, tokens: list[str], fields: Mapping[str, PlainField]) -> None:
        self._tokens, self._fields = tokens, fields

    def _next(self, *tokens: str) -> str:
        """Take the next token if it is one of these; else an empty text."""
        return self._tokens.pop(0).lower() if self._tokens[0].lower() in tokens else ""

    def _all_of(self, word: str, part: Callable[[], _Term]) -> list[_Term]:
        found = [part()]
        while self._next(word):
            found.append(part())
        return found

    def any(self) -> _Term:
        return _joined(self._all_of("or", self._all), decisive=True)

    def _all(self) -> _Term:
        return _joined(self._all_of("and", self._not), decisive=False)

    def _not(self) -> _Term:
        return _lifted(operator.not_, self._not()) if self._next("not") else self._comparison()

    def _comparison(self) -> _Term:
        left = self._sum()
        if self._next("is"):
            is_null, _ = not self._next("not"), self._next("null")
            return _Term(lambda row: (left.read(row) is None) == is_null)
        negates, word = self._next("not"), self._next("between", "in", "like", *COMPARE)
        found = self._compared(left, word) if word else left
        return _lifted(operator.not_, found) if negates else found

    def _compared(self, left: _Term, word: str) -> _Term:
        if word == "between":
            low, _, high = self._sum(), self._next("and"), self._sum()
            return _joined([self._sign(left, ">=", low), self._sign(left, "<=", high)], decisive=False)
        if word == "like":
            pieces = re.findall(r"\\.|.", self._primary().literal, re.DOTALL)
            pattern = "".join({"%": ".*", "_": "."}.get(each, re.escape(each[-1])) for each in pieces)
            return _lifted(lambda text: re.fullmatch(pattern, text, re.DOTALL) is not None, left)
        if word == "in" and self._next("list"):
            name = f"list:{self._arguments()[0].literal}"
            return _Term(lambda row: None if (value := left.read(row)) is None else value in row[name])
        if word == "in":
            return _joined([self._sign(left, "=", each) for each in self._arguments()], decisive=True)
        return self._sign(left, word, self._sum())

    def _sign(self, left: _Term, sign: str, right: _Term) -> _Term:
        return _lifted(COMPARE[sign], *_alike(left, right))

    def _sum(self) -> _Term:
        left = self._product()
        while sign := self._next("+", "-"):
            right = self._product()
            plain = operator.add if sign == "+" else operator.sub
            function = (lambda a, b: Fraction(a - b, 1000)) if left.is_time or right.is_time else plain
            left = _lifted(function, *_alike(left, right))
        return left

    def _product(self) -> _Term:
        left = self._unary()
        while sign := self._next("*", "/"):
            operation = operator.mul if sign == "*" else lambda a, b: rounded(a / b, 6) if b else None
            left = _lifted(operation, left, self._unary())
        return left

    def _unary(self) -> _Term:
        if not self._next("-"):
            return self._primary()
        term = self._unary()
        return _lifted(operator.neg, term) if term.literal is None else _literal(-term.literal)

    def _arguments(self) -> list[_Term]:
        self._next("(")
        found = [] if self._tokens[0] == ")" else self._all_of(",", self.any)
        self._next(")")
        return found

    def _primary(self) -> _Term:
        if self._tokens[0] == "(":
            return self._arguments()[0]
        token = self._tokens.pop(0)
        if token[0] == "'":
            return _literal(token[1:-1].replace("''", "'"))
        if token[0].isdigit() or token.lower() in ("true", "false"):
            return _literal(Fraction(token) if token[0].isdigit() else token.lower() == "true")
        if self._tokens[0] == "(":
            return _called(token.lower(), self._arguments())
        field = self._fields[token]
        convert = Fraction if field.kind == "number" else lambda value: value
        return _lifted(convert, _Term(lambda row: row[field.name]))._replace(is_time=field.kind == "time", field=field)


def _called(name: str, arguments: Sequence[_Term]) -> _Term:
    """The value of a function."""
    first, *others = arguments or [_literal(None)]
    if name in ("hour", "minute_of_day", "weekday", "day", "month"):
        return _lifted(lambda at_ms: clock(name, at_ms, others[0].literal if others else "UTC"), first)
    if name == "coalesce":
        a, b = _alike(*arguments)
        return _Term(lambda row: b.read(row) if (value := a.read(row)) is None else value, a.is_time)
    if name in ("map", "map_text"):
        return _Term(lambda row: row[f"map:{first.literal}"].get(others[0].read(row)))
    if name == "previous":
        return _Term(lambda row: None if row["previous()"] is None else first.read(row["previous()"]), first.is_time)
    if name == "own":
        return _Term(lambda row: row["own()"])
    whole = [int(each.literal or 0) for each in others]
    functions: dict[str, Callable[[Any], Any]] = {
        "abs": abs,
        "round": lambda value: rounded(value, *whole),
        "lower": lambda text: text.translate(_LOWER),
        "length": lambda text: Fraction(len(text)),
        "substring": lambda text: text[whole[0] - 1 : whole[0] - 1 + whole[1]],
    }
    return _lifted(distance_m, *arguments) if name == "distance_m" else _lifted(functions[name], first)
