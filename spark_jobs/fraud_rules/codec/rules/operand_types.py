"""Checks the types of operands: literals, fields, arithmetic and functions. `condition_types` has the conditions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Final, NamedTuple, TypeVar

from lark import Token, Transformer_NonRecursive, v_args

from fraud_rules.codec.rules.collections.records import COLLECTION_NAME
from fraud_rules.codec.scalar import (
    TIMESTAMP_MAX_MS,
    TIMESTAMP_MIN_MS,
    format_timestamp,
    literal_hint,
    parse_timestamp,
)
from fraud_rules.codec.text_form import normalized
from fraud_rules.model.expressions.expression import (
    MAX_DIGITS,
    Arithmetic,
    Constant,
    Digits,
    Expression,
    ExpressionType,
    FieldRef,
    Negation,
)
from fraud_rules.model.expressions.functions import FUNCTIONS, Function, FunctionCall, Parameter, Setting
from fraud_rules.model.expressions.lookups import MAP_FUNCTIONS, ListMembership, MapLookup
from fraud_rules.model.expressions.own import OWN, OWN_COLUMN, OwnValue
from fraud_rules.model.expressions.predicate import value_of_condition
from fraud_rules.model.expressions.previous import PREVIOUS, PreviousValue
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.schema import ROLE, TIME_FIELD, TransactionSchema
from fraud_rules.model.value_list import CollectionKind, CollectionName, ListType
from fraud_rules.model.value_map import MapType
from fraud_rules.runtime.safe_text import quote
from fraud_rules.runtime.zones import is_zone

JUDGED_MEMBERS: Final = ("when", "limit")
"""The members of a rule, and of its conditions, whose expressions are computed once for a transaction, so that they may
look values up in lists and maps, and read the previous payment."""

USES_OF_BOOLEANS: Final = (
    "it can be a condition by itself, or compared with true, false or a boolean field, with = or !="
)

_FINER: Final = re.compile(r"\.[0-9]{3}[0-9]*[1-9]")
_BOOLEANS: Final = {"true": True, "false": False}
_RESERVED: Final = "like"
_MAX_SUGGESTIONS: Final = 5
_MAX_NAME_CHARS: Final = 64
_TIMES: Final = " or two timestamps"
_COLLECTION_NAME: Final = re.compile(COLLECTION_NAME, re.ASCII)


Node = TypeVar("Node", bound=Expression)
LookupNode = TypeVar("LookupNode", ListMembership, MapLookup)


class Part(NamedTuple):
    """A part of a text: its expression, and the position of its first character. The expression is None if it has a
    problem."""

    node: Expression | None
    at: int


@v_args(inline=True)
class OperandBuilder(Transformer_NonRecursive[Token, Part]):
    """Builds typed nodes from grammar nodes, bottom up. It collects all problems instead of stopping at the first."""

    def __init__(
        self, schema: TransactionSchema, limits: RuleLimits, is_judged_once: bool, own: Digits | None = None
    ) -> None:
        """`is_judged_once`: whether the text belongs to one of `JUDGED_MEMBERS`. `own` has the digits of the rule's own
        aggregate, in a text that may read it."""
        super().__init__()
        self._own = own
        self._schema = schema
        self._is_judged_once = is_judged_once
        self._named: dict[CollectionName, ListType | MapType] = {}
        self._limits = limits
        self._positions: dict[str, int] = {}
        self._suggestions = 0

    @property
    def problems(self) -> list[str]:
        """All problems in order, each once with the position of its first occurrence."""
        return [f"{message} (at character {at + 1})" for message, at in self._positions.items()]

    # Operands

    def name(self, token: Token) -> Part:
        at, word = token.start_pos or 0, token.lower()
        declared = self._schema.field(str(token))
        is_reserved = not self._limits.has_old_forms or declared is None
        if word in _BOOLEANS and is_reserved:
            return Part(Constant(_BOOLEANS[word], ExpressionType.BOOLEAN), at)
        if word == _RESERVED and is_reserved:
            self._problem(f"{quote(str(token))} is a word of the language, so it cannot name a field", at)
        elif declared is not None:
            return Part(FieldRef(declared.name, declared.type, declared.scale, declared.precision), at)
        elif word == "null":
            self._problem("null cannot be compared; write `is null`", at)
        else:
            names = [name for field in self._schema.fields for name in field.member_names]
            self._unknown(token, "a declared field", names, f"the declared fields are {', '.join(self._schema.names)}")
        return Part(None, at)

    def number(self, token: Token) -> Part:
        at = token.start_pos or 0
        if sum(map(str.isdigit, token)) > self._limits.max_limit_digits:
            self._problem(f"{quote(str(token))} has more than {self._limits.max_limit_digits} digits", at)
            return Part(None, at)
        return Part(Constant(_normal(Decimal(str(token))), ExpressionType.NUMBER), at)

    def negative_number(self, sign: Token, token: Token) -> Part:
        return self.negative(sign, self.number(token))

    def positive_number(self, sign: Token, token: Token) -> Part:
        """A number with a plus, which only earlier editions of the language allowed."""
        at = sign.start_pos or 0
        if not self._limits.has_old_forms:
            self._problem(f"{quote(sign + token)} has a plus; write the number without it", at)
        return self.number(token)._replace(at=at)

    def text(self, token: Token) -> Part:
        return Part(Constant(text_of(token), ExpressionType.TEXT), token.start_pos or 0)

    def literals(self, *parts: Part) -> tuple[Part, ...]:
        return parts

    # Arithmetic

    def negative(self, sign: Token, part: Part) -> Part:
        at = sign.start_pos or 0
        node = self._number_for("-", part)
        if isinstance(node, Constant):
            return Part(Constant(_normal(Decimal(node.value).copy_negate()), ExpressionType.NUMBER), at)
        if node is None:
            return Part(None, at)
        return Part(node.item if isinstance(node, Negation) else Negation(node), at)

    def arithmetic(self, left: Part, sign: Token, right: Part) -> Part:
        if left.node is None or right.node is None:
            return Part(None, left.at)
        if sign == "-" and ExpressionType.TIMESTAMP in (left.node.kind, right.node.kind):
            a, b = self._time_beside(left, right.node), self._time_beside(right, left.node)
        else:
            a, b = self._number_for(sign, left), self._number_for(sign, right)
        if a is None or b is None:
            return Part(None, left.at)
        return self._within_digits(Arithmetic(a, str(sign), b), left.at)

    def call(self, token: Token, *arguments: Part) -> Part:
        name, at = token.lower(), token.start_pos or 0
        if name in MAP_FUNCTIONS:
            return self._map(name, arguments, at)
        if name == PREVIOUS:
            return Part(self._previous(arguments, at), at)
        if name == OWN:
            return Part(self._own_value(arguments, at), at)
        function = self.function(token)
        if function is None or any(part.node is None for part in arguments):
            return Part(None, at)
        parameters = function.parameters
        required = sum(each.default is None for each in parameters)
        if not required <= len(arguments) <= len(parameters):
            self._problem(f"{name}({function.signature}) cannot have {len(arguments)} arguments", at)
            return Part(None, at)
        pairs = list(zip(parameters, arguments, strict=False))
        settings = [self._setting(name, each, part) for each, part in pairs if each.literal is not None]
        settings += [each.default for each in parameters[len(arguments) :]]
        operands = self._operands(name, [(each, part) for each, part in pairs if each.literal is None])
        if operands is None or None in settings:
            return Part(None, at)
        call = FunctionCall(name, operands, tuple(each for each in settings if each is not None))
        return self._within_digits(call, at)

    def function(self, token: Token) -> Function | None:
        """The function of this name. Records a problem and returns None if there is no such function."""
        others = (*MAP_FUNCTIONS, PREVIOUS, OWN)
        found, names = FUNCTIONS.get(token.lower()), (*FUNCTIONS, *others)
        if found is None and token.lower() not in others:
            self._unknown(token, "a function", names, f"the functions are {', '.join(names)}")
        return found

    # The previous payment

    def _previous(self, arguments: Sequence[Part], at: int) -> PreviousValue | None:
        if len(arguments) != 1:
            self._problem(f"{PREVIOUS}(field) cannot have {len(arguments)} arguments", at)
            return None
        node = arguments[0].node
        if not self._is_judged_once:
            self._problem(f"reads the {PREVIOUS} payment, which is allowed in {' and '.join(JUDGED_MEMBERS)} only", at)
        if node is not None and not isinstance(node, FieldRef):
            self._problem(f"{PREVIOUS} needs a declared field, not {shown(node)}", arguments[0].at)
            return None
        if node is not None and self._schema.row_entity is not None and node.name == ROLE:
            self._problem(f"{PREVIOUS} needs a field of the payment, not its {ROLE}", arguments[0].at)
            return None
        return None if node is None else PreviousValue(node)

    # The own aggregate

    def _own_value(self, arguments: Sequence[Part], at: int) -> OwnValue | None:
        if arguments:
            self._problem(f"{OWN_COLUMN} has no arguments", at)
        if self._own is None:
            self._problem(f"{OWN_COLUMN} is allowed in the limit of a condition only", at)
            return None
        return OwnValue(self._own)

    # Look-ups

    def _map(self, name: str, arguments: Sequence[Part], at: int) -> Part:
        if len(arguments) != 2:
            self._problem(f"{name}('name', key) cannot have {len(arguments)} arguments", at)
            return Part(None, at)
        named, key = arguments
        if named.node is None:
            return Part(None, at)
        if not isinstance(named.node, Constant) or not isinstance(named.node.value, str):
            self._problem(f"{name} needs the name of a map as text, not {shown(named.node)}", named.at)
            return Part(None, at)
        if key.node is not None:
            key = Part(value_of_condition(key.node), key.at)
        of = partial(MapLookup, value_type=MAP_FUNCTIONS[name])
        return Part(self._lookup(CollectionKind.MAP, named.node.value, named.at, key, of), at)

    def _lookup(
        self, kind: CollectionKind, name: str, at: int, item: Part, of: Callable[[Expression, str], LookupNode]
    ) -> LookupNode | None:
        """The look-up of an item in a list or map; None with a problem."""
        node = item.node
        if not self._is_judged_once:
            self._problem(
                f"names the {kind} {quote(name)}; {kind}s are allowed in {' and '.join(JUDGED_MEMBERS)} only", at
            )
        if not _COLLECTION_NAME.fullmatch(name):
            self._problem(f"{quote(name)} is not a {kind}'s name, which has the form {COLLECTION_NAME}", at)
            return None
        if node is None:
            return None
        if node.kind not in (ExpressionType.NUMBER, ExpressionType.TEXT) or node.digits.after:
            members = "values" if kind is CollectionKind.LIST else "keys"
            self._problem(f"{with_type(node)}; {kind}s have {members} of type {' or '.join(ListType)}", item.at)
            return None
        lookup = of(node, name)
        if self._named.setdefault(lookup.collection, lookup.type) != lookup.type:
            self._problem(f"uses the {kind} '{name}' with two types", at)
            return None
        return lookup

    # Types of operands

    def quantity(self, part: Part) -> Expression | None:
        """The part as a number; None with a problem."""
        node, at = part
        if node is not None and node.kind is not ExpressionType.NUMBER:
            self._problem(f"{with_type(node)}; a number is required here", at)
            return None
        return node

    def _number_for(self, sign: str, part: Part) -> Expression | None:
        node, at = part
        if node is not None and node.kind is not ExpressionType.NUMBER:
            self._problem(f"{with_type(node)}; {sign} needs numbers{_TIMES if sign == '-' else ''}", at)
            return None
        return node

    def _operands(self, name: str, pairs: Sequence[tuple[Parameter, Part]]) -> tuple[Expression, ...] | None:
        """The arguments of a function that are expressions; None with a problem."""
        nodes = [value_of_condition(part.node) for _, part in pairs if part.node is not None]
        if all(parameter.kind is None for parameter, _ in pairs):
            return self._alike(name, nodes, [part.at for _, part in pairs])
        fitting = True
        for (parameter, part), node in zip(pairs, nodes, strict=True):
            if node.kind is not parameter.kind:
                self._problem(f"{with_type(node)}; {name} needs a {parameter.kind} as {parameter.name}", part.at)
                fitting = False
        return tuple(nodes) if fitting else None

    def _alike(self, name: str, nodes: Sequence[Expression], at: Sequence[int]) -> tuple[Expression, ...] | None:
        """Arguments of one type. A literal beside a timestamp is a time."""
        if ExpressionType.TIMESTAMP in (each.kind for each in nodes):
            others = (*nodes[1:], nodes[0])
            pairs = zip(nodes, at, others, strict=True)
            times = [self._time_beside(Part(node, place), other) for node, place, other in pairs]
            return tuple(each for each in times if each is not None) if None not in times else None
        if len({each.kind for each in nodes}) > 1:
            self._problem(
                f"{' and '.join(map(with_type_in_brackets, nodes))} are of two types; {name} needs one", at[0]
            )
            return None
        return tuple(self._normalized(node, other) for node, other in zip(nodes, reversed(nodes), strict=True))

    def _setting(self, name: str, parameter: Parameter, part: Part) -> Setting | None:
        """The value of a parameter that is a literal; None with a problem."""
        value = part.node.value if isinstance(part.node, Constant) else None
        if not parameter.literal:
            if isinstance(value, str) and is_zone(value):
                return value
            wrong = "needs the name of a time zone, such as 'Europe/Berlin'"
        else:
            if isinstance(value, Decimal) and value == value.to_integral_value() and int(value) in parameter.literal:
                return int(value)
            wrong = f"needs a whole number from {parameter.literal[0]} to {parameter.literal[-1]} as {parameter.name}"
        self._problem(f"{name} {wrong}, not {'' if part.node is None else shown(part.node)}", part.at)
        return None

    def _within_digits(self, node: Expression, at: int) -> Part:
        before, after = node.digits
        if before + after <= MAX_DIGITS:
            return Part(node, at)
        digits = f"{before + after} digits, {before} before and {after} after the point"
        self._problem(f"{shown(node)} can have {digits}; at most {MAX_DIGITS} are allowed", at)
        return Part(None, at)

    # Literals

    def _beside(self, literal: Constant, other: Expression, at: int) -> Constant | None:
        """Convert a literal to the type of the expression beside it. Records a problem and returns None if this is
        impossible."""
        value = literal.value
        if other.kind is ExpressionType.TIMESTAMP and not isinstance(value, bool):
            return self._time(value, other, at)
        if literal.kind is not other.kind or other.kind is ExpressionType.BOOLEAN:
            self._refuse_literal(other, literal, at)
            return None
        return self._normalized(literal, other)

    def _normalized(self, node: Node, other: Expression) -> Node | Constant:
        """A text literal beside a field, also of the previous payment, in the form of the field's texts. Every other
        expression stays as it is."""
        named = other.item if isinstance(other, PreviousValue) else other
        declared = self._schema.field(named.name) if isinstance(named, FieldRef) else None
        if declared is None or not isinstance(node, Constant) or not isinstance(node.value, str):
            return node
        return Constant(normalized(node.value, declared.normalize), node.kind)

    def _time(self, value: Decimal | str, other: Expression, at: int) -> Constant | None:
        if isinstance(value, Decimal):
            # Another unit than that of the times of payments, which begin after 1970.
            hint = literal_hint(int(value)) if isinstance(other, FieldRef) and other.name == TIME_FIELD else ""
            if hint:
                self._problem(f"{value:f} is {format_timestamp(int(value))} in epoch milliseconds{hint}", at)
            if value != value.to_integral_value() and not self._limits.has_old_forms:
                self._problem(f"{value:f} is no whole number of milliseconds", at)
            return Constant(value, ExpressionType.TIMESTAMP)
        epoch_ms = parse_timestamp(value)
        if epoch_ms is None:
            self._problem(f"{quote(value)} is not a time such as 2024-05-01T10:00:00Z", at)
            return None
        if _FINER.search(value):
            self._problem(f"{quote(value)} is finer than a millisecond", at)
            return None
        return Constant(_normal(Decimal(epoch_ms)), ExpressionType.TIMESTAMP)

    def _time_beside(self, part: Part, other: Expression) -> Expression | None:
        """The timestamp of a part beside another expression, of which one is a timestamp."""
        node = part.node
        if isinstance(node, Constant) and other.kind is ExpressionType.TIMESTAMP:
            node = self._beside(node, other, part.at)
            if node is None:
                return None
            whole = Decimal(node.value)
            if whole == whole.to_integral_value() and TIMESTAMP_MIN_MS <= whole <= TIMESTAMP_MAX_MS:
                return node
            self._problem(f"{whole:f} is no time in epoch milliseconds", part.at)
            return None
        if node is not None and node.kind is not ExpressionType.TIMESTAMP:
            self._problem(f"{with_type_in_brackets(node)} and {with_type_in_brackets(other)} are of two types", part.at)
            return None
        return node

    def _refuse_literal(self, value: Expression, literal: Constant, at: int) -> None:
        uses = f"; {USES_OF_BOOLEANS}" if value.kind is ExpressionType.BOOLEAN else ""
        self._problem(f"{with_type(value)}, it cannot be compared with {shown(literal)}{uses}", at)

    # Problems

    def _unknown(self, token: Token, what: str, names: Sequence[str], otherwise: str) -> None:
        self._suggestions += 1
        by_word = {name.lower(): name for name in names}
        word = token.lower()[:_MAX_NAME_CHARS]
        similar = difflib.get_close_matches(word, by_word, n=1) if self._suggestions <= _MAX_SUGGESTIONS else []
        hint = f"did you mean {by_word[similar[0]]}?" if similar else otherwise
        self._problem(f"{quote(str(token))} is not {what}; {hint}", token.start_pos or 0)

    def _problem(self, message: str, at: int) -> None:
        self._positions.setdefault(message, at)


def text_of(token: Token) -> str:
    """The text of a text literal."""
    return str(token)[1:-1].replace("''", "'")


def shown(node: Expression) -> str:
    """An expression in a message: the name of a field, otherwise quoted text."""
    if isinstance(node, FieldRef):
        return str(node)
    return quote(node.value if isinstance(node, Constant) and isinstance(node.value, str) else str(node))


def with_type(node: Expression) -> str:
    """An expression and its type in a message."""
    return f"{shown(node)} is a {_type_name(node)}"


def with_type_in_brackets(node: Expression) -> str:
    """An expression and its type in a message that names two."""
    return f"{shown(node)} ({_type_name(node)})"


def _type_name(node: Expression) -> str:
    return node.type.value if isinstance(node, FieldRef) else node.kind.value


def _normal(number: Decimal) -> Decimal:
    """Remove trailing zeros, the exponent and a negative zero, so that equal numbers have the same text."""
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return Decimal(text) or Decimal(0)
