"""The list of decisions of a server, read from the topics."""

from __future__ import annotations

import json
from typing import Any

from tests.support.control_plane.web.server import Server
from tests.support.kafka.records import produce
from tests.support.waiting import until


def decision(number: int, score: int, outcome: str) -> bytes:
    alerts = [{"ruleId": 1, "ruleVersion": 3, "alertId": f"a{number}", "weight": score}]
    document = {"transactionId": number, "score": score, "outcome": outcome, "alerts": alerts, "eventTime": 7}
    return json.dumps(document).encode()


def test_decisions_and_their_corrections_are_listed(server: Server) -> None:
    names, bootstrap = server.topics.names, server.topics.bootstrap
    produce(bootstrap, names.decisions, [decision(1, 60, "REVIEW"), b"unreadable", decision(2, 100, "DECLINE")])
    members = {"alertId": "a2", "kind": "RETRACTED", "correctedAt": 9, "ruleId": 1, "transactionId": 2}
    produce(bootstrap, names.alert_corrections, [json.dumps({**members, "score": 0, "outcome": "NOTE"}).encode()])

    def listed(query: str = "") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = server.ask("GET", f"/decisions{query}", "viewer").json()["items"]
        return items

    until(lambda: len(listed()) == 2 and listed()[0]["corrected"], "the decisions are read")
    assert [(each["transactionId"], each["outcome"]) for each in listed()] == [("2", "DECLINE"), ("1", "REVIEW")]
    assert listed()[0]["corrected"] == {"score": 0, "outcome": "NOTE"}
    assert [each["transactionId"] for each in listed("?outcome=NOTE")] == ["2"]
    assert [each["alerts"][0]["alertId"] for each in listed("?transaction=1")] == ["a1"]
    assert listed("?ruleId=9") == []
