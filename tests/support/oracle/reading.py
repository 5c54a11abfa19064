"""A record of the rule log as the oracle reads it.

The product's parser reads the members of the first two editions. The oracle reads the members of the third edition. It
hands the product a stand-in for the record, in which they are left out or replaced by members of an earlier edition.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.errors import RuleRejected
from fraud_rules.model import rule as product
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import RuleChange
from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.calendars import Calendar, CalendarWindow
from tests.support.oracle.filters import Formula, Scope, is_expression, read_formula, read_limit
from tests.support.oracle.maps import MapChange, read_map
from tests.support.oracle.moments import zone_named
from tests.support.oracle.refusal import Refused
from tests.support.oracle.rules import Aggregate, Baseline, Limits, Members, NamedRule, Rule
from tests.support.oracle.stand_ins import LENGTHS, WINDOW, has_aggregate, members_of, restored, stand_in, without_nulls
from tests.support.oracle.windows import FixedWindow, Window

MOST_CONDITIONS = 8

Change: TypeAlias = RuleChange | Rule | MapChange
"""The content of a record. The product's `Rule` is none of its cases."""

_OF_A_CONDITION = frozenset(
    {"aggregatorFunctionType", "aggregateFieldName", "unique", "limitOperatorType", "limit", "filter", *WINDOW}
)


def read_record(record: str, schema: TransactionSchema, limits: Limits) -> Change:
    """The content of a record of the rule log. Raises RuleRejected (a reason of the product) or Refused."""
    members = members_of(record)
    if members is None or "listName" in members:
        change = parse_rule_record(record.encode(), schema, RuleLimits())
        return _Reader(change.document, schema, limits).rule(change) if isinstance(change, product.Rule) else change
    if "mapName" in members:
        return read_map(members)
    plain = stand_in(members, schema)
    change = parse_rule_record((record if plain == members else json.dumps(plain)).encode(), schema, RuleLimits())
    if not isinstance(change, product.Rule):
        return change
    return _Reader(restored(change.document, members, plain), schema, limits).rule(change)


class _Reader:
    """Reads one rule from its document, with the rule that the product has read from the stand-in. Raises Refused."""

    def __init__(self, document: Members, schema: TransactionSchema, limits: Limits) -> None:
        self._document = document
        self._schema = schema
        self._limits = limits

    def rule(self, plain: product.Rule) -> Rule:
        document = self._document
        aggregate = self.aggregate(plain, document, Scope.LIMIT) if has_aggregate(document) else None
        baseline = self.baseline(plain)
        if baseline is not None and aggregate is not None and aggregate.says_limit:
            raise Refused("limit: a rule with a baseline has a number")
        conditions = self.conditions(plain)
        needed, forbids = self.required(len(conditions))
        rule = Rule(
            plain.rule_id,
            "SIGNAL" if document.get("ruleState") == "SIGNAL" else plain.state.value,
            plain.grouping,
            aggregate,
            baseline,
            self.filter(document.get("filter")),
            read_formula(document["when"], self._schema, Scope.WHEN) if "when" in document else None,
            conditions,
            needed,
            forbids,
            plain.cooldown_ms,
            self.rollout_percent(plain.grouping),
            document,
        )
        _check(rule)
        return rule

    def aggregate(self, plain: product.Rule, document: Members, scope: Scope) -> Aggregate:
        """The aggregate of the rule or of a condition."""
        return Aggregate(
            plain.aggregate_function,
            plain.aggregate_field,
            plain.unique,
            plain.operator,
            read_limit(document["limit"], self._schema, scope),
            is_expression(document["limit"]),
            self.window(plain, document),
            self.filter(document.get("filter")),
        )

    def filter(self, text: Any) -> Formula | None:
        """The filter of a text. An empty filter is none."""
        return read_formula(text, self._schema, Scope.FILTER) if text is not None and text.strip() else None

    def window(self, plain: product.Rule, document: Members) -> Window:
        if "windowCalendar" not in document:
            if "zone" in document:
                raise Refused("zone: is for calendar windows")
            return FixedWindow(plain.window_ms)
        if any(name in document for name in LENGTHS):
            raise Refused("windowCalendar: replaces windowMinutes and windowSeconds")
        if "baseline" in document:
            raise Refused("windowCalendar: a calendar window has no baseline")
        allowed = list(Calendar)[: list(Calendar).index(self._limits.max_calendar_window) + 1]
        calendar = next((each for each in allowed if each.value == document["windowCalendar"]), None)
        if calendar is None:
            raise Refused(f"windowCalendar: is one of {[each.value for each in allowed]}")
        return CalendarWindow(calendar, zone_named(str(document.get("zone", "UTC"))))

    def baseline(self, plain: product.Rule) -> Baseline | None:
        if plain.baseline is None:
            return None
        text = self._document["baseline"].get("filter", self._document.get("filter"))
        return Baseline(
            plain.baseline.aggregate_function,
            plain.baseline.aggregate_field,
            self.filter(text),
            plain.baseline.window_ms,
            plain.baseline.min_count,
            plain.baseline.deviations,
        )

    def rollout_percent(self, grouping: tuple[str, ...]) -> int:
        if "rolloutPercent" not in self._document:
            return 100
        if not grouping:
            raise Refused("rolloutPercent: an empty grouping has one key")
        return whole(self._document, "rolloutPercent", 1, 100)

    def conditions(self, plain: product.Rule) -> list[Aggregate | NamedRule]:
        """The conditions, in order."""
        if "conditions" not in self._document:
            return []
        given = self._document["conditions"]
        if not isinstance(given, list) or not 1 <= len(given) <= MOST_CONDITIONS:
            raise Refused(f"conditions: are a list of 1 to {MOST_CONDITIONS}")
        found: list[Aggregate | NamedRule] = []
        for position, each in enumerate(given):
            try:
                found.append(self.condition(each, plain))
            except (Refused, RuleRejected) as refusal:
                raise Refused(f"conditions[{position}].{refusal}") from refusal
        return found

    def condition(self, given: Any, plain: product.Rule) -> Aggregate | NamedRule:
        """One condition: an aggregate, or the id of another rule."""
        if not isinstance(given, dict):
            raise Refused("is no object")
        members = without_nulls(given)
        if "ruleId" in members:
            if len(members) > 1:
                raise Refused("ruleId: stands alone")
            return NamedRule(whole(members, "ruleId", 1, 2**63 - 1))
        unknown = set(members) - _OF_A_CONDITION
        if unknown:
            raise Refused(f"{min(unknown)}: is no member of a condition")
        defaults = {name: self._document[name] for name in ("aggregateFieldName", "filter") if name in self._document}
        return self.aggregate_condition({**defaults, **members}, plain)

    def aggregate_condition(self, members: Members, plain: product.Rule) -> Aggregate:
        """A condition that is an aggregate. The product reads its members as those of a rule."""
        of_rule = {"ruleId": plain.rule_id, "ruleState": "ACTIVE", "groupingKeyNames": list(plain.grouping)}
        as_rule = stand_in({**of_rule, **members}, self._schema)
        as_rule.pop("filter", None)
        read = parse_rule_record(json.dumps(as_rule).encode(), self._schema, RuleLimits())
        assert isinstance(read, product.Rule)
        if read.aggregate_function is AggregateFunction.COUNT_WITH_RESET:
            raise Refused("aggregatorFunctionType: a condition has no COUNT_WITH_RESET")
        return self.aggregate(read, members, Scope.CONDITION_LIMIT)

    def required(self, conditions: int) -> tuple[int, bool]:
        """The number of conditions that have to hold, and whether none may."""
        if "require" not in self._document:
            return conditions, False
        if not conditions:
            raise Refused("require: there are no conditions")
        match self._document["require"]:
            case "all":
                return conditions, False
            case "any":
                return 1, False
            case "none":
                return 0, True
        return whole(self._document, "require", 1, conditions), False


def _check(rule: Rule) -> None:
    """Refuse what the members of a rule say about each other."""
    if rule.needs.previous and rule.aggregate is None:
        raise Refused("when: previous needs a window of the rule's own")
    if rule.rule_id in rule.named or len(set(rule.named)) < len(rule.named):
        raise Refused("conditions: a rule names neither itself nor a rule twice")
    resets = rule.aggregate is not None and rule.aggregate.aggregate_function is AggregateFunction.COUNT_WITH_RESET
    if rule.named and resets:
        raise Refused("conditions: COUNT_WITH_RESET names no rules")


def whole(members: Members, name: str, least: int, greatest: int) -> int:
    """A member that is a whole number, as a JSON number or a text of one. Raises Refused."""
    raw = members[name]
    if isinstance(raw, str) and raw.lstrip("+-").isascii() and raw.lstrip("+-").isdigit():
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= greatest:
        raise Refused(f"{name}: {raw!r} is no whole number from {least} to {greatest}")
    return raw
