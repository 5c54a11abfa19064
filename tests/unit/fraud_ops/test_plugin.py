"""The plugin's modules in Airflow, and the round trip of triggers through Airflow's database."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger
from fastapi import HTTPException
from fastapi.testclient import TestClient

from fraud_control.web.documents.runbook_pages import create_app, visible_log
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules_airflow.airflow_ui.web_parts import DeferredParts, applications, pages_address
from fraud_rules_airflow.triggers.detector import OutcomeTrigger, SupervisionTrigger
from fraud_rules_airflow.triggers.rules import RulesLiveTrigger
from fraud_rules_airflow.triggers.warm_up import WarmUpTrigger
from tests.support.sources import sources

LOADED = """
import json, sys
from airflow import plugins_manager, sdk
from airflow.sdk.execution_time.xcom import XCom
before = set(sys.modules)
names = [plugin.name for plugin in plugins_manager._get_plugins()[0]]
links = [link.name for link in plugins_manager.get_operator_extra_links()]
folder = sys.argv[1]
loaded = [name for name, module in sys.modules.items() if (getattr(module, "__file__", None) or "").startswith(folder)]
print(json.dumps({"plugins": names, "links": links, "loaded": loaded, "added": sorted(set(sys.modules) - before)}))
"""

TRIGGERS: list[BaseTrigger] = [
    OutcomeTrigger("healthy", 7, kafka_conn_id="fraud_kafka", limits=asdict(HealthSettings(lag=5)), look_s=0.5),
    SupervisionTrigger(
        kafka_conn_id="fraud_kafka",
        spark_conn_id="spark_default",
        ends_ms=5,
        declared="f00d",
        known="DEAD@3",
        link="http://here",
        limits=asdict(HealthSettings(lag=5)),
    ),
    RulesLiveTrigger([3, 1], kafka_conn_id="fraud_kafka"),
    WarmUpTrigger("fraud_kafka", look_s=0.5),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_a_trigger_goes_through_the_database_and_back(trigger: BaseTrigger) -> None:
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    again = getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_no_trigger_acts_when_its_task_is_killed(trigger: BaseTrigger) -> None:
    """Cleared, marked or deleted tasks leave the detector as it is."""
    assert type(trigger).on_kill is BaseTrigger.on_kill
    assert type(trigger).cleanup is BaseTrigger.cleanup


def test_only_the_registration_module_is_loaded_by_its_bare_name(project: Project) -> None:
    found = loaded(project)
    assert "fraud_rules" in found["plugins"]
    assert set(found["links"]) >= {"Spark UI", "Detector logs", "Runbook"}
    stems = {path.stem for path in sources("plugins")} - {"fraud_plugin", "__init__"}
    assert not stems.intersection(found["loaded"])
    assert {name.partition(".")[0] for name in found["loaded"]} <= {"fraud_plugin", "fraud_ops", "fraud_rules_airflow"}


def test_tasks_of_other_dags_do_not_load_the_control_plane(project: Project) -> None:
    added = set(loaded(project)["added"])

    assert added
    assert not {"fastapi", "numba", "pyarrow", "sqlalchemy.orm", "fraud_control.web"}.intersection(added)
    assert not [name for name in added if name.startswith("fraud_control.web")]


def test_the_api_server_gets_one_application_below_one_path() -> None:
    assert [each["url_prefix"] for each in DeferredParts(applications)] == ["/fraud"]


@cache
def loaded(project: Project) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(project.root / "plugins")], capture_output=True, text=True, check=True
    )
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_runbooks_require_a_login() -> None:
    def refuse() -> None:
        raise HTTPException(401)

    closed = TestClient(create_app(refuse, refuse))
    for path in ("/runbooks/stalled", "/runbooks/runbook.js", "/logs?path=/etc/passwd", "/docs", "/openapi.json"):
        assert closed.get(path).status_code in (401, 404), path
    client = TestClient(create_app(lambda: None, lambda: None))
    page = client.get("/runbooks/stalled")
    assert "<h1>STALLED</h1>" in page.text
    assert 'href="crash-loop"' in client.get("/runbooks/dead").text
    assert client.get("/runbooks/nothing").status_code == 404
    behind = client.get("/runbooks/archive-behind").text
    assert '<a href="../../dags/fraud_archive" target="_top">Open fraud_archive in Airflow</a>' in behind
    assert '<a href="../../dags/fraud_topics" target="_top"><code>fraud_topics</code></a>' in behind
    assert 'href="../' not in client.get("/runbooks/blind").text.partition("<main>")[2].replace("../../dags/", "")
    assert client.get("/runbooks/runbook.css").headers["content-type"].startswith("text/css")
    assert client.get("/runbooks/runbook.js").headers["content-type"].startswith("text/javascript")
    assert "root:" not in client.get("/logs?path=/etc/passwd").text


@pytest.mark.parametrize(
    ("base_url", "address"),
    [("", "/fraud/control/"), ("https://host:8443", "/fraud/control/"), ("https://host/af/", "/af/fraud/control/")],
)
def test_the_link_in_the_navigation_is_below_the_path_of_airflow(
    monkeypatch: pytest.MonkeyPatch, base_url: str, address: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    assert pages_address() == address


def test_only_logs_of_this_installation_are_shown(tmp_path: Path) -> None:
    project = Project(tmp_path)
    attempt = tmp_path / "var" / "agent" / "attempts" / "a1"
    logs = [attempt / name for name in ("detector.log", "check.log", "starter.log")]
    payments = tmp_path / "var" / "broker" / "transactions-0" / "00000000000000000000.log"
    others = [payments, attempt / "other.log", attempt / "detector.yaml", tmp_path / "attempts" / "a1" / "detector.log"]
    for path in (*logs, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert [visible_log(str(log), project) for log in logs] == logs
    hidden = [*map(str, others), f"{attempt}/../../../../attempts/a1/detector.log", "/etc/passwd"]
    assert [visible_log(path, project) for path in hidden] == [None] * len(hidden)
