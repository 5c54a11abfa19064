"""The answers of the page *Data* have all members of the summaries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from fraud_control.web.routes.data_health import get_data_health, get_rule_health
from fraud_rules.logs.data_health import HOUR_MS, HealthHour, RuleHour
from fraud_rules.logs.detector_status import ReasonCount
from fraud_rules.runtime.clock import now_ms


def plane(hours: list[HealthHour] | None) -> Any:
    return SimpleNamespace(health_hours=lambda: hours, schema=SimpleNamespace(names=("amount",)))


def test_the_answers_have_the_figures_and_the_runbooks() -> None:
    at_ms = now_ms() // HOUR_MS * HOUR_MS
    before = HealthHour(at_ms - HOUR_MS, at_ms - HOUR_MS, at_ms, "q", 0, rows=100)
    newest = HealthHour(
        at_ms, at_ms, at_ms, "q", 1, rows=100, nulls={"amount": 99}, quarantined={"no_json": ReasonCount(2, "cut")},
        rules={5: RuleHour(3, 2, 1, at_ms, 9)}, keys={"payeeId": 9},
    )  # fmt: skip
    shown = msgspec.json.decode(get_data_health(plane([before, newest])).body)
    assert [(each["verdict"], each["runbook"].rpartition("/")[2]) for each in shown["faults"]] == [
        ("FIELD_NULL", "field-null")
    ]
    assert (shown["recorded"], len(shown["hours"]), shown["reasons"][0]["detail"]) == (True, 2, "cut")
    rule = msgspec.json.decode(get_rule_health(plane([before, newest]), 5).body)
    assert rule == {
        "since": at_ms, "rows": 100, "passed": 3, "held": 2, "alerts": 1, "lastAlert": at_ms, "keys": 9, "faults": [],
    }  # fmt: skip


def test_a_missing_topic_is_named() -> None:
    shown = msgspec.json.decode(get_data_health(plane(None)).body)
    assert (shown["recorded"], shown["since"], shown["hours"]) == (False, None, [])
    assert msgspec.json.decode(get_rule_health(plane(None), 5).body)["since"] is None
