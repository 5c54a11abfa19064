"""Frauds that arrive a day late: no live alert, all of them found by the re-evaluation of their day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fraud_demo.fraud_patterns import SEED_FRAUDS
from fraud_demo.late_frauds import late_frauds
from fraud_rules.codec.rules.files import read_rule_file
from fraud_rules.configuration.project import Project
from fraud_rules.model.day import Day
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import replay_recording
from tests.support.conformance import load_schema
from tests.support.nightly.archived import Site
from tests.support.nightly.evaluated_days import evaluated

DAY = Day.parse("2026-11-19")


def test_every_pattern_is_missed_live_and_added_by_night(project: Project, tmp_path: Path) -> None:
    schema, at_ms = load_schema("default"), DAY.end_ms + 36_000_000
    planted = list(late_frauds(DAY))
    rules = [json.loads(r.value) for path in sorted((project.config / "rules").iterdir()) for r in read_rule_file(path)]
    steps: list[dict[str, Any]] = [{"at": at_ms, "rule": rule} for rule in rules]
    for number, (_, text) in enumerate(planted):
        now = {"transactionId": number, "eventTime": at_ms, "payeeId": number, "beneficiaryId": number % 5}
        steps.append({"at": at_ms + 1, "tx": {**json.loads(text), **now, "paymentAmount": 1}})
    steps += [{"at": at_ms + 2, "tx": json.loads(text)} for _, text in planted]
    site = Site.make(tmp_path, {"steps": steps, "keyGroups": 1}, schema)
    labels = {json.loads(text)["transactionId"]: label for label, text in planted}

    live = replay_recording(Recording.of_document(site.document), schema, site.settings)
    assert not {alert["transactionId"] for alert in live["alerts"]} & labels.keys()
    assert set(live["late"]) == labels.keys()

    site.archive()
    _, found = evaluated(site, DAY)
    alerts = [json.loads(text) for text in (*found.live.values(), *found.shadow.values())]
    assert {labels[alert["triggeringEvent"]["transactionId"]] for alert in alerts} == set(SEED_FRAUDS)
