"""Alerts as lines of a terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.cli.display.alert_lines import read_alert_line

ALERT = {
    "ruleId": 4, "shadow": False, "key": {"payeeId": 3}, "triggeringValue": "4500", "windowCount": 1, "suppressed": 0,
    "eventTime": 1_700_000_000_000, "ingestionTime": 1_700_000_000_000,
}  # fmt: skip
RULE = {"aggregatorFunctionType": "MAX", "limitOperatorType": ">", "limit": 3}
PAST = {"value": "1041.5", "count": 12, "windowStart": 1, "windowEnd": 2}


@pytest.mark.parametrize(
    ("members", "baseline", "says"),
    [
        ({}, None, "MAX 4,500 > 3 of 1"),
        ({"limit": 20000}, None, "MAX 4,500 > 20,000 of 1"),
        ({"limit": 20000.5, "baseline": {"windowMinutes": 60}}, PAST, "MAX 4,500 > 20,000.5 x 1,041.5 of 1"),
        ({"baseline": {"windowMinutes": 60}}, PAST, "MAX 4,500 > 3 x 1,041.5 of 1"),
        ({"baseline": {"deviations": True}}, PAST, "MAX 4,500 > 1,041.5 + 3 deviations of 1"),
        (
            {"baseline": {"deviations": True}, "limitOperatorType": "LESS"},
            PAST,
            "MAX 4,500 LESS 1,041.5 - 3 deviations of 1",
        ),
        ({"baseline": "odd"}, PAST, "MAX 4,500 > 3 x 1,041.5 of 1"),
    ],
)
def test_a_line_compares_the_value_with_the_limit_and_the_baseline(
    members: dict[str, Any], baseline: dict[str, Any] | None, says: str
) -> None:
    alert = {**ALERT, "violatedRule": {**RULE, **members}, "baseline": baseline}
    assert says in read_alert_line(json.dumps(alert).encode(), 0).plain


def test_a_line_of_a_rule_with_conditions_only_counts_those_that_hold() -> None:
    alert = {**ALERT, "violatedRule": {"conditions": [{"ruleId": 1}, {"ruleId": 2}]}, "triggeringValue": "2"}
    assert "payeeId=3  2 conditions  -1700000000000 ms" in read_alert_line(json.dumps(alert).encode(), 0).plain
