"""Stand-ins for rule records: the product's parser reads the members of the first two editions from them.

The members of the third edition are left out, or replaced by members of an earlier edition, so that the oracle can read
them whether the product can or not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.filters import FilterRefused, Scope, is_expression, read_formula
from tests.support.oracle.rules.entities import Entity
from tests.support.oracle.rules.rule import Members

LENGTHS = ("windowMinutes", "windowSeconds")
WINDOW = (*LENGTHS, "windowCalendar", "zone")
OWN_AGGREGATE = frozenset(
    {
        "aggregatorFunctionType",
        "aggregateFieldName",
        "unique",
        "limitOperatorType",
        "limit",
        "baseline",
        "resolutionSeconds",
        *WINDOW,
    }
)
_LEFT_OUT = frozenset({"rolloutPercent", "windowCalendar", "zone", "conditions", "require", "resolutionSeconds"})
_NO_AGGREGATE = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 0, "windowMinutes": 1}


def members_of(record: str) -> dict[str, Any] | None:
    """The members of a JSON record that are not null; None for any other record."""
    try:
        found = json.loads(record, parse_float=str, object_pairs_hook=_object)
    except ValueError:
        return None
    return without_nulls(found) if isinstance(found, dict) else None


def without_nulls(members: Members) -> dict[str, Any]:
    """The members without those that are null: a null member is absent."""
    return {name: value for name, value in members.items() if value is not None}


def stand_in(members: Members, schema: TransactionSchema, entities: Sequence[Entity]) -> dict[str, Any]:
    """The record without the members of the third edition."""
    plain = {name: value for name, value in members.items() if name not in _LEFT_OUT}
    if plain.get("ruleState") == "SIGNAL":
        plain["ruleState"] = "ACTIVE"
    if not has_aggregate(members):
        plain |= _NO_AGGREGATE
    if "windowCalendar" in members and not any(name in members for name in LENGTHS):
        plain["windowMinutes"] = 1
    if "resolutionSeconds" in members:
        plain = _with_short_windows(plain)
        if isinstance(plain.get("baseline"), dict):
            plain["baseline"] = _with_short_windows(plain["baseline"])
    if is_expression(members.get("limit")):
        plain["limit"] = "0"
    names = plain.get("groupingKeyNames")
    named = [entity.name for entity in entities if isinstance(names, list) and entity.name in names]
    if named:
        plain["groupingKeyNames"] = [name for name in names if name not in named]
    _leave_out(plain, "when", schema, Scope.WHEN, has_role=bool(named))
    _leave_out(plain, "filter", schema, Scope.FILTER, has_role=bool(named))
    if isinstance(plain.get("baseline"), dict):
        plain["baseline"] = dict(plain["baseline"])
        _leave_out(plain["baseline"], "filter", schema, Scope.FILTER, has_role=bool(named))
    return plain


def restored(document: Members, members: Members, plain: Members) -> dict[str, Any]:
    """The record as the product normalizes it, with the members that the stand-in leaves out or replaces."""
    return {
        **{name: value for name, value in document.items() if name in members},
        **{name: value for name, value in members.items() if name not in plain or plain[name] != value},
    }


def has_aggregate(members: Members) -> bool:
    """Whether the rule has an aggregate of its own, or has to: it may only be left out beside conditions."""
    return "conditions" not in members or any(members.get(name, []) != [] for name in OWN_AGGREGATE)


def _with_short_windows(members: Members) -> dict[str, Any]:
    """The members with a window that is short enough for a rule without a resolution."""
    return {name: 1 if name in LENGTHS else value for name, value in members.items()}


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def _leave_out(members: dict[str, Any], name: str, schema: TransactionSchema, scope: Scope, *, has_role: bool) -> None:
    """Leave out an expression that reads more than fields and lists. The product refuses those that are refused."""
    text = members.get(name)
    if not isinstance(text, str):
        return
    try:
        needs = read_formula(text, schema, scope, has_role=has_role).needs
    except FilterRefused:
        return
    if needs.reads_more:
        del members[name]
