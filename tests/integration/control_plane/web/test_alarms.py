"""The page Detector lists alarms of this server, and alarms of Airflow's tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fraud_ops.alarms import Alarm, RaisedAlarm, encode_alarm
from fraud_ops.control_plane.composition import ControlPlane
from fraud_ops.control_plane.settings import ControlPlaneSettings, Flood
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.web.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
def settings(settings: ControlPlaneSettings) -> ControlPlaneSettings:
    return replace(settings, flood=Flood(alerts_per_minute=10))


def flood(plane: ControlPlane) -> None:
    for number in range(30):
        plane.memory.add(replace(alert(number, 5), append_ms=now_ms()))


def test_alarms_of_a_server_and_of_a_task_are_listed(server: Server) -> None:
    assert server.ask("GET", "/alarms", "viewer").json() == {"items": [], "alarmReceivers": []}
    task = Alarm("TASK_FAILED", "detector", "no space left", source="javascript:alert(1)", part="fraud_archive.archive")
    append_records(server.topics.kafka, server.topics.names.alarms, [(b"TASK_FAILED", encode_alarm(RaisedAlarm(task)))])
    flood(server.plane)

    def listed() -> dict[str, dict[str, object]] | None:
        items = server.ask("GET", "/alarms", "viewer").json()["items"]
        return {each["name"]: each for each in items} if len(items) == 2 else None

    found = until(listed, "both alarms", 30)
    assert found["TASK_FAILED"].items() >= {
        "severity": "warning", "part": "fraud_archive.archive", "said": "no space left", "source": "", "count": 1,
        "runbook": "/fraud/runbooks/task-failed", "receivers": [], "cleared": None, "old": False,
    }.items()  # fmt: skip
    assert found["ALERT_FLOOD"].items() >= {"part": "rule 5", "receivers": ["fraud_webhook"], "old": False}.items()
    assert [each.name for each in server.alarms] == ["ALERT_FLOOD"]
