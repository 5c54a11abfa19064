"""The filter language: a grammar, and the checks that build a typed tree from a filter's text.

    paymentType = 'CSH' and (paymentAmount >= 100 or payeeId in (1, 2))

A filter names fields of the schema by name or alias. It can contain comparisons (`=`, `!=`, `<>`, `>=`, `<=`, `>`, `<`)
of a field with a literal or with another field, `in`, `not in`, `between`, `is null`, `is not null`, `and`, `or`, `not`
and parentheses; in `when`, also `in list('name')` and `not in list('name')`. Literals are numbers, quoted text, `true`
and `false`; a quote inside text is doubled. A timestamp is compared with epoch milliseconds, or with text such as
'2024-05-01T10:00:00Z', in the forms that payments may have (UTC unless the text has an offset). A boolean field is a
condition by itself, or is compared with `=` and `!=`. Keywords are not case-sensitive; names are. A filter is never
executed as code.

The length of a text, the depth of its parentheses and the number of its tokens are checked before it is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from typing import TypeAlias

from lark import Lark, Token, Transformer_NonRecursive, v_args
from lark.exceptions import UnexpectedEOF, UnexpectedInput, UnexpectedToken

from fraud_rules.codec.rules.lists import LIST_NAME
from fraud_rules.codec.scalar import format_timestamp, literal_hint, parse_timestamp
from fraud_rules.codec.text_form import normalized
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.predicate import (
    And,
    Comparison,
    FieldComparison,
    FieldRef,
    Flag,
    IsNull,
    ListMembership,
    Literal,
    Membership,
    Not,
    Or,
    Predicate,
)
from fraud_rules.model.schema import TIME_FIELD, FieldType, TransactionSchema
from fraud_rules.runtime.safe_text import is_unprintable, quote

__all__ = ["Predicate", "parse_filter"]

_GRAMMAR = r"""
?start: or_expr
?or_expr: and_expr (_OR and_expr)*              -> any_of
?and_expr: not_expr (_AND not_expr)*            -> all_of
?not_expr: _NOT not_expr                        -> negation
         | "(" or_expr ")"
         | condition
?condition: operand OPERATOR operand            -> comparison
          | operand _BETWEEN operand _AND operand      -> between
          | operand _NOT _BETWEEN operand _AND operand -> not_between
          | operand _IN "(" literals ")"        -> membership
          | operand _NOT _IN "(" literals ")"   -> not_membership
          | operand _IN _LIST "(" TEXT ")"      -> listed
          | operand _NOT _IN _LIST "(" TEXT ")" -> not_listed
          | operand _IS _NULL                   -> is_null
          | operand _IS _NOT _NULL              -> is_not_null
          | operand                             -> flag
literals: literal ("," literal)*
?operand: NAME                                  -> name
        | literal
?literal: NUMBER                                -> number
        | TEXT                                  -> text

_OR.2: /or(?![A-Za-z0-9_])/i
_AND.2: /and(?![A-Za-z0-9_])/i
_NOT.2: /not(?![A-Za-z0-9_])/i
_IN.2: /in(?![A-Za-z0-9_])/i
_LIST.2: /list(?=[ \t\r\n]*\()/i
_IS.2: /is(?![A-Za-z0-9_])/i
_NULL.2: /null(?![A-Za-z0-9_])/i
_BETWEEN.2: /between(?![A-Za-z0-9_])/i
OPERATOR: "=" | "!=" | "<>" | ">=" | "<=" | ">" | "<"
NAME: /(?!(and|or|not|between)(?![A-Za-z0-9_]))[A-Za-z_][A-Za-z0-9_]*/i
NUMBER: /[+-]?[0-9]+(\.[0-9]+)?(?![A-Za-z0-9_.])/
TEXT: /'([^']|'')*'/
%ignore /[ \t\r\n]+/
"""
_PARSER = Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)
_TOKEN = re.compile(r"'(?:[^']|'')*'|[A-Za-z0-9_.]+|[^\sA-Za-z0-9_.]")
_MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_EQUALITY = ("=", "!=")
_FINER = re.compile(r"\.[0-9]{3}[0-9]*[1-9]")
_NUMBERS = (FieldType.LONG, FieldType.DECIMAL)
_NOT_NUMERIC = (FieldType.STRING, FieldType.BOOLEAN)
_LISTED = (FieldType.LONG, FieldType.STRING)
_LIST_NAME = re.compile(LIST_NAME, re.ASCII)
_REMEMBERED_FILTERS = 512

LIST_MEMBER = "when"
"""The member of a rule whose condition may name lists."""

_BOOLEANS = {"true": True, "false": False}
_USES_OF_BOOLEANS = "it can be a condition by itself, or compared with true, false or a boolean field, with = or !="

Operand: TypeAlias = FieldRef | Decimal | str | bool | None
"""One side of a comparison; None for a name that is no declared field, after its problem was recorded."""


@lru_cache(_REMEMBERED_FILTERS)
def parse_filter(text: str, schema: TransactionSchema, limits: RuleLimits, member: str = "filter") -> Predicate:
    """Parse a filter into its typed tree.

    Raises RuleRejected with reasons for the member of the rule that has the text: the first broken bound, or the syntax
    error, or all problems with names and types. The last trees stay in memory, because most revisions of a rule keep
    its filter.
    """
    excess = _excess(text, limits)
    if excess is not None:
        raise RuleRejected([Reason(member, excess)])
    builder = _Builder(schema, limits, lists_allowed=member == LIST_MEMBER)
    try:
        tree = builder.transform(_PARSER.parse(text))
    except UnexpectedInput as error:
        problems = [_where(error, text), *_unknown_names(text, builder)]
        raise RuleRejected([Reason(member, problem) for problem in problems]) from error
    if builder.problems or tree is None:
        raise RuleRejected([Reason(member, problem) for problem in dict.fromkeys(builder.problems)])
    return tree


def _excess(text: str, limits: RuleLimits) -> str | None:
    """Check the text without parsing it. Returns the first reason for rejection, or None."""
    if not text.strip():
        return "is empty; leave it out to let every transaction pass"
    if len(text) > limits.max_filter_chars:
        return f"has {len(text)} characters, at most {limits.max_filter_chars} are allowed"
    if is_unprintable(text):
        return "contains a NUL or half of a surrogate pair"
    tokens = _TOKEN.findall(text)
    if len(tokens) > limits.max_filter_tokens:
        return f"has {len(tokens)} words and signs, at most {limits.max_filter_tokens} are allowed"
    steps = [1 if sign == "(" else -1 for sign in tokens if sign in "()"]
    deepest = max(accumulate(steps), default=0)
    if deepest > limits.max_filter_depth:
        return f"is nested {deepest} levels deep, at most {limits.max_filter_depth} are allowed"
    return None


def _where(error: UnexpectedInput, text: str) -> str:
    if isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END"):
        return "is incomplete"
    position = error.pos_in_stream or 0
    return f"cannot be read from character {position + 1} on: {quote(text[position:])}"


def _unknown_names(text: str, builder: _Builder) -> Iterator[str]:
    """Yield a problem for each name that is no declared field, up to the syntax error of the text."""
    parser = _PARSER.parse_interactive(text)
    with suppress(UnexpectedInput):
        for token in parser.lexer_thread.lex(parser.parser_state):  # type: ignore[no-untyped-call]
            parser.feed_token(token)
            if token.type == "NAME" and token.lower() not in ("in", "is"):
                builder.name(token)
    yield from dict.fromkeys(builder.problems)


@v_args(inline=True)
class _Builder(Transformer_NonRecursive[Token, Predicate | None]):
    """Builds typed nodes from grammar nodes, bottom up. It collects all problems instead of stopping at the first."""

    def __init__(self, schema: TransactionSchema, limits: RuleLimits, lists_allowed: bool) -> None:
        super().__init__()
        self._schema = schema
        self._limits = limits
        self._lists_allowed = lists_allowed
        self._lists: dict[str, FieldType] = {}
        self.problems: list[str] = []

    # Operands

    def name(self, token: Token) -> FieldRef | bool | None:
        declared = self._schema.field(str(token))
        if declared is None and token.lower() in _BOOLEANS:
            return _BOOLEANS[token.lower()]
        if declared is None and token.lower() == "null":
            self.problems.append("null cannot be compared; write `is null`")
            return None
        if declared is None:
            declared_names = ", ".join(self._schema.names)
            self.problems.append(
                f"{quote(str(token))} is not a declared field; the declared fields are {declared_names}"
            )
            return None
        scale = declared.scale if declared.type is FieldType.DECIMAL else 0
        return FieldRef(declared.name, declared.type, scale)

    def number(self, token: Token) -> Decimal:
        if sum(map(str.isdigit, token)) > self._limits.max_limit_digits:
            self.problems.append(f"{quote(str(token))} has more than {self._limits.max_limit_digits} digits")
            return Decimal(0)
        return _normal(Decimal(str(token)))

    def text(self, token: Token) -> str:
        return str(token)[1:-1].replace("''", "'")

    def literals(self, *items: Decimal | str) -> tuple[Decimal | str, ...]:
        return items

    # Conditions

    def comparison(self, left: Operand, sign: Token, right: Operand) -> Predicate | None:
        return self._compare(left, "!=" if sign == "<>" else str(sign), right)

    def flag(self, operand: Operand) -> Predicate | None:
        field = self._field(operand)
        if field is None:
            return None
        if field.type is not FieldType.BOOLEAN:
            problem = f"is incomplete: {field} is a {field.type}, and only a boolean field is a condition by itself"
            self.problems.append(problem)
        return Flag(field)

    def between(self, operand: Operand, low: Operand, high: Operand) -> Predicate | None:
        return self.all_of(self._compare(operand, ">=", low), self._compare(operand, "<=", high))

    def not_between(self, operand: Operand, low: Operand, high: Operand) -> Predicate | None:
        return self.negation(self.between(operand, low, high))

    def membership(self, operand: Operand, literals: tuple[Decimal | str, ...]) -> Predicate | None:
        return self._member(operand, literals, negated=False)

    def not_membership(self, operand: Operand, literals: tuple[Decimal | str, ...]) -> Predicate | None:
        return self._member(operand, literals, negated=True)

    def listed(self, operand: Operand, name: Token) -> Predicate | None:
        return self._listed(operand, self.text(name), negated=False)

    def not_listed(self, operand: Operand, name: Token) -> Predicate | None:
        return self._listed(operand, self.text(name), negated=True)

    def is_null(self, operand: Operand) -> Predicate | None:
        field = self._field(operand)
        return None if field is None else IsNull(field)

    def is_not_null(self, operand: Operand) -> Predicate | None:
        field = self._field(operand)
        return None if field is None else IsNull(field, negated=True)

    # Logic: these methods flatten `and` and `or` and remove double negations. More filters of the same meaning then
    # have the same tree, and the parentheses of a filter bound the depth of its tree.

    def any_of(self, *items: Predicate | None) -> Predicate | None:
        flat = [part for item in items if item for part in (item.items if isinstance(item, Or) else (item,))]
        return Or(tuple(flat)) if len(flat) > 1 else next(iter(flat), None)

    def all_of(self, *items: Predicate | None) -> Predicate | None:
        flat = [part for item in items if item for part in (item.items if isinstance(item, And) else (item,))]
        return And(tuple(flat)) if len(flat) > 1 else next(iter(flat), None)

    def negation(self, item: Predicate | None) -> Predicate | None:
        if item is None:
            return None
        return item.item if isinstance(item, Not) else Not(item)

    # Types

    def _compare(self, left: Operand, sign: str, right: Operand) -> Predicate | None:
        if left is None or right is None:
            return None
        if isinstance(left, FieldRef) and isinstance(right, FieldRef):
            return self._compare_fields(left, sign, right)
        if isinstance(left, FieldRef) and not isinstance(right, FieldRef):
            if left.type is FieldType.BOOLEAN or isinstance(right, bool):
                return self._compare_boolean(left, sign, right)
            literal = self._typed(left, right)
            return None if literal is None else Comparison(left, sign, literal)
        if isinstance(right, FieldRef):
            return self._compare(right, _MIRRORED.get(sign, sign), left)
        self.problems.append(f"{quote(_shown(left))} {sign} {quote(_shown(right))} contains no field")
        return None

    def _compare_boolean(self, field: FieldRef, sign: str, literal: Decimal | str | bool) -> Predicate | None:
        """Reduce the comparison to the field or its negation, which is unknown for the same rows."""
        if field.type is not FieldType.BOOLEAN or not isinstance(literal, bool):
            self._refuse_literal(field, literal)
            return None
        if sign not in _EQUALITY:
            self.problems.append(f"{field} is a {field.type}; {_USES_OF_BOOLEANS}")
            return None
        return Flag(field) if literal is (sign == "=") else Not(Flag(field))

    def _compare_fields(self, left: FieldRef, sign: str, right: FieldRef) -> Predicate | None:
        if FieldType.BOOLEAN is left.type is right.type and sign not in _EQUALITY:
            self.problems.append(f"{left} and {right} are of type boolean; {_USES_OF_BOOLEANS}")
            return None
        if left.type is right.type or (left.type in _NUMBERS and right.type in _NUMBERS):
            return FieldComparison(left, sign, right)
        self.problems.append(f"{left} ({left.type}) and {right} ({right.type}) cannot be compared")
        return None

    def _member(self, operand: Operand, literals: tuple[Decimal | str, ...], *, negated: bool) -> Predicate | None:
        field = self._field(operand)
        if field is None:
            return None
        typed = [self._typed(field, literal) for literal in literals]
        if None in typed:
            return None
        texts = sorted({literal for literal in typed if isinstance(literal, str)})
        numbers = sorted({literal for literal in typed if isinstance(literal, Decimal)})
        return Membership(field, (*texts, *numbers), negated)

    def _listed(self, operand: Operand, name: str, *, negated: bool) -> Predicate | None:
        field = self._field(operand)
        if not self._lists_allowed:
            self.problems.append(f"names the list {quote(name)}; lists are allowed in {LIST_MEMBER} only")
        if not _LIST_NAME.fullmatch(name):
            self.problems.append(f"{quote(name)} is not a list's name, which has the form {LIST_NAME}")
        elif field is not None and field.type not in _LISTED:
            self.problems.append(f"{field} is a {field.type}; lists have values of type {' or '.join(_LISTED)}")
        elif field is not None and self._lists.setdefault(name, field.type) is not field.type:
            self.problems.append(f"compares the list '{name}' with fields of two types")
        return None if field is None else ListMembership(field, name, negated)

    def _field(self, operand: Operand) -> FieldRef | None:
        if isinstance(operand, FieldRef) or operand is None:
            return operand
        self.problems.append(f"{quote(_shown(operand))} is a literal; a field is required here")
        return None

    def _typed(self, field: FieldRef, literal: Decimal | str) -> Literal | None:
        """Convert the literal to the field's type. Records a problem and returns None if this is impossible."""
        if field.type is FieldType.STRING and isinstance(literal, str):
            declared = self._schema.field(field.name)
            return normalized(literal, declared.normalize) if declared is not None else literal
        if field.type not in _NOT_NUMERIC and isinstance(literal, Decimal):
            return self._number(field, literal)
        if field.type is FieldType.TIMESTAMP and isinstance(literal, str):
            return self._timestamp(literal)
        self._refuse_literal(field, literal)
        return None

    def _refuse_literal(self, field: FieldRef, literal: Decimal | str | bool) -> None:
        uses = f"; {_USES_OF_BOOLEANS}" if field.type is FieldType.BOOLEAN else ""
        self.problems.append(f"{field} is a {field.type}, it cannot be compared with {quote(_shown(literal))}{uses}")

    def _number(self, field: FieldRef, literal: Decimal) -> Decimal:
        """Record a problem if a number is in another unit than the times of payments, which begin after 1970."""
        hint = literal_hint(int(literal)) if field.name == TIME_FIELD else ""
        if hint:
            self.problems.append(f"{literal:f} is {format_timestamp(int(literal))} in epoch milliseconds{hint}")
        return literal

    def _timestamp(self, text: str) -> Decimal | None:
        epoch_ms = parse_timestamp(text)
        if epoch_ms is None:
            self.problems.append(f"{quote(text)} is not a time such as 2024-05-01T10:00:00Z")
        elif _FINER.search(text):
            self.problems.append(f"{quote(text)} is finer than a millisecond")
        else:
            return _normal(Decimal(epoch_ms))
        return None


def _shown(operand: Operand) -> str:
    return str(operand).lower() if isinstance(operand, bool) else str(operand)


def _normal(number: Decimal) -> Decimal:
    """Remove trailing zeros, the exponent and a negative zero, so that equal numbers have the same text."""
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return Decimal(text) or Decimal(0)
