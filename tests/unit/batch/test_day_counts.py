"""The counts of a re-evaluated day by rule."""

from __future__ import annotations

from html import escape
from typing import Any

from fraud_rules.batch.reevaluation.page import rules_table
from fraud_rules.batch.reevaluation.published import PublishedAlerts
from fraud_rules.batch.reevaluation.summing import DayAlerts, count_day
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.control_plane.alerts import alert
from tests.support.rules import rule_log, sum_rule

NULLABLE = load_schema("nullable")
RULE: dict[str, Any] = sum_rule(limit=20000, windowMinutes=10, filter="paymentAmount > 5")


def test_the_table_of_rules_has_each_rule_in_words() -> None:
    (entry,) = rule_log([RULE], 0, NULLABLE).entries
    published = PublishedAlerts(live={"a": alert(1, 1).json, "b": alert(2, 99).json})
    counts = count_day(Day.parse("2026-11-18"), DayAlerts({}, {}, {}), published, [], [entry], NULLABLE)
    words = "Alert when one payeeId has a total paymentAmount of more than 20,000 within 10 minutes."
    assert [(each.rule_id, each.says) for each in counts.rules] == [
        (1, f"{words} Only payments where paymentAmount > 5 count."),
        (99, ""),
    ]
    assert escape(counts.rules[0].says) in rules_table(counts.rules)
