"""The figures of the last day: counts by hour, severity, rule and key, without a scan of the alerts."""

from __future__ import annotations

import json

from fraud_control.feed.day_figures import HOUR_MS, DayFigures
from fraud_control.feed.decisions import read_decision
from fraud_control.feed.events import FeedAlert, read_alert
from fraud_control.feed.memory import FeedMemory
from fraud_control.feed.place import FeedSource
from tests.support.control_plane.alerts import alert_json

NOW = 500_000 * HOUR_MS + 1_800_000


def alert(
    number: int, at_ms: int, rule_id: int = 1, severity: str | None = "high", *, payer: int = 7, shadow: bool = False
) -> FeedAlert:
    source = FeedSource.SHADOW if shadow else FeedSource.ALERTS
    rule = {"ruleId": rule_id} | ({} if severity is None else {"severity": severity})
    record = alert_json(number, rule_id, violatedRule=rule, key={"payeeId": payer}, eventTime=at_ms, shadow=shadow)
    return read_alert(source, number, at_ms, record)


def test_alerts_count_by_hour_severity_rule_and_key() -> None:
    figures = DayFigures()
    for each in (
        alert(1, NOW, 1, "Critical"),
        alert(2, NOW, 2, None, payer=8),
        alert(3, NOW - 23 * HOUR_MS, 2, payer=8),
        alert(4, NOW - 24 * HOUR_MS, 3),  # before the day
        alert(5, NOW, 4, shadow=True),
    ):
        figures.add_alert(each)
    summary = figures.summary(NOW)
    assert len(summary.hours) == 24
    assert summary.since_ms == summary.hours[0].at_ms == (500_000 - 23) * HOUR_MS
    assert dict(summary.hours[0].live) == {"high": 1}
    assert (dict(summary.hours[-1].live), summary.hours[-1].shadow) == ({"critical": 1, "": 1}, 1)
    assert summary.rules == [(2, 2, 0), (1, 1, 0), (4, 0, 1)]
    assert [(each.field, [(of.value, of.alerts) for of in each.values]) for each in summary.keys] == [
        ("payeeId", [("8", 2), ("7", 1)])
    ]


def test_decisions_count_by_outcome() -> None:
    figures = DayFigures()
    document = {"transactionId": 1, "score": 90, "outcome": "DECLINE", "alerts": [], "eventTime": NOW}
    figures.add_decision(read_decision(0, NOW, json.dumps(document).encode()))
    figures.add_decision(read_decision(1, NOW - 24 * HOUR_MS, json.dumps(document).encode()))
    assert dict(figures.summary(NOW).decisions) == {"DECLINE": 1}


def test_only_live_alerts_of_the_day_count_as_reviewed() -> None:
    figures = DayFigures()
    found = [alert(1, NOW), alert(2, NOW - 24 * HOUR_MS), alert(3, NOW, shadow=True)]
    for each in found:
        figures.add_alert(each)
    assert figures.count_of([each.facts.alert_id for each in found], NOW) == 1


def test_hours_before_the_day_are_forgotten() -> None:
    figures = DayFigures()
    for hour in range(100):
        figures.add_alert(alert(hour, NOW + hour * HOUR_MS))
    assert sum(sum(hour.live.values()) for hour in figures.summary(NOW).hours) == 0
    assert len(figures._hours) <= 25


def test_a_repeated_alert_counts_once() -> None:
    memory = FeedMemory()
    for _ in range(2):
        memory.add(alert(1, NOW))
    assert dict(memory.day.summary(NOW).hours[-1].live) == {"high": 1}


def test_the_summary_lists_the_most_frequent_of_very_many_alerts() -> None:
    figures = DayFigures()
    for number in range(20_000):
        hours_ago = number % 24
        figures.add_alert(alert(number, NOW - hours_ago * HOUR_MS, number % 200, payer=number % 10_000))
    summary = figures.summary(NOW)
    assert len(summary.rules) == len(summary.keys[0].values) == 10
    assert sum(sum(hour.live.values()) for hour in summary.hours) == 20_000
