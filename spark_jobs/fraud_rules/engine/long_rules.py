"""The versions of a grouping whose rules the series of its states need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fraud_rules.engine.state.head import GroupingStateHead
from fraud_rules.engine.state.series_sums import SeriesHead
from fraud_rules.engine.window.plan import NO_MEASURES, Measures, compile_plan
from fraud_rules.model.ruleset import Grouping, GroupingInForce, RuleInForce, RuleTimeline
from fraud_rules.model.schema import TransactionSchema


def long_rules(timeline: RuleTimeline, fields: Grouping) -> Sequence[RuleInForce]:
    """The rules with long windows that the newest version of a grouping has."""
    grouping = timeline.latest.groupings.get(fields)
    return () if grouping is None else grouping.long_rules


def with_series(
    groupings: Sequence[GroupingInForce], timeline: RuleTimeline, series: Sequence[SeriesHead]
) -> Sequence[GroupingInForce]:
    """The versions of a run, the newest version if it has further series, and those with which the series of the state
    began: the measures of a series must not go, because their sums cannot be computed again."""
    newest = timeline.latest.groupings.get(groupings[0].fields)
    if newest is not None and not _series_of([newest]) <= _series_of(groupings):
        groupings = [*groupings, newest]
    return [*groupings, *_beginnings(timeline, groupings, groupings[0].fields, series)]


def measures_of(timeline: RuleTimeline, schema: TransactionSchema, head: GroupingStateHead) -> Measures:
    """The measures that the newest version of the grouping and the series of the state need."""
    newest = timeline.latest.groupings.get(head.fields)
    versions = [newest] if newest is not None and (newest.epoch == head.epoch or head.series) else []
    versions += _beginnings(timeline, versions, head.fields, head.series)
    return compile_plan(versions, schema, NO_MEASURES).measures if versions else NO_MEASURES


def _beginnings(
    timeline: RuleTimeline, groupings: Sequence[GroupingInForce], fields: Grouping, series: Sequence[SeriesHead]
) -> Iterator[GroupingInForce]:
    """For each series that these versions lack, the version with which it began, without its other rules. The series is
    over, but transactions from before its end may still come."""
    known = _series_of(groupings)
    for version in (each.version for each in series if each.version not in known):
        began = timeline.rule_set(timeline.position_of(version) + 1).groupings.get(fields)
        rules = () if began is None else tuple(each for each in began.long_rules if each.series == version)
        if began is not None and rules:
            yield replace(began, rules=rules, long_rules=rules)


def _series_of(groupings: Iterable[GroupingInForce]) -> AbstractSet[int | None]:
    return {each.series for grouping in groupings for each in grouping.long_rules}
