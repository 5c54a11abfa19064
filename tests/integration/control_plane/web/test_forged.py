"""Records that other programs write to the detector's topics: every page answers, and the records around them count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.logs.rule_status import await_operations, read_operations
from tests.support.control_plane.alerts import alert_json
from tests.support.control_plane.hostile import HOSTILE
from tests.support.control_plane.web.server import Server
from tests.support.kafka.records import produce
from tests.support.records.progress import progress_document
from tests.support.waiting import until

HUGE = 10**30
DEEP = json.loads("[" * 800 + "]" * 800)
OPERATION = {"ruleVersion": 5, "status": "LIVE", "batchId": 1, "time": 1_700_000_000_000, "ruleId": 1, "reasons": []}
LATE = {
    "transaction": {"transactionId": 8, "paymentAmount": 5},
    "latenessMs": 700,
    "groupings": [{"fields": ["payeeId"], "latenessMs": 700}],
}
PROGRESS = progress_document(7, {"transactions": {"0": 5}}, rows=3, rulesInForce=1, retainedEvents=3)


def records(*documents: Any) -> list[bytes | None]:
    return [*HOSTILE.values(), *(each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents)]


@pytest.fixture
def forged(server: Server) -> Server:
    """A control plane whose topics have forged records, each with one good record at the end."""
    names, detector = server.topics.names, server.plane.detector.detector.encode()
    good_alert = json.loads(alert_json(9))
    forged_alerts = [
        {**good_alert, "windowStart": HUGE},
        {**good_alert, "ruleId": HUGE},
        {**good_alert, "key": {"payeeId": DEEP}},
        {**good_alert, "key": {"payeeId": HUGE}},
        {**json.loads(alert_json(3)), "violatedRule": None},
        {**json.loads(alert_json(4)), "violatedRule": {"ruleId": DEEP}},
        {**json.loads(alert_json(5)), "ingestionTime": HUGE},
    ]
    by_topic = {
        names.alerts: (records(*forged_alerts, good_alert), b"k"),
        names.shadow_alerts: (records(), b"k"),
        names.alert_corrections: (
            records(
                {"alertId": "x", "kind": "RETRACTED", "correctedAt": HUGE},
                {"alertId": good_alert["alertId"], "kind": "RETRACTED", "correctedAt": 9, "ruleId": 1},
            ),
            b"k",
        ),
        names.rule_operations: (
            records({**OPERATION, "ruleVersion": HUGE}, {**OPERATION, "time": HUGE}, {"ruleVersion": "x"}, OPERATION),
            b"k",
        ),
        names.late_transactions: (
            records(
                {"x": 1}, {**LATE, "transaction": {"a": DEEP}}, {**LATE, "transaction": {"a": HUGE}},
                {**LATE, "latenessMs": HUGE}, {**LATE, "groupings": [{"fields": 5}]}, LATE,
            ),
            b"k",
        ),
        names.detector_progress: (
            records({**PROGRESS, "rows": HUGE}, {**PROGRESS, "endOffsets": {"transactions": {"x": 1}}}, PROGRESS),
            detector,
        ),
    }  # fmt: skip
    for topic, (values, key) in by_topic.items():
        produce(server.topics.bootstrap, topic, values, key=key)
    for header in (b"9" * 5_000, b"7"):
        _quarantine(server, header)
    feed = server.plane.memory
    until(
        lambda: feed.alert(good_alert["alertId"]) and feed.correction(good_alert["alertId"]) and feed.operation(5),
        "the good records of the alerts are read",
    )
    until(
        lambda: feed.newest_progress() and feed.late and len(feed.quarantine) > 1,
        "the good records of the other topics are read",
    )
    return server


def _quarantine(server: Server, offset: bytes) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": server.topics.bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [
        ("reason", "empty"),
        ("offset", offset),
        ("detail", b"\xff"),
        ("topic", None),
    ]
    producer.produce(server.topics.names.quarantine, b"\xff{", headers=headers)
    assert producer.flush(30) == 0


def test_pages_and_commands_show_good_records_and_skip_forged_ones(forged: Server) -> None:
    _check_progress(forged)
    _check_pages(forged)
    _check_evidence(forged)
    _check_commands(forged)


def _check_progress(forged: Server) -> None:
    progress = forged.ask("GET", "/progress")
    assert progress.status_code == 200, progress.text
    shown = progress.json()
    assert [each["transaction"]["transactionId"] for each in shown["late"]] == [8]
    assert [each["offset"] for each in shown["quarantine"]][:2] == [7, -1]
    assert shown["status"]["batchId"] == 7
    assert shown["faults"] == []
    skipped, names = shown["unreadable"], forged.topics.names
    assert skipped[names.late_transactions] == len(HOSTILE) + 5
    assert skipped[names.rule_operations] == len(HOSTILE) + 3


def _check_pages(forged: Server) -> None:
    for path in (
        "/alerts",
        "/alerts?key=7",
        "/alerts?snoozed=true",
        "/operations",
        "/rules",
        "/quality",
        "/deliveries",
        "/drift",
        "/audit",
    ):
        answer = forged.ask("GET", path)
        assert answer.status_code == 200, (path, answer.text)
    listed = forged.ask("GET", "/alerts").json()["items"]
    assert sorted(each["alertId"][:8] for each in listed) == ["00000003", "00000004", "00000005", "00000009"]


def _check_evidence(forged: Server) -> None:
    for alert in forged.ask("GET", "/alerts").json()["items"]:
        answer = forged.ask("GET", f"/alerts/{alert['alertId']}/evidence")
        assert answer.status_code == 200, answer.text
        evidence = answer.json()
        unreadable = alert["alertId"].startswith(("00000003", "00000005"))
        assert evidence["count"] == 0 and ("unreadable" in evidence["missing"]) == unreadable, evidence


def _check_commands(forged: Server) -> None:
    kafka, topic = forged.topics.kafka, forged.topics.names.rule_operations
    assert list(read_operations(kafka, topic)) == [5]
    assert list(await_operations(kafka, topic, {5}, 30)) == [5]
