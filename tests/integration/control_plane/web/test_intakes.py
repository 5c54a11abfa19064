"""Intakes of topics in a running server: alarms of Airflow's tasks, and labels, each beside those of this server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fraud_control.composition import ControlPlane
from fraud_control.settings import ControlPlaneSettings, Flood
from fraud_ops.alarms import Alarm, RaisedAlarm, encode_alarm
from fraud_rules.batch.whatif.place import LABELS_FILE
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.web.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.integration

FILE = {"name": "chargebacks.csv", "format": "csv", "content": "transactionId,label\n1,FRAUD\n2,NOT_FRAUD\n3,maybe\n"}


@pytest.fixture
def settings(settings: ControlPlaneSettings) -> ControlPlaneSettings:
    return replace(settings, flood=Flood(alerts_per_minute=10))


def flood(plane: ControlPlane) -> None:
    for number in range(30):
        plane.memory.add(replace(alert(number, 5), append_ms=now_ms()))


def test_alarms_of_a_server_and_of_a_task_are_listed(server: Server) -> None:
    assert server.ask("GET", "/alarms", "viewer").json() == {"items": [], "alarmReceivers": ["fraud_webhook"]}
    task = Alarm("TASK_FAILED", "detector", "no space left", source="javascript:alert(1)", part="fraud_archive.archive")
    append_records(server.topics.kafka, server.topics.names.alarms, [(b"TASK_FAILED", encode_alarm(RaisedAlarm(task)))])
    flood(server.plane)

    def listed() -> dict[str, dict[str, object]] | None:
        items = server.ask("GET", "/alarms", "viewer").json()["items"]
        return {each["name"]: each for each in items} if len(items) == 2 else None

    found = until(listed, "both alarms")
    assert found["TASK_FAILED"].items() >= {
        "severity": "warning", "part": "fraud_archive.archive", "said": "no space left", "source": "", "count": 1,
        "runbook": "/fraud/runbooks/task-failed", "receivers": ["fraud_webhook"], "cleared": None, "old": False,
    }.items()  # fmt: skip
    assert found["ALERT_FLOOD"].items() >= {"part": "rule 5", "receivers": ["fraud_webhook"], "old": False}.items()
    sent = {"ALERT_FLOOD", "TASK_FAILED"}  # no connection has accepted the alarm of the task
    until(lambda: {each.name for each in server.alarms} == sent, "the outbox sends both")
    ended = encode_alarm(RaisedAlarm(replace(task, resolved=True)))
    append_records(server.topics.kafka, server.topics.names.alarms, [(b"TASK_FAILED", ended)])

    def still_open() -> list[str]:
        return [each["name"] for each in server.ask("GET", "/alarms?open=true", "viewer").json()["items"]]

    until(lambda: still_open() == ["ALERT_FLOOD"], "only the flood is open")
    assert len(server.ask("GET", "/alarms", "viewer").json()["items"]) == 2


def test_labels_of_a_file_and_of_the_topic_reach_the_file_for_what_ifs(server: Server, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    assert server.ask("POST", "/labels", "viewer", json=FILE).status_code == 403
    answer = server.ask("POST", "/labels", "analyst", json=FILE)
    assert (answer.status_code, answer.json()) == (
        200, {"fraud": 1, "notFraud": 1, "skipped": {"unknown label": 1}},
    )  # fmt: skip
    values = [b"no json", b'{"transactionId": 1, "label": "NOT_FRAUD"}', b'{"transactionId": "4", "verdict": true}']
    append_records(server.topics.kafka, server.topics.names.labels, [(b"key", value) for value in values])

    def counts() -> dict[str, tuple[int, int]]:
        sources = server.ask("GET", "/labels", "viewer").json()["sources"]
        return {each["source"]: (each["fraud"], each["notFraud"]) for each in sources}

    until(lambda: counts() == {"mark": (0, 0), "file": (0, 1), "topic": (1, 1)}, "the labels of the topic")
    assert server.ask("GET", "/labels", "viewer").json()["unreadable"] == 1
    file = archive / LABELS_FILE

    def labels() -> dict[str, str]:
        lines = file.read_text().splitlines() if file.exists() else []
        return {each["transactionId"]: each["label"] for each in map(json.loads, lines)}

    until(lambda: labels() == {"1": "NOT_FRAUD", "2": "NOT_FRAUD", "4": "FRAUD"}, "the file of labels")


def test_an_upload_that_is_refused_has_a_reason(server: Server) -> None:
    for changes in ({"content": ""}, {"format": "parquet"}, {"name": "../x.csv"}, {"content": "x" * 8_000_000}):
        answer = server.ask("POST", "/labels", "analyst", json=FILE | changes)
        assert answer.status_code == 422, list(changes)
        assert answer.json()["title"]
