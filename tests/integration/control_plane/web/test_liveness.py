"""The liveness that every page shows, with handmade records of a detector."""

from __future__ import annotations

import json
from typing import Any

from fraud_control.domain.read_models import OutboxState
from fraud_control.web.load.metrics import server_figures
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.web.server import Server
from tests.support.kafka.records import produce
from tests.support.records.progress import progress_record
from tests.support.waiting import until


def write_batch(server: Server, ends: dict[str, int]) -> None:
    """The record of a batch that ended now, as the detector writes it."""
    names = server.topics.names
    record = progress_record(7, {names.transactions: ends}, rows=4, lag=126, rulesInForce=1, retainedEvents=4)
    key = f"{server.topics.prefix}detector".encode()
    produce(server.topics.bootstrap, names.detector_progress, [record], key=key)


def pay(server: Server, count: int) -> None:
    produce(server.topics.bootstrap, server.topics.names.transactions, [b"{}"] * count)


def test_every_page_shows_since_when_payments_wait(server: Server) -> None:
    def shown(**wanted: Any) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            answer = server.ask("GET", "/liveness", "viewer")
            assert answer.status_code == 200
            answered: dict[str, Any] = answer.json()
            return answered if wanted.items() <= answered.items() else None

        return until(found, f"{wanted}")

    names = server.topics.names
    pay(server, 3)
    never = shown(waiting=3)
    assert (never["since"], never["severity"]) == (None, "AMBER")
    assert (never["verdict"]["name"], never["verdict"]["tone"]) == ("STOPPED", "warn")

    before_ms = now_ms()
    write_batch(server, {"0": 1})
    since_ms = shown(waiting=2)["since"]
    assert before_ms <= since_ms <= now_ms()
    pay(server, 40)
    shown(waiting=42, since=since_ms)  # only the topic has the end of the batch

    write_batch(server, {"0": 43})
    shown(waiting=0, severity="NONE")
    progress = server.ask("GET", "/progress", "viewer").json()
    assert progress["gapMs"] == 25_000
    until(lambda: server_figures(server.plane).readers, "the readers were observed")
    figures = server_figures(server.plane)
    assert figures.outbox == OutboxState(0, None)
    assert {"mirror", "feed"} <= {each.name for each in figures.readers}

    why = [{"field": "windowMinutes", "message": "is required"}]
    for version, rule_id in ((4, 7), (9, None)):
        report = {
            "ruleVersion": version,
            "status": "REJECTED",
            "batchId": 1,
            "time": 1,
            "ruleId": rule_id,
            "reasons": why,
        }
        produce(server.topics.bootstrap, names.rule_operations, [json.dumps(report).encode()])
    refused = until(lambda: (found := server.ask("GET", "/refused-records").json()["items"])[1:] and found, "two")
    assert [(each["logVersion"], each["ruleId"], each["reasons"]) for each in refused] == [(9, None, why), (4, 7, why)]
