"""config/monitoring: each expression is PromQL, and each metric is one that the processes export."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry

from fraud_control.domain.read_models import OutboxState
from fraud_control.sync.reader_state import ReaderState
from fraud_control.watch.store_watch import STUCK_MS
from fraud_control.web.load.metrics import ControlPlaneMetrics, ServerFigures
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.agent.metrics import AgentMetrics
from fraud_rules.deploy.heartbeat import AGENT_SILENT_MS
from fraud_rules.kafka.decoding import UNREADABLE_RECORDS
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
_SERVED = re.compile(r'metrics"?[,:] "0\.0\.0\.0:(\d+)"')
_ADDED_BY_PROMETHEUS = {"instance", "job"}


def registries() -> list[CollectorRegistry]:
    """The registries of all processes, with a sample of each series."""
    UNREADABLE_RECORDS.labels("rules").inc(0)
    reader = ReaderState("mirror", "rules", 7, 9, 2, 1_000, stuck=False, fault="no answer")
    control_plane = ControlPlaneMetrics()
    control_plane.started(lambda: ServerFigures(OutboxState(1, 1_000), [reader], {"mirror": "no answer"}, 3))
    control_plane.durations.labels("GET", "200").observe(0.1)
    return [DetectorMetrics("detector").registry, AgentMetrics("detector").registry, control_plane.registry]


def exported() -> dict[str, set[str]]:
    """The labels of each series that the processes export, by name."""
    families = [family for registry in registries() for family in registry.collect()]
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def test_names_and_texts_follow_the_conventions_of_prometheus() -> None:
    for registry in registries():
        for family in registry.collect():
            names = {sample.name for sample in family.samples}
            assert names, f"{family.name} has no sample"
            assert family.name.startswith(("fraud_", "process_")) and family.documentation
            assert not re.search(r"_(ms|millis|kb|mb|percent)(_|$)", family.name), "base units only"
            if family.type == "counter":
                assert any(name.endswith("_total") for name in names)
            else:
                assert not any(name.endswith("_total") for name in names if name.startswith("fraud_"))


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
            assert {each.strip() for each in labels.split(",")} <= known[name] | _ADDED_BY_PROMETHEUS


def test_a_renamed_metric_would_be_found() -> None:
    assert "fraud_detector_waiting_transactions" in exported()
    assert "fraud_detector_waiting_transaction" not in exported()


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
    assert limits["FraudOutboxStuck"] == str(STUCK_MS // 1_000)
    assert limits["FraudAgentSilent"] == str(AGENT_SILENT_MS // 1_000)


def test_compose_and_kubernetes_serve_the_metrics_of_each_process_at_the_ports_of_the_page() -> None:
    page = (ROOT / "docs" / "run.md").read_text(encoding="utf-8")
    ports = set(re.findall(r'"[a-z-]+-host:(\d+)"', page))
    assert len(ports) == 3
    assert set(_SERVED.findall((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))) == ports
    base = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "deploy" / "kubernetes" / "base").iterdir())
    assert set(re.findall(r"name: (?:agent-)?metrics, port: (\d+)", base)) == ports
    # The connection spark_default has the address of the detector's metrics.
    assert {*_SERVED.findall(base), "9109"} == ports


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
