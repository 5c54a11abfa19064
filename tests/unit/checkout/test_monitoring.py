"""config/monitoring: each expression is PromQL, and each metric is one that detector or agent exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import generate_latest

from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.agent.metrics import AgentMetrics
from fraud_rules.deploy.heartbeat import AGENT_SILENT_MS
from fraud_rules.stream.driver.metrics import DetectorMetrics
from tests.support.places import ROOT

FOLDER = ROOT / "config" / "monitoring"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alert-rules.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
_METRIC = re.compile(r"\bfraud_[a-z0-9_]+")
_SERIES = re.compile(r"^(fraud_[a-z0-9_]+)(?:\{(.*)\})? ", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="')


def exported() -> dict[str, set[str]]:
    """The labels of each series that the processes export, by name."""
    found: dict[str, set[str]] = {"fraud_unreadable_records_total": {"topic"}}
    for metrics in (DetectorMetrics("detector"), AgentMetrics("detector")):
        for name, labels in _SERIES.findall(generate_latest(metrics.registry).decode()):
            found[name] = set(_LABEL.findall(labels))
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES)
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_is_valid_and_uses_exported_metrics(expression: str) -> None:
    promql_parser.parse(expression.replace("$detector", "detector"))
    known = exported()
    names = _METRIC.findall(expression)
    assert names
    for name in names:
        assert name in known, f"{name} is not exported"
        for labels in re.findall(r"by \(([^)]*)\)", expression):
            assert {each.strip() for each in labels.split(",")} <= known[name]


def test_a_renamed_metric_would_be_found() -> None:
    assert "fraud_detector_lag" in exported()
    assert "fraud_detector_lags" not in exported()


def test_each_alert_rule_has_a_severity_a_summary_and_a_runbook() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]
        assert (ROOT / "docs" / "runbooks" / rule["annotations"]["runbook"]).is_file()


def test_the_limits_are_those_of_the_settings() -> None:
    health = HealthSettings()
    limits = {rule["alert"]: rule["expr"].rpartition("> ")[2] for rule in RULES}
    assert limits["FraudDetectorStalled"] == str(health.stalled_ms // 1_000)
    assert limits["FraudDetectorLagging"] == str(health.lag)
    assert limits["FraudAgentSilent"] == str(AGENT_SILENT_MS // 1_000)


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
