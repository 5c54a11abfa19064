"""Reads the members `conditions` and `require` of a rule: what must hold beside its own aggregate."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from fraud_rules.codec.rules.members import MemberReader
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.documents.rules import ConditionOfRuleDocument, members_of
from fraud_rules.model.expressions.expression import NO_DIGITS, Digits, Expression
from fraud_rules.model.rule import AggregateCondition, Condition, NamedRule, Operator
from fraud_rules.model.window import Window

_INHERITED: Final = ("aggregateFieldName", "filter")
_MEMBERS: Final = tuple(name for name in members_of(ConditionOfRuleDocument) if name != "ruleId")
_OF_AGGREGATE: Final = (*(name for name in _MEMBERS if name != "filter"), "baseline", "resolutionSeconds")
"""The members of a rule's own aggregate. All or none of them are left out."""


@dataclass(frozen=True, slots=True)
class AggregateMembers:
    """An aggregate and the limit that it is compared with, in a rule or a condition. An invalid member is None."""

    function: AggregateFunction | None
    field: str | None
    unique: tuple[str, ...]
    operator: Operator | None
    limit: Decimal | Expression | None
    window: Window | None


NO_AGGREGATE: Final = AggregateMembers(AggregateFunction.COUNT, None, (), Operator.GREATER_EQUAL, Decimal(0), Window(0))
"""In place of the own aggregate of a rule that has conditions only. It always holds."""


def read_own_aggregate(reader: MemberReader) -> AggregateMembers:
    """Read the own aggregate of a rule. Beside conditions, it may be left out."""
    if reader.has("conditions") and not reader.has_any(_OF_AGGREGATE):
        return NO_AGGREGATE
    return _read_aggregate(reader)


def read_conditions(
    reader: MemberReader, rule_id: int | None, own: AggregateMembers
) -> tuple[tuple[Condition, ...], int]:
    """Read the conditions, and the least number of them that must hold; 0 if none may hold. `rule_id` and `own` are the
    id and the own aggregate of the rule."""
    readers = reader.conditions(_INHERITED)
    digits = NO_DIGITS if own is NO_AGGREGATE else reader.own_digits(own.function, own.field)
    conditions = [_read_condition(each, digits) for each in readers]
    named = [each.rule_id for each in conditions if isinstance(each, NamedRule)]
    for members, each in zip(readers, conditions, strict=True):
        if isinstance(each, NamedRule):
            _check_name(members, each.rule_id, rule_id, own.function, named)
        reader.add_reasons(members)
    return tuple(each for each in conditions if each is not None), reader.required(len(readers))


def _check_name(
    members: MemberReader, named: int, rule_id: int | None, function: AggregateFunction | None, all_named: list[int]
) -> None:
    if named == rule_id:
        members.reject("ruleId", "names the rule itself")
    elif all_named.count(named) > 1:
        members.reject("ruleId", f"names rule {named} twice")
    elif function is AggregateFunction.COUNT_WITH_RESET:
        members.reject("ruleId", f"cannot name a rule beside {function}")


def _read_condition(members: MemberReader, own: Digits) -> Condition | None:
    if members.has("ruleId"):
        members.reject_beside("ruleId")
        named = members.rule_id()
        return None if named is None else NamedRule(named)
    members.reject_unknown(_MEMBERS)
    found, row_filter = _read_aggregate(members, own), members.filter()
    function, operator, limit, window = found.function, found.operator, found.limit, found.window
    if function is AggregateFunction.COUNT_WITH_RESET:
        members.reject("aggregatorFunctionType", f"must be another function in a condition, not {function}")
    if function is None or operator is None or limit is None or window is None:
        return None
    return AggregateCondition(function, found.field, found.unique, operator, limit, window, row_filter)


def _read_aggregate(members: MemberReader, own: Digits | None = None) -> AggregateMembers:
    """Read an aggregate. `own` has the digits of the rule's own one, if the limit may read it."""
    function = members.aggregate_function()
    field, unique = members.aggregate_field(function), members.unique(function)
    return AggregateMembers(function, field, unique, members.operator(), members.limit(own), members.window())
