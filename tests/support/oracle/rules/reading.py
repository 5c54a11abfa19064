"""A record of the rule log as the oracle reads it.

The product's parser reads the members of the first two editions. The oracle reads the members of the third edition. It
hands the product a stand-in for the record, in which they are left out or replaced by members of an earlier edition.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.errors import RuleRejected
from fraud_rules.model import rule as product
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import RuleChange
from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.expressions import NO_DIGITS, Digits, field_of
from tests.support.oracle.filters import Formula, Scope, is_expression, read_formula, read_limit
from tests.support.oracle.moments import zone_named
from tests.support.oracle.refusal import Refused
from tests.support.oracle.rules.calendars import Calendar, CalendarWindow
from tests.support.oracle.rules.entities import Entity
from tests.support.oracle.rules.maps import MapChange, read_map
from tests.support.oracle.rules.rule import Aggregate, Baseline, Limits, Members, NamedRule, Rule
from tests.support.oracle.rules.stand_ins import (
    LENGTHS,
    WINDOW,
    has_aggregate,
    members_of,
    restored,
    stand_in,
    without_nulls,
)
from tests.support.oracle.rules.windows import FixedWindow, Window

MOST_CONDITIONS = 8
MOST_STEPS = 10_000
SUMMABLE = frozenset(AggregateFunction[name] for name in ("SUM", "COUNT", "AVG", "MIN", "MAX", "STDDEV"))

Change: TypeAlias = RuleChange | Rule | MapChange
"""The content of a record. The product's `Rule` is none of its cases."""

_OF_A_CONDITION = frozenset(
    {"aggregatorFunctionType", "aggregateFieldName", "unique", "limitOperatorType", "limit", "filter", *WINDOW}
)


def read_record(record: str, schema: TransactionSchema, limits: Limits, entities: Sequence[Entity]) -> Change:
    """The content of a record of the rule log. Raises RuleRejected (a reason of the product) or Refused."""
    members = members_of(record)
    if members is None or "listName" in members:
        change = parse_rule_record(record.encode(), schema, RuleLimits())
        return _Reader(change.document, schema, limits, ()).rule(change) if isinstance(change, product.Rule) else change
    if "mapName" in members:
        return read_map(members)
    plain = stand_in(members, schema, entities)
    change = parse_rule_record((record if plain == members else json.dumps(plain)).encode(), schema, RuleLimits())
    if not isinstance(change, product.Rule):
        return change
    return _Reader(restored(change.document, members, plain), schema, limits, entities).rule(change)


class _Reader:
    """Reads one rule from its document, with the rule that the product has read from the stand-in. Raises Refused."""

    def __init__(
        self, document: Members, schema: TransactionSchema, limits: Limits, entities: Sequence[Entity]
    ) -> None:
        self._document = document
        self._schema = schema
        self._limits = limits
        names = [entity.name for entity in entities]
        self._entity = [name for name in document["groupingKeyNames"] if name in names]
        if len(self._entity) > 1:
            raise Refused("groupingKeyNames: has one entity at most")

    def rule(self, plain: product.Rule) -> Rule:
        document = self._document
        grouping = tuple(sorted([*plain.grouping, *self._entity]))
        aggregate = self.aggregate(plain, document, Scope.LIMIT, NO_DIGITS) if has_aggregate(document) else None
        baseline = self.baseline(plain)
        if baseline is not None and aggregate is not None and aggregate.says_limit:
            raise Refused("limit: a rule with a baseline has a number")
        own = NO_DIGITS if aggregate is None else own_digits(aggregate, self._schema)
        conditions = self.conditions(plain, own)
        needed, forbids = self.required(len(conditions))
        rule = Rule(
            plain.rule_id,
            "SIGNAL" if document.get("ruleState") == "SIGNAL" else plain.state.value,
            grouping,
            aggregate,
            baseline,
            self.filter(document.get("filter")),
            self.condition_of(document["when"], Scope.WHEN) if "when" in document else None,
            conditions,
            needed,
            forbids,
            plain.cooldown_ms,
            self.rollout_percent(grouping),
            self._limits.detail_ms,
            self.meaning(plain, aggregate, baseline),
            document,
        )
        _check(rule)
        return rule

    def meaning(self, plain: product.Rule, aggregate: Aggregate | None, baseline: Baseline | None) -> object:
        """The part of the rule that decides its series. The product's trees say whether two filters are the same.

        In a grouping by an entity, where the product may not see them, their texts say so, too.
        """
        members: list[object] = [plain.grouping, self._entity, plain.filter]
        members += [plain.aggregate_field, plain.aggregate_function]
        if aggregate is not None and isinstance(aggregate.window, FixedWindow):
            members.append(aggregate.window.step_ms)
        if baseline is not None and plain.baseline is not None:
            members += [replace(baseline, filter=None), plain.baseline.filter]
        if self._entity:
            members += [each.get("filter") for each in (self._document, self._document.get("baseline", {}))]
        return members

    def aggregate(self, plain: product.Rule, document: Members, scope: Scope, own: Digits) -> Aggregate:
        """The aggregate of the rule or of a condition. `own` has the digits of `own()`."""
        return Aggregate(
            plain.aggregate_function,
            plain.aggregate_field,
            plain.unique,
            plain.operator,
            read_limit(document["limit"], self._schema, scope, has_role=bool(self._entity), own=own),
            is_expression(document["limit"]),
            self.window(plain, document),
            self.filter(document.get("filter")),
        )

    def filter(self, text: Any) -> Formula | None:
        """The filter of a text. An empty filter is none."""
        if not isinstance(text, str | None):
            raise Refused(f"filter: {text!r} is no text")
        return self.condition_of(text, Scope.FILTER) if text is not None and text.strip() else None

    def condition_of(self, text: str, scope: Scope) -> Formula:
        """The condition of a text."""
        return read_formula(text, self._schema, scope, has_role=bool(self._entity))

    def window(self, plain: product.Rule, document: Members) -> Window:
        if "windowCalendar" not in document:
            if "zone" in document:
                raise Refused("zone: is for calendar windows")
            return self.fixed_window(plain, document)
        if any(name in document for name in LENGTHS):
            raise Refused("windowCalendar: replaces windowMinutes and windowSeconds")
        if "baseline" in document or "resolutionSeconds" in document:
            raise Refused("windowCalendar: a calendar window has neither baseline nor resolution")
        allowed = list(Calendar)[: list(Calendar).index(self._limits.max_calendar_window) + 1]
        calendar = next((each for each in allowed if each.value == document["windowCalendar"]), None)
        if calendar is None:
            raise Refused(f"windowCalendar: is one of {[each.value for each in allowed]}")
        return CalendarWindow(calendar, zone_named(str(document.get("zone", "UTC"))))

    def fixed_window(self, plain: product.Rule, document: Members) -> FixedWindow:
        """A window of fixed length, long if the rule has a resolution."""
        if "resolutionSeconds" not in document:
            return FixedWindow(plain.window.reach_ms)
        if plain.aggregate_function not in SUMMABLE:
            raise Refused("resolutionSeconds: is for functions that add up")
        step_ms = whole(document, "resolutionSeconds", 1, 86_400) * 1000
        window = FixedWindow(_length_ms(document), step_ms)
        total_ms = window.length_ms + (self.baseline_ms(plain) if plain.baseline is not None else 0)
        if step_ms > window.length_ms:
            raise Refused("resolutionSeconds: is longer than the window")
        if total_ms > min(self._limits.max_long_window_ms, MOST_STEPS * step_ms):
            raise Refused("resolutionSeconds: the window is too long")
        return window

    def baseline_ms(self, plain: product.Rule) -> int:
        """The length of the baseline."""
        assert plain.baseline is not None
        long = "resolutionSeconds" in self._document
        return _length_ms(self._document["baseline"]) if long else plain.baseline.window_ms

    def baseline(self, plain: product.Rule) -> Baseline | None:
        if plain.baseline is None:
            return None
        text = self._document["baseline"].get("filter", self._document.get("filter"))
        return Baseline(
            plain.baseline.aggregate_function,
            plain.baseline.aggregate_field,
            self.filter(text),
            self.baseline_ms(plain),
            plain.baseline.min_count,
            plain.baseline.deviations,
        )

    def rollout_percent(self, grouping: tuple[str, ...]) -> int:
        if "rolloutPercent" not in self._document:
            return 100
        if not grouping:
            raise Refused("rolloutPercent: an empty grouping has one key")
        return whole(self._document, "rolloutPercent", 1, 100)

    def conditions(self, plain: product.Rule, own: Digits) -> list[Aggregate | NamedRule]:
        """The conditions, in order."""
        if "conditions" not in self._document:
            return []
        given = self._document["conditions"]
        if not isinstance(given, list) or not 1 <= len(given) <= MOST_CONDITIONS:
            raise Refused(f"conditions: are a list of 1 to {MOST_CONDITIONS}")
        found: list[Aggregate | NamedRule] = []
        for position, each in enumerate(given):
            try:
                found.append(self.condition(each, plain, own))
            except (Refused, RuleRejected) as refusal:
                raise Refused(f"conditions[{position}].{refusal}") from refusal
        return found

    def condition(self, given: Any, plain: product.Rule, own: Digits) -> Aggregate | NamedRule:
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
        return self.aggregate_condition({**defaults, **members}, plain, own)

    def aggregate_condition(self, members: Members, plain: product.Rule, own: Digits) -> Aggregate:
        """A condition that is an aggregate. The product reads its members as those of a rule."""
        of_rule = {"ruleId": plain.rule_id, "ruleState": "ACTIVE", "groupingKeyNames": list(plain.grouping)}
        as_rule = stand_in({**of_rule, **members}, self._schema, ())
        as_rule.pop("filter", None)
        read = parse_rule_record(json.dumps(as_rule).encode(), self._schema, RuleLimits())
        assert isinstance(read, product.Rule)
        if read.aggregate_function is AggregateFunction.COUNT_WITH_RESET:
            raise Refused("aggregatorFunctionType: a condition has no COUNT_WITH_RESET")
        return self.aggregate(read, members, Scope.CONDITION_LIMIT, own)

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
    if rule.needs.previous and (rule.aggregate is None or rule.long_window is not None):
        raise Refused("when: previous needs a window of the rule's own, without a resolution")
    if rule.rule_id in rule.named or len(set(rule.named)) < len(rule.named):
        raise Refused("conditions: a rule names neither itself nor a rule twice")
    resets = rule.aggregate is not None and rule.aggregate.aggregate_function is AggregateFunction.COUNT_WITH_RESET
    if rule.named and resets:
        raise Refused("conditions: COUNT_WITH_RESET names no rules")


def own_digits(aggregate: Aggregate, schema: TransactionSchema) -> Digits:
    """The most digits of `own()`: those of an alert's value, and for a sum ten digits more than its field has.

    The specification gives no digits. These let `0.8 * own()` pass, as its example needs.
    """
    field = None if aggregate.aggregate_field is None else schema.field(aggregate.aggregate_field)
    digits = Digits(1, 0) if field is None else field_of(field).digits
    match aggregate.aggregate_function.value:
        case "MIN" | "MAX":
            return digits
        case "AVG" | "STDDEV":
            return Digits(min(digits.before, 32), 6)
        case "SUM":
            return Digits(min(digits.before + 10, 38 - digits.after), digits.after)
    return Digits(19, 0)


def _length_ms(members: Members) -> int:
    """The length of a window in minutes or seconds."""
    name = "windowMinutes" if "windowMinutes" in members else "windowSeconds"
    return whole(members, name, 1, 2**63) * (60_000 if name == "windowMinutes" else 1000)


def whole(members: Members, name: str, least: int, greatest: int) -> int:
    """A member that is a whole number, as a JSON number or a text of one. Raises Refused."""
    raw = members[name]
    if isinstance(raw, str) and raw.lstrip("+-").isascii() and raw.lstrip("+-").isdigit():
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= greatest:
        raise Refused(f"{name}: {raw!r} is no whole number from {least} to {greatest}")
    return raw
