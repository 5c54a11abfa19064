"""The outcome of one rule for one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from tests.support.oracle.needs import PREVIOUS, Formula, list_key, map_key
from tests.support.oracle.retention import Key
from tests.support.oracle.rollout import is_in_rollout
from tests.support.oracle.rule_log import ActiveRule, FoldedRules
from tests.support.oracle.rules import Aggregate, Rule
from tests.support.oracle.stream import Row


@dataclass(frozen=True)
class Scene:
    """One transaction in one grouping: the rows of its key in order of arrival, itself among them, and the start of the
    retained history.
    """

    e: Row
    key: Key
    rows: Sequence[Row]
    history_start_ms: int
    folded: FoldedRules

    @property
    def lookups(self) -> Mapping[str, Any]:
        """The values of `e` and those that expressions read beside its fields: lists and maps as of its
        append time."""
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
    """Further members of an alert."""


def judge(in_force: ActiveRule, scene: Scene, reset_arrival: int) -> Outcome | None:
    """The outcome of a rule; None if the rule is not evaluated. COUNT_WITH_RESET does not count up to the reset."""
    rule, e = in_force.rule, scene.e
    if rule.state == "PAUSE" or not is_in_rollout(rule.rule_id, scene.key, rule.rollout_percent):
        return None
    before_e = _previous_row(rule, scene) if rule.needs.previous else None
    row = {**scene.lookups, PREVIOUS: None if before_e is None else before_e.values}
    if not _passes(rule.filter if rule.when is None else rule.when, row):
        return None
    start_ms = rule.aggregate.window.start_ms(e.event_ms)
    window = rows_of(rule.aggregate, scene)
    if rule.aggregate.aggregate_function is AggregateFunction.COUNT_WITH_RESET:
        window = [x for x in window if x.arrival > reset_arrival]
    limit = rule.aggregate.limit.read(row)
    before = None if start_ms is None else _baseline_rows(rule, scene.rows, start_ms)
    members = _versions(rule, scene.folded)
    if rule.needs.previous:
        members["previous"] = _previous_member(rule, before_e)
    if rule.aggregate.says_limit:
        members["limit"] = None if limit is None else text_of_number(limit)
    verdict = None if start_ms is None else _compared(rule, window, before, limit)
    if before is not None and verdict is not None and start_ms is not None:
        members["baseline"] = _baseline_member(rule, before, start_ms)
    return Outcome(
        verdict is not None and verdict[0],
        None if verdict is None else verdict[1],
        len(window),
        start_ms,
        start_ms is None or start_ms - rule.baseline_ms >= scene.history_start_ms,
        members,
    )


def _previous_row(rule: Rule, scene: Scene) -> Row | None:
    """The row in the rule's window, other than the transaction itself, with the largest (event time, arrival)."""
    rows = [x for x in rows_of(rule.aggregate, scene) if x is not scene.e]
    return max(rows, key=lambda x: (x.event_ms, x.arrival), default=None)


def _previous_member(rule: Rule, previous: Row | None) -> dict[str, Any] | None:
    """The previous payment in an alert: its id, and the fields that the rule names."""
    if previous is None:
        return None
    return {name: _shown(previous.values[name]) for name in ("transactionId", *rule.needs.previous)}


def _shown(value: Value) -> Value:
    return text_of_number(Fraction(value)) if isinstance(value, Decimal) else value


def rows_of(aggregate: Aggregate, scene: Scene) -> list[Row]:
    """The rows of the window of an aggregate. A calendar window outside its years has none."""
    start_ms = aggregate.window.start_ms(scene.e.event_ms)
    return [] if start_ms is None else rows_between(scene.rows, start_ms, scene.e.event_ms, aggregate.filter)


def rows_between(rows: Sequence[Row], first_ms: int, last_ms: int, passing: Formula | None) -> list[Row]:
    """The rows of a window, both ends included."""
    return [x for x in rows if first_ms <= x.event_ms <= last_ms and _passes(passing, x.values)]


def _passes(condition: Formula | None, values: Mapping[str, Any]) -> bool:
    """Check a row against a condition. Only true passes, not unknown."""
    return condition is None or condition.holds(values)


def _compared(
    rule: Rule, window: Sequence[Row], before: Sequence[Values] | None, limit: Fraction | None
) -> tuple[bool, str] | None:
    values = [x.values for x in window]
    if rule.baseline is None or before is None:
        return compare_with_limit(rule.aggregate, values, limit)
    assert limit is not None
    return compare_with_baseline(rule.aggregate, rule.baseline, values, before, limit)


def _baseline_rows(rule: Rule, rows: Sequence[Row], end_ms: int) -> list[Values] | None:
    """The rows of the rule's baseline, which ends right before `end_ms`; None for a rule without a baseline."""
    if rule.baseline is None:
        return None
    before = rows_between(rows, end_ms - rule.baseline.window_ms, end_ms - 1, rule.baseline.filter)
    return [x.values for x in before]


def _baseline_member(rule: Rule, before: Sequence[Values], end_ms: int) -> dict[str, Any]:
    baseline = rule.baseline
    assert baseline is not None
    return {
        "value": baseline_text(rule.aggregate, baseline, before),
        "count": len(before),
        "windowStart": end_ms - baseline.window_ms,
        "windowEnd": end_ms,
    }


def _versions(rule: Rule, folded: FoldedRules) -> dict[str, Any]:
    """The versions of the lists and maps that the rule names."""
    lists = {name: folded.lists[name].version for name in sorted(rule.needs.lists)}
    maps = {name: folded.maps[name].version for name in sorted(rule.needs.maps)}
    return {**({"lists": lists} if lists else {}), **({"maps": maps} if maps else {})}
