"""A rule record as the oracle reads it.

The product's parser reads the members of the first two editions. This module reads the members of the third edition. It
hands the product a stand-in for the record, in which they are left out or replaced by members of an earlier edition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.model import rule as product
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Operator, RuleChange
from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.calendars import Calendar, CalendarWindow
from tests.support.oracle.filters import FilterRefused, Formula, Needs, Scope, is_expression, read_formula, read_limit
from tests.support.oracle.maps import MapChange, read_map
from tests.support.oracle.moments import zone_named
from tests.support.oracle.refusal import Refused
from tests.support.oracle.windows import FixedWindow, Window

Members: TypeAlias = Mapping[str, Any]

_LENGTHS = ("windowMinutes", "windowSeconds")
_REPLACED = frozenset({"rolloutPercent", "windowCalendar", "zone"})


@dataclass(frozen=True)
class Limits:
    """The settings that bound rules."""

    max_calendar_window: Calendar = Calendar.MONTH

    @classmethod
    def of(cls, settings: Members) -> Limits:
        """The limits in the settings of a recorded stream."""
        return cls(Calendar(settings.get("maxCalendarWindow", "MONTH")))


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over a window of rows that pass a filter, and its comparison with a limit.

    `says_limit` says whether alerts carry the limit, because it is an expression.
    """

    aggregate_function: AggregateFunction
    aggregate_field: str | None
    unique: tuple[str, ...]
    operator: Operator
    limit: Formula
    says_limit: bool
    window: Window
    filter: Formula | None


@dataclass(frozen=True)
class Baseline:
    """The aggregate of the time right before the window."""

    aggregate_function: AggregateFunction
    aggregate_field: str | None
    filter: Formula | None
    window_ms: int
    min_count: int
    deviations: bool


@dataclass(frozen=True)
class Rule:
    """A valid rule. `document` has the members of its record."""

    rule_id: int
    state: str
    grouping: tuple[str, ...]
    aggregate: Aggregate
    baseline: Baseline | None
    filter: Formula | None
    when: Formula | None
    cooldown_ms: int | None
    rollout_percent: int
    document: Members = field(repr=False)

    @property
    def baseline_ms(self) -> int:
        """The length of its baseline."""
        return self.baseline.window_ms if self.baseline is not None else 0

    @property
    def reach_ms(self) -> int:
        """How far back from a transaction its windows reach."""
        return self.aggregate.window.reach_ms + self.baseline_ms

    @cached_property
    def needs(self) -> Needs:
        """What the expressions of the rule read beside the row."""
        formulas = [self.when, self.aggregate.limit]
        return Needs.of([each.needs for each in formulas if each is not None])


Change: TypeAlias = RuleChange | Rule | MapChange
"""The content of a record. The product's `Rule` is none of its cases."""


def read_record(record: str, schema: TransactionSchema, limits: Limits) -> Change:
    """The content of a record of the rule log. Raises RuleRejected (a reason of the product) or Refused."""
    members = _members_of(record)
    if members is None or "listName" in members:
        change = parse_rule_record(record.encode(), schema, RuleLimits())
        return read_rule(change, change.document, schema, limits) if isinstance(change, product.Rule) else change
    if "mapName" in members:
        return read_map(members)
    stand_in = _stand_in(members, schema)
    text = record if stand_in == members else json.dumps(stand_in)
    change = parse_rule_record(text.encode(), schema, RuleLimits())
    if not isinstance(change, product.Rule):
        return change
    given = {name: value for name, value in change.document.items() if name in members}
    return read_rule(change, {**given, **_third_edition(members, stand_in)}, schema, limits)


def read_rule(plain: product.Rule, document: Members, schema: TransactionSchema, limits: Limits) -> Rule:
    """The rule of a document. The product has read `plain`, its stand-in. Raises Refused."""
    filter_text = document.get("filter")
    aggregate = Aggregate(
        plain.aggregate_function,
        plain.aggregate_field,
        plain.unique,
        plain.operator,
        read_limit(document["limit"], schema),
        is_expression(document["limit"]),
        _window(plain, document, limits),
        _filter(filter_text, schema),
    )
    baseline = _baseline(plain, document, schema)
    if baseline is not None and aggregate.says_limit:
        raise Refused("limit: a rule with a baseline has a number")
    return Rule(
        plain.rule_id,
        "SIGNAL" if document.get("ruleState") == "SIGNAL" else plain.state.value,
        plain.grouping,
        aggregate,
        baseline,
        _filter(filter_text, schema),
        read_formula(document["when"], schema, Scope.WHEN) if "when" in document else None,
        plain.cooldown_ms,
        _rollout_percent(document, plain.grouping),
        document,
    )


def whole(document: Members, name: str, least: int, greatest: int) -> int:
    """A member that is a whole number, as a JSON number or a text of one. Raises Refused."""
    raw = document[name]
    if isinstance(raw, str) and raw.lstrip("+-").isascii() and raw.lstrip("+-").isdigit():
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= greatest:
        raise Refused(f"{name}: {raw!r} is no whole number from {least} to {greatest}")
    return raw


def _members_of(record: str) -> dict[str, Any] | None:
    """The members of a JSON record that are not null; None for any other record."""
    try:
        found = json.loads(record, parse_float=str, object_pairs_hook=_object)
    except ValueError:
        return None
    return {name: value for name, value in found.items() if value is not None} if isinstance(found, dict) else None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def _stand_in(members: Members, schema: TransactionSchema) -> dict[str, Any]:
    """The record without the members of the third edition."""
    plain = {name: value for name, value in members.items() if name not in _REPLACED}
    if "windowCalendar" in members and not any(name in members for name in _LENGTHS):
        plain["windowMinutes"] = 1
    if is_expression(members.get("limit")):
        plain["limit"] = "0"
    if _reads_more(members.get("when"), schema, Scope.WHEN):
        del plain["when"]
    return plain


def _reads_more(text: Any, schema: TransactionSchema, scope: Scope) -> bool:
    """Whether an expression reads more than fields and lists. One that is refused is left to the product to refuse."""
    try:
        needs = read_formula(text, schema, scope).needs if isinstance(text, str) else Needs()
    except FilterRefused:
        return False
    return needs.reads_more


def _third_edition(members: Members, stand_in: Members) -> Members:
    """The members that the stand-in leaves out or replaces."""
    return {name: value for name, value in members.items() if name not in stand_in or stand_in[name] != value}


def _filter(text: Any, schema: TransactionSchema) -> Formula | None:
    """The filter of a text. An empty filter is none."""
    return read_formula(text, schema, Scope.FILTER) if text is not None and text.strip() else None


def _window(plain: product.Rule, document: Members, limits: Limits) -> Window:
    if "windowCalendar" not in document:
        if "zone" in document:
            raise Refused("zone: is for calendar windows")
        return FixedWindow(plain.window_ms)
    if any(name in document for name in _LENGTHS):
        raise Refused("windowCalendar: replaces windowMinutes and windowSeconds")
    if "baseline" in document:
        raise Refused("windowCalendar: a calendar window has no baseline")
    allowed = list(Calendar)[: list(Calendar).index(limits.max_calendar_window) + 1]
    calendar = next((each for each in allowed if each.value == document["windowCalendar"]), None)
    if calendar is None:
        raise Refused(f"windowCalendar: is one of {[each.value for each in allowed]}")
    return CalendarWindow(calendar, zone_named(str(document.get("zone", "UTC"))))


def _baseline(plain: product.Rule, document: Members, schema: TransactionSchema) -> Baseline | None:
    if plain.baseline is None:
        return None
    text = document["baseline"].get("filter", document.get("filter"))
    return Baseline(
        plain.baseline.aggregate_function,
        plain.baseline.aggregate_field,
        _filter(text, schema),
        plain.baseline.window_ms,
        plain.baseline.min_count,
        plain.baseline.deviations,
    )


def _rollout_percent(document: Members, grouping: tuple[str, ...]) -> int:
    if "rolloutPercent" not in document:
        return 100
    if not grouping:
        raise Refused("rolloutPercent: an empty grouping has one key")
    return whole(document, "rolloutPercent", 1, 100)
