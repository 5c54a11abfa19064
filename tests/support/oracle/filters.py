"""The filter language, parsed a second time: recursive descent from the text to a function of one row.

This parser follows the description of the language. It uses neither the product's grammar nor its tree nor its columns,
so that an error in them shows up as a difference:

    expression   conjunction, or conjunctions joined by `or`
    conjunction  factor, or factors joined by `and`
    factor       `not` factor, or a comparison
    comparison   sum, or one of
                 sum sign sum
                 sum [`not`] `between` sum `and` sum
                 sum [`not`] `in` `(` literal `,` ... `)`
                 sum [`not`] `in` `list` `(` text `)`, in `when` only
                 sum [`not`] `like` text
                 sum `is` [`not`] `null`
    sum          product, or products joined by `+` and `-`
    product      unary, or unaries joined by `*` and `/`
    unary        `-` unary, or a primary
    primary      `(` expression `)`, a field, a number, a text, `true`, `false`, or one of
                 name `(` expression `,` ... `)`
                 `map` or `map_text` `(` text `,` expression `)`, in `when` and `limit` only
                 `own` `(` `)`, in the limits of conditions only, or `role`, in a rule that groups by an entity
    literal      a number, `-` number, or a text

The bounds on length, depth and words are the product's alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from fraud_rules.model.schema import FieldType, TransactionSchema
from tests.support.oracle import functions, lookups
from tests.support.oracle.expressions import (
    COMPARE,
    MOST_DIGITS,
    NO_DIGITS,
    Digits,
    Expression,
    Kind,
    Truth,
    Values,
    all_of,
    any_of,
    arithmetic,
    compared,
    condition,
    field_of,
    is_null,
    literal_of,
    negated,
    negative,
    require,
    require_field,
)
from tests.support.oracle.needs import Formula, Needs, Scope, list_key
from tests.support.oracle.refusal import FilterRefused

__all__ = [
    "Condition",
    "FilterRefused",
    "Formula",
    "Limit",
    "Needs",
    "Scope",
    "is_expression",
    "list_key",
    "parse_filter",
    "parse_limit",
    "parse_when",
    "read_formula",
    "read_limit",
]

Condition: TypeAlias = Callable[[Values], Truth]
Limit: TypeAlias = Callable[[Values], Fraction | None]

RESERVED = frozenset({"and", "between", "false", "in", "is", "like", "not", "null", "or", "true"})
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[0-9]+(?:\.[0-9]+)?)(?![A-Za-z0-9_.])"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>!=|<>|>=|<=|[=<>(),*/+-])|(?P<end>$))"
)
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def parse_filter(text: str, schema: TransactionSchema) -> Condition:
    """Compile a filter to a function of one row. Raises FilterRefused."""
    return read_formula(text, schema, Scope.FILTER).read


def parse_when(text: str, schema: TransactionSchema) -> tuple[Condition, Mapping[str, FieldType]]:
    """Compile a `when` to a function of one row, and return the lists that it names with the types that it needs.

    The row holds the values of a list under `list_key`. Raises FilterRefused.
    """
    found = read_formula(text, schema, Scope.WHEN)
    return found.read, found.needs.lists


def parse_limit(raw: object, schema: TransactionSchema) -> Limit:
    """Compile the `limit` of a rule's document to a function of the evaluated row; None there never holds.

    Raises FilterRefused.
    """
    return read_limit(raw, schema).read


def read_formula(text: str, schema: TransactionSchema, scope: Scope, *, has_role: bool = False) -> Formula:
    """Compile a filter or a `when`. `has_role` says whether the rule groups by an entity. Raises FilterRefused."""
    parser = _Parser(text, schema, scope, has_role)
    return Formula(condition(parser.whole()).read, parser.needs)


def read_limit(
    raw: object,
    schema: TransactionSchema,
    scope: Scope = Scope.LIMIT,
    *,
    has_role: bool = False,
    own: Digits = NO_DIGITS,
) -> Formula:
    """Compile a `limit`. A number, or a text of one, is the same for every row. Any other text is a number expression.

    It cannot name lists: no number depends on a boolean. `own` has the digits of the rule's own aggregate. Raises
    FilterRefused.
    """
    if not is_expression(raw):
        number = Fraction(str(raw))
        return Formula(lambda _: number, Needs())
    parser = _Parser(str(raw), schema, scope, has_role, own)
    found = parser.whole()
    require(Kind.NUMBER, found)
    return Formula(found.read, parser.needs)


def is_expression(raw: object) -> bool:
    """Whether the `limit` of a rule's document is an expression, so that alerts carry its value."""
    return isinstance(raw, str) and not _NUMBER.fullmatch(raw)


class _Parser:
    """Reads tokens from left to right; one method for each line of the grammar."""

    def __init__(
        self, text: str, schema: TransactionSchema, scope: Scope, has_role: bool, own: Digits = NO_DIGITS
    ) -> None:
        self._tokens = list(_tokens(text))
        self._schema = schema
        self._scope = scope
        self._has_role = has_role
        self._own = own
        self._next = 0
        self.needs = Needs()

    def whole(self) -> Expression:
        found = self.expression()
        self.expect("end", "")
        return found

    def expression(self) -> Expression:
        parts = [self.conjunction()]
        while self.accept("word", "or"):
            parts.append(self.conjunction())
        return any_of(parts) if len(parts) > 1 else parts[0]

    def conjunction(self) -> Expression:
        parts = [self.factor()]
        while self.accept("word", "and"):
            parts.append(self.factor())
        return all_of(parts) if len(parts) > 1 else parts[0]

    def factor(self) -> Expression:
        return negated(self.factor()) if self.accept("word", "not") else self.comparison()

    def comparison(self) -> Expression:
        left = self.sum()
        if self.accept("word", "is"):
            negates = self.accept("word", "not")
            self.expect("word", "null")
            return negated(is_null(left)) if negates else is_null(left)
        negates = self.accept("word", "not")
        if self.accept("word", "between"):
            found = self.between(left)
        elif self.accept("word", "in"):
            found = self.listed(left) if self.accept("word", "list") else self.membership(left)
        elif self.accept("word", "like"):
            require_field(left)
            found = functions.like(left, self.text())
        elif negates:
            raise FilterRefused("`not` is followed by neither `between`, `in` nor `like`")
        else:
            kind, sign = self._tokens[self._next]
            if kind != "sign" or sign not in COMPARE:
                return left
            self._next += 1
            found = compared(left, sign, self.sum())
        return negated(found) if negates else found

    def between(self, left: Expression) -> Expression:
        low = self.sum()
        self.expect("word", "and")
        return all_of([compared(left, ">=", low), compared(left, "<=", self.sum())])

    def membership(self, left: Expression) -> Expression:
        require_field(left)
        if left.kind is Kind.BOOLEAN:
            raise FilterRefused("`in` is for numbers, texts and timestamps")
        self.expect("sign", "(")
        equal = [compared(left, "=", self.literal())]
        while self.accept("sign", ","):
            equal.append(compared(left, "=", self.literal()))
        self.expect("sign", ")")
        return any_of(equal)

    def listed(self, left: Expression) -> Expression:
        require_field(left)
        self.expect("sign", "(")
        name = self.text()
        self.expect("sign", ")")
        return lookups.in_list(left, name, self._scope, self.needs)

    def sum(self) -> Expression:
        left = self.product()
        while sign := self.sign("+", "-"):
            left = arithmetic(left, sign, self.product())
        return left

    def product(self) -> Expression:
        left = self.unary()
        while sign := self.sign("*", "/"):
            left = arithmetic(left, sign, self.unary())
        return left

    def unary(self) -> Expression:
        return negative(self.unary()) if self.accept("sign", "-") else self.primary()

    def primary(self) -> Expression:
        if self.accept("sign", "("):
            inner = self.expression()
            self.expect("sign", ")")
            return inner
        kind, text = self._tokens[self._next]
        if kind != "word":
            return self.literal()
        self._next += 1
        if text.lower() in ("true", "false"):
            return literal_of(text.lower() == "true")
        if text.lower() in RESERVED:
            raise FilterRefused(f"{text} is a reserved word")
        if self.accept("sign", "("):
            return self.function(text.lower())
        if text == "role" and self._has_role:
            return lookups.role(self.needs)
        field = next((each for each in self._schema.fields if text in (each.name, *each.aliases)), None)
        if field is None:
            raise FilterRefused(f"{text} is not declared")
        return field_of(field)

    def function(self, name: str) -> Expression:
        """The arguments of a function, after its parenthesis."""
        if name in ("map", "map_text"):
            return self.lookup(name)
        if name == "own":
            self.expect("sign", ")")
            return lookups.own(self._own, self._scope)
        arguments = [self.expression()]
        while self.accept("sign", ","):
            arguments.append(self.expression())
        self.expect("sign", ")")
        if name == "previous":
            return lookups.previous(arguments, self._scope, self.needs)
        return functions.call(name, arguments)

    def lookup(self, function: str) -> Expression:
        """The value of a key in a map, with the name of the map first."""
        name = self.text()
        self.expect("sign", ",")
        key = self.expression()
        self.expect("sign", ")")
        return lookups.in_map(function, name, key, self._scope, self.needs)

    def literal(self) -> Expression:
        if self.accept("sign", "-"):
            return negative(literal_of(self.number()))
        kind, _ = self._tokens[self._next]
        return literal_of(self.text() if kind == "text" else self.number())

    def number(self) -> Fraction:
        written = self.token("number")
        if len(written.replace(".", "")) > MOST_DIGITS:
            raise FilterRefused(f"{written} has more than {MOST_DIGITS} digits")
        return Fraction(Decimal(written))

    def text(self) -> str:
        return self.token("text")[1:-1].replace("''", "'")

    def token(self, kind: str) -> str:
        """The next token, of this kind."""
        found, text = self._tokens[self._next]
        if found != kind:
            raise FilterRefused(f"a {kind} is missing before {text!r}")
        self._next += 1
        return text

    def sign(self, *signs: str) -> str:
        """The next token if it is one of the signs, else an empty text."""
        return next((sign for sign in signs if self.accept("sign", sign)), "")

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
