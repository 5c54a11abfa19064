"""The versions of a grouping whose rules the series of its states need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fraud_rules.engine.state.head import GroupingStateHead
from fraud_rules.engine.state.series_sums import SeriesHead
from fraud_rules.engine.window.plan import NO_MEASURES, Measures, compile_plan
from fraud_rules.model.ruleset import Grouping, GroupingInForce, RuleInForce, RuleTimeline
from fraud_rules.model.schema import TransactionSchema

__all__ = ["long_rules", "measures_of", "with_series"]


def long_rules(timeline: RuleTimeline, fields: Grouping) -> Sequence[RuleInForce]:
    """The rules with long windows that the newest version of a grouping has."""
    grouping = timeline.latest.groupings.get(fields)
    return () if grouping is None else grouping.long_rules


def with_series(
    groupings: Sequence[GroupingInForce], timeline: RuleTimeline, series: Sequence[SeriesHead]
) -> Sequence[GroupingInForce]:
    """The versions of a run, and those of the series of a state: the measures of a series must not go, because their
    sums cannot be computed again."""
    known = {each.series for grouping in groupings for each in grouping.long_rules}
    return [*groupings, *(each for each in _of_series(timeline, groupings[0].fields, series) if _lacks(known, each))]


def _lacks(known: AbstractSet[int | None], grouping: GroupingInForce) -> bool:
    return any(each.series not in known for each in grouping.long_rules)


def measures_of(timeline: RuleTimeline, schema: TransactionSchema, head: GroupingStateHead) -> Measures:
    """The measures that the newest version of the grouping and the series of the state need."""
    newest = timeline.latest.groupings.get(head.fields)
    of_newest = () if newest is None or (newest.epoch != head.epoch and not head.series) else (newest,)
    versions = [*of_newest, *_of_series(timeline, head.fields, head.series)]
    return compile_plan(versions, schema, NO_MEASURES).measures if versions else NO_MEASURES


def _of_series(timeline: RuleTimeline, fields: Grouping, series: Sequence[SeriesHead]) -> Iterator[GroupingInForce]:
    """Versions of a grouping that have the rules of its series: the newest one if it has long windows, and for each
    series that it lacks the one with which the series began, without its other rules. Transactions from before the end
    of a series may still come."""
    newest = timeline.latest.groupings.get(fields)
    if newest is not None and newest.long_rules:
        yield newest
    known = {each.series for each in long_rules(timeline, fields)}
    for version in (each.version for each in series if each.version not in known):
        began = timeline.rule_set(timeline.position_of(version) + 1).groupings.get(fields)
        rules = () if began is None else tuple(each for each in began.long_rules if each.series == version)
        if began is not None and rules:
            yield replace(began, rules=rules, long_rules=rules)
