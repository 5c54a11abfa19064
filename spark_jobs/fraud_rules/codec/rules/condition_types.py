"""Checks the types of conditions, and builds the typed tree of a text. `operand_types` has their operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Final

from lark import Token, v_args

from fraud_rules.codec.rules.operand_types import (
    USES_OF_BOOLEANS,
    OperandBuilder,
    Part,
    shown,
    text_of,
    with_type,
    with_type_in_brackets,
)
from fraud_rules.model.expressions.expression import Constant, Expression, ExpressionType
from fraud_rules.model.expressions.lookups import ListMembership
from fraud_rules.model.expressions.predicate import (
    And,
    Comparison,
    IsNull,
    Like,
    Membership,
    Not,
    Or,
    Predicate,
    truth_of,
    value_of_condition,
)
from fraud_rules.model.expressions.text_pattern import like_expression
from fraud_rules.model.value_list import CollectionKind
from fraud_rules.runtime.safe_text import quote

_MIRRORED: Final = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_EQUALITY: Final = ("=", "!=")


@v_args(inline=True)
class ConditionBuilder(OperandBuilder):
    """Builds typed nodes from grammar nodes, bottom up. It collects all problems instead of stopping at the first."""

    def condition(self, part: Part) -> Predicate | None:
        """The part as a condition; None with a problem."""
        node, at = part
        if node is None:
            return None
        if isinstance(node, Constant):
            self._problem(f"{shown(node)} is a literal; a field is required here", at)
            return None
        if node.kind is not ExpressionType.BOOLEAN:
            uses = "only a boolean field is a condition by itself"
            self._problem(f"is incomplete: {with_type(node)}, and {uses}", at)
            return None
        return truth_of(node) if self._names_field(node, at) else None

    # Conditions

    def comparison(self, left: Part, sign: Token, right: Part) -> Part:
        return Part(self._compare(left, "!=" if sign == "<>" else str(sign), right), left.at)

    def between(self, part: Part, low: Part, high: Part) -> Part:
        least, most = self._compare(part, ">=", low), self._compare(part, "<=", high)
        return Part(None if least is None or most is None else _joined(And, (least, most)), part.at)

    def not_between(self, part: Part, low: Part, high: Part) -> Part:
        return self.negation(self.between(part, low, high))

    def membership(self, part: Part, literals: tuple[Part, ...]) -> Part:
        return Part(self._member(part, literals, negated=False), part.at)

    def not_membership(self, part: Part, literals: tuple[Part, ...]) -> Part:
        return Part(self._member(part, literals, negated=True), part.at)

    def listed(self, part: Part, name: Token) -> Part:
        return Part(self._listed(part, name, negated=False), part.at)

    def not_listed(self, part: Part, name: Token) -> Part:
        return Part(self._listed(part, name, negated=True), part.at)

    def like(self, part: Part, pattern: Token) -> Part:
        return Part(self._like(part, pattern, negated=False), part.at)

    def not_like(self, part: Part, pattern: Token) -> Part:
        return Part(self._like(part, pattern, negated=True), part.at)

    def is_null(self, part: Part) -> Part:
        node = self._subject(part)
        return Part(None if node is None else IsNull(node), part.at)

    def is_not_null(self, part: Part) -> Part:
        node = self._subject(part)
        return Part(None if node is None else IsNull(node, negated=True), part.at)

    # Logic: these methods flatten `and` and `or` and remove double negations. More filters of the same meaning then
    # have the same tree, and the parentheses of a filter bound the depth of its tree.

    def any_of(self, *parts: Part) -> Part:
        return self._combined(Or, parts)

    def all_of(self, *parts: Part) -> Part:
        return self._combined(And, parts)

    def negation(self, part: Part) -> Part:
        item = self.condition(part)
        if item is None:
            return Part(None, part.at)
        return Part(item.item if isinstance(item, Not) else Not(item), part.at)

    def _combined(self, kind: type[And | Or], parts: Sequence[Part]) -> Part:
        items = [self.condition(part) for part in parts]
        valid = [item for item in items if item is not None]
        return Part(_joined(kind, valid) if len(valid) == len(items) else None, parts[0].at)

    # Types of conditions

    def _compare(self, left: Part, sign: str, right: Part) -> Predicate | None:
        a, b = left.node, right.node
        if a is None or b is None:
            return None
        if not a.fields and not b.fields:
            self._problem(f"{shown(a)} {sign} {shown(b)} contains no field", left.at)
            return None
        if isinstance(a, Constant):
            return self._compare(right, _MIRRORED.get(sign, sign), left)
        a, b = value_of_condition(a), value_of_condition(b)
        if isinstance(b, Constant):
            if a.kind is ExpressionType.BOOLEAN or b.kind is ExpressionType.BOOLEAN:
                return self._compare_boolean(a, sign, b, right.at)
            literal = self._beside(b, a, right.at)
            return None if literal is None else Comparison(a, sign, literal)
        if a.kind is not b.kind:
            self._problem(f"{with_type_in_brackets(a)} and {with_type_in_brackets(b)} cannot be compared", left.at)
            return None
        if a.kind is ExpressionType.BOOLEAN and sign not in _EQUALITY:
            self._problem(f"{shown(a)} and {shown(b)} are of type boolean; {USES_OF_BOOLEANS}", left.at)
            return None
        return Comparison(a, sign, b)

    def _compare_boolean(self, value: Expression, sign: str, literal: Constant, at: int) -> Predicate | None:
        """Reduce the comparison to the value or its negation, which is unknown for the same rows."""
        if value.kind is not ExpressionType.BOOLEAN or not isinstance(literal.value, bool):
            self._refuse_literal(value, literal, at)
            return None
        if sign not in _EQUALITY:
            self._problem(f"{with_type(value)}; {USES_OF_BOOLEANS}", at)
            return None
        condition = truth_of(value)
        if literal.value is (sign == "="):
            return condition
        return condition.item if isinstance(condition, Not) else Not(condition)

    def _member(self, part: Part, literals: Iterable[Part], *, negated: bool) -> Predicate | None:
        node = self._subject(part)
        if node is None:
            return None
        typed = [self._beside(each.node, node, each.at) for each in literals if isinstance(each.node, Constant)]
        values = [None if each is None else each.value for each in typed]
        if None in values or not values:
            return None
        texts = sorted({value for value in values if isinstance(value, str)})
        numbers = sorted({value for value in values if isinstance(value, Decimal)})
        return Membership(node, (*texts, *numbers), negated)

    def _listed(self, part: Part, token: Token, *, negated: bool) -> Predicate | None:
        item, of = Part(self._subject(part), part.at), partial(ListMembership, negated=negated)
        return self._lookup(CollectionKind.LIST, text_of(token), token.start_pos or 0, item, of)

    def _like(self, part: Part, token: Token, *, negated: bool) -> Predicate | None:
        node, pattern = self._subject(part), text_of(token)
        try:
            like_expression(pattern)
        except ValueError as error:
            self._problem(f"the pattern {quote(pattern)} {error}", token.start_pos or 0)
            return None
        if node is None:
            return None
        if node.kind is not ExpressionType.TEXT:
            self._problem(f"{with_type(node)}; like is for texts", part.at)
            return None
        return Like(node, pattern, negated)

    def _subject(self, part: Part) -> Expression | None:
        """The expression that a condition is about. It must name a field."""
        node, at = part
        if isinstance(node, Constant):
            self._problem(f"{shown(node)} is a literal; a field is required here", at)
            return None
        if node is None or not self._names_field(node, at):
            return None
        return value_of_condition(node)

    def _names_field(self, node: Expression, at: int) -> bool:
        if not node.fields:
            self._problem(f"{shown(node)} contains no field", at)
        return bool(node.fields)


def _joined(kind: type[And | Or], items: Iterable[Predicate]) -> Predicate:
    flat = [part for item in items for part in (item.items if isinstance(item, kind) else (item,))]
    return kind(tuple(flat))
