"""Computes the numbers of a result from re-evaluated and published alerts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fraud_rules.batch.reevaluation.compare import AlertVerdict, compare
from fraud_rules.batch.reevaluation.published import AlertView, PublishedAlerts, view_of
from fraud_rules.batch.reevaluation.report import HOURS, MOST_LISTED, CorrectedAlert, RuleCounts
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.model.day import Day
from fraud_rules.model.output import AlertRecord
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import LogEntry
from fraud_rules.model.schema import TransactionSchema

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class DayAlerts:
    """The alerts of a re-evaluated day by id, live and shadow, and the restriction events of live ones."""

    live: Mapping[str, bytes]
    shadow: Mapping[str, bytes]
    restrictions: Mapping[str, bytes]

    @classmethod
    def of(cls, alerts: Iterable[AlertRecord]) -> DayAlerts:
        """Collect the engine's alerts."""
        live: dict[str, bytes] = {}
        shadow: dict[str, bytes] = {}
        restrictions: dict[str, bytes] = {}
        for alert in alerts:
            (shadow if alert.shadow else live)[alert.alert_id] = alert.json
            if alert.restriction is not None:
                restrictions[alert.alert_id] = alert.restriction
        return cls(live, shadow, restrictions)


@dataclass(frozen=True, slots=True)
class AlertDifference:
    """An alert that was not confirmed."""

    verdict: AlertVerdict
    view: AlertView
    shadow: bool


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The counts of a result. The totals count live alerts only."""

    counts: Counter[AlertVerdict]
    rules: list[RuleCounts]
    hours: list[tuple[int, int, int]]
    corrections: list[CorrectedAlert]


def differences(found: DayAlerts, published: PublishedAlerts) -> list[AlertDifference]:
    """All missing and spurious live and shadow alerts."""
    different: list[AlertDifference] = []
    for shadow, ours, theirs in ((False, found.live, published.live), (True, found.shadow, published.shadow)):
        for alert_id, verdict in compare(theirs.keys(), ours.keys()).items():
            if verdict is not AlertVerdict.CONFIRMED:
                text = ours[alert_id] if verdict is AlertVerdict.ADDED else theirs[alert_id]
                different.append(AlertDifference(verdict, view_of(text), shadow))
    different.sort(key=lambda each: (each.view.event_time, each.view.rule_id, each.view.alert_id))
    return different


def count_day(
    day: Day,
    found: DayAlerts,
    published: PublishedAlerts,
    different: Iterable[AlertDifference],
    entries: Iterable[LogEntry],
    schema: TransactionSchema,
) -> DayCounts:
    """Count alerts by rule and hour. `different` does not have undecided alerts."""
    newest = {entry.change.rule_id: entry.change for entry in entries if isinstance(entry.change, Rule)}
    by_rule: dict[tuple[int, bool], Counter[str]] = {}
    hours = [[0, 0, 0] for _ in range(HOURS)]
    listed: list[CorrectedAlert] = []
    for each in different:
        view = each.view
        by_rule.setdefault((view.rule_id, each.shadow), Counter())[each.verdict] += 1
        if not each.shadow:
            hours[_hour(view.event_time, day)][1 if each.verdict is AlertVerdict.ADDED else 2] += 1
        if len(listed) < MOST_LISTED:
            listed.append(_listed(each))
    for shadow, theirs in ((False, published.live), (True, published.shadow)):
        for text in theirs.values():
            view = view_of(text)
            by_rule.setdefault((view.rule_id, shadow), Counter())["published"] += 1
            if not shadow:
                hours[_hour(view.event_time, day)][0] += 1
    rules = [_counts(key, counts, newest.get(key[0]), schema) for key, counts in sorted(by_rule.items())]
    live = Counter(
        {
            AlertVerdict.ADDED: sum(rule.added for rule in rules if not rule.shadow),
            AlertVerdict.RETRACTED: sum(rule.retracted for rule in rules if not rule.shadow),
            AlertVerdict.CONFIRMED: len(found.live.keys() & published.live.keys()),
        }
    )
    return DayCounts(live, rules, [(hour[0], hour[1], hour[2]) for hour in hours], listed)


def _counts(key: tuple[int, bool], counts: Counter[str], rule: Rule | None, schema: TransactionSchema) -> RuleCounts:
    added, retracted = counts[AlertVerdict.ADDED], counts[AlertVerdict.RETRACTED]
    published = counts["published"]
    name = "" if rule is None else str(rule.document.get("name") or "")
    says = "" if rule is None else rule_sentence(rule, schema)
    return RuleCounts(key[0], name, key[1], published, published - retracted, added, retracted, says)


def _hour(time_ms: int, day: Day) -> int:
    return min(max((time_ms - day.start_ms) // HOUR_MS, 0), HOURS - 1)


def _listed(each: AlertDifference) -> CorrectedAlert:
    view = each.view
    return CorrectedAlert(
        each.verdict.value,
        view.alert_id,
        view.rule_id,
        view.rule_version,
        view.key,
        view.transaction_id,
        view.event_time,
        view.triggering_value,
        view.window_count,
        each.shadow,
    )
