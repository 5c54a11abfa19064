"""The outcome of one rule for one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from fraud_rules.model.aggregate import AggregateFunction
from tests.support.oracle.arithmetic import (
    Value,
    Values,
    baseline_text,
    compare_with_baseline,
    compare_with_limit,
    text_of_number,
)
from tests.support.oracle.needs import OWN, PREVIOUS, Formula, list_key, map_key
from tests.support.oracle.retention import Key
from tests.support.oracle.rules.log import ActiveRule, FoldedRules
from tests.support.oracle.rules.rollout import is_in_rollout
from tests.support.oracle.rules.rule import Aggregate, Baseline, NamedRule, Rule
from tests.support.oracle.rules.windows import FixedWindow
from tests.support.oracle.stream import Row


@dataclass(frozen=True)
class Scene:
    """One transaction in one grouping: the rows of its key in order of arrival, itself among them, and the start of the
    retained history. `series` has the same for the series of each rule with a resolution, by rule id.
    """

    e: Row
    key: Key
    rows: Sequence[Row]
    history_start_ms: int
    folded: FoldedRules
    series: Mapping[int, Scene] = field(default_factory=dict)

    @property
    def lookups(self) -> Mapping[str, Any]:
        """The values of `e` and those that expressions read beside its fields: lists and maps as of its append time."""
        lists = {list_key(name): known.values for name, known in self.folded.lists.items()}
        maps = {map_key(name): known.entries for name, known in self.folded.maps.items()}
        return {**self.e.values, **lists, **maps}


@dataclass(frozen=True)
class Outcome:
    """The outcome of an evaluation. `value` is None without a value of the aggregate."""

    holds: bool
    value: str | None
    count: int
    window_start_ms: int | None
    is_complete: bool
    members: Mapping[str, Any]
    """Further members of an alert, or of a condition in an alert."""


Outcomes = Mapping[int, Outcome]
"""The outcomes for a transaction of the rules that name no rules, by rule id, where a rule was evaluated."""


def judge(in_force: ActiveRule, scene: Scene, reset_arrival: int, others: Outcomes) -> Outcome | None:
    """The outcome of a rule; None if the rule is not evaluated. COUNT_WITH_RESET does not count up to the reset."""
    rule = in_force.rule
    if rule.state == "PAUSE" or not is_in_rollout(rule.rule_id, scene.key, rule.rollout_percent):
        return None
    before_e = _previous_row(rule, scene) if rule.needs.previous else None
    row = {**scene.lookups, PREVIOUS: None if before_e is None else before_e.values}
    if not _passes(rule.filter if rule.when is None else rule.when, row):
        return None
    own = _own(rule, scene, row, reset_arrival)
    row[OWN] = None if own.value is None else Fraction(own.value)
    members = {**_versions(rule, scene.folded), **own.members}
    if rule.needs.previous:
        members["previous"] = _previous_member(rule, before_e)
    conditions = [
        _of_named(each, rule, scene.folded, others) if isinstance(each, NamedRule) else _of_aggregate(each, scene, row)
        for each in rule.conditions
    ]
    if conditions:
        members["conditions"] = [{"holds": each.holds, **each.members} for each in conditions]
    holding = sum(each.holds for each in conditions)
    return Outcome(
        own.holds and holding >= rule.needed and not (rule.forbids and holding),
        own.value if rule.aggregate is not None else str(holding),
        own.count,
        own.window_start_ms,
        own.is_complete and all(each.is_complete for each in conditions),
        members,
    )


def _own(rule: Rule, scene: Scene, row: Values, reset_arrival: int) -> Outcome:
    """The outcome of the rule's own aggregate. Without one it holds, and its window is the instant of the payment."""
    aggregate, event_ms = rule.aggregate, scene.e.event_ms
    if aggregate is None:
        return Outcome(True, None, 0, event_ms, event_ms >= scene.history_start_ms, {})
    scene = scene.series.get(rule.rule_id, scene)
    if rule.baseline is not None:
        return _beside_baseline(aggregate, rule.baseline, scene, row)
    window = _rows_of(aggregate, scene)
    if aggregate.aggregate_function is AggregateFunction.COUNT_WITH_RESET and rule.state != "SIGNAL":
        window = [x for x in window if x.arrival > reset_arrival]
    return _measured(aggregate, scene, window, row)


def _of_aggregate(aggregate: Aggregate, scene: Scene, row: Values) -> Outcome:
    """The outcome of a condition that is an aggregate."""
    found = _measured(aggregate, scene, _rows_of(aggregate, scene), row)
    shown = {"value": found.value, "count": found.count, "windowStart": found.window_start_ms}
    return Outcome(found.holds, None, 0, None, found.is_complete, {**shown, **found.members})


def _of_named(named: NamedRule, rule: Rule, folded: FoldedRules, others: Outcomes) -> Outcome:
    """The outcome of a condition that names a rule. A rule in SHADOW holds for rules in SHADOW only."""
    other = folded.rules[named.rule_id]
    hidden = other.rule.state == "SHADOW" and rule.state != "SHADOW"
    found = None if hidden else others.get(named.rule_id)
    shown = {
        "ruleId": named.rule_id,
        "ruleVersion": other.version,
        "value": None if found is None else found.value,
        "count": None if found is None else found.count,
    }
    return Outcome(found is not None and found.holds, None, 0, None, found is None or found.is_complete, shown)


def _measured(aggregate: Aggregate, scene: Scene, window: Sequence[Row], row: Values) -> Outcome:
    """The aggregate of the window, compared with its limit. A calendar window outside its years has no value."""
    start_ms = aggregate.window.start_ms(scene.e.event_ms)
    limit = aggregate.limit.read(row)
    verdict = None if start_ms is None else compare_with_limit(aggregate, [x.values for x in window], limit)
    return Outcome(
        verdict is not None and verdict[0],
        None if verdict is None else verdict[1],
        len(window),
        start_ms,
        start_ms is None or start_ms >= scene.history_start_ms,
        {"limit": None if limit is None else text_of_number(limit)} if aggregate.says_limit else {},
    )


def _beside_baseline(aggregate: Aggregate, baseline: Baseline, scene: Scene, row: Values) -> Outcome:
    """The aggregate of the window, compared with that of the time right before it."""
    end_ms = aggregate.window.start_ms(scene.e.event_ms)
    assert isinstance(aggregate.window, FixedWindow) and end_ms is not None
    start_ms = aggregate.window.start_ms(scene.e.event_ms - baseline.window_ms)
    window = [x.values for x in _rows_of(aggregate, scene)]
    before = [x.values for x in _rows_between(scene.rows, start_ms, end_ms - 1, baseline.filter)]
    verdict = compare_with_baseline(aggregate, baseline, window, before, aggregate.limit.read(row))
    shown: dict[str, Any] = {"count": len(before), "windowStart": start_ms, "windowEnd": end_ms}
    if verdict is not None:
        shown["value"] = baseline_text(aggregate, baseline, before)
    return Outcome(
        verdict is not None and verdict[0],
        None if verdict is None else verdict[1],
        len(window),
        end_ms,
        start_ms >= scene.history_start_ms,
        {"baseline": shown},
    )


def _previous_row(rule: Rule, scene: Scene) -> Row | None:
    """The row in the rule's window, other than the transaction itself, with the largest (event time, arrival)."""
    assert rule.aggregate is not None
    rows = [x for x in _rows_of(rule.aggregate, scene) if x is not scene.e]
    return max(rows, key=lambda x: (x.event_ms, x.arrival), default=None)


def _previous_member(rule: Rule, previous: Row | None) -> dict[str, Any] | None:
    """The previous payment in an alert: its id, and the fields that the rule names."""
    if previous is None:
        return None
    return {name: _shown(previous.values[name]) for name in ("transactionId", *rule.needs.previous)}


def _shown(value: Value) -> Value:
    return text_of_number(Fraction(value)) if isinstance(value, Decimal) else value


def _rows_of(aggregate: Aggregate, scene: Scene) -> list[Row]:
    """The rows of the window of an aggregate. A calendar window outside its years has none."""
    start_ms = aggregate.window.start_ms(scene.e.event_ms)
    return [] if start_ms is None else _rows_between(scene.rows, start_ms, scene.e.event_ms, aggregate.filter)


def _rows_between(rows: Sequence[Row], first_ms: int, last_ms: int, passing: Formula | None) -> list[Row]:
    """The rows of a window, both ends included."""
    return [x for x in rows if first_ms <= x.event_ms <= last_ms and _passes(passing, x.values)]


def _passes(condition: Formula | None, values: Mapping[str, Any]) -> bool:
    """Check a row against a condition. Only true passes, not unknown."""
    return condition is None or condition.holds(values)


def _versions(rule: Rule, folded: FoldedRules) -> dict[str, Any]:
    """The versions of the lists and maps that the rule names."""
    lists = {name: folded.lists[name].version for name in sorted(rule.needs.lists)}
    maps = {name: folded.maps[name].version for name in sorted(rule.needs.maps)}
    return {**({"lists": lists} if lists else {}), **({"maps": maps} if maps else {})}
