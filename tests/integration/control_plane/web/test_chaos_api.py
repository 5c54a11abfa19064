"""Airflow's API server and the broker are killed while many clients change rules over HTTP. At the end a real detector
has the rules of the store in force.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from fraud_control.domain.lifecycle import StateName
from fraud_control.store.models import ItemHead
from fraud_local.airflow import Component
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.logs.rule_status import await_operations
from tests.support.control_plane.chaos import check_final_state, survive
from tests.support.control_plane.scene import Scene
from tests.support.control_plane.web.api_server import ApiServer, api_server
from tests.support.control_plane.web.server import RULE
from tests.support.control_plane.writers import SHARED, WRITERS, rules_of
from tests.support.kafka.own_topics import OwnTopics, create_topics
from tests.support.kafka.records import read_all
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.waiting import until

CHANGES = int(os.environ.get("FRAUD_CHANGES", "10000"))
KILLS = int(os.environ.get("FRAUD_KILLS", "20"))
RULES = 5 if CHANGES >= 1_000 else 1
AGAIN_S = 0.2


@dataclass
class Served:
    """An API server that a test kills at once, with its children."""

    server: ApiServer

    def start(self) -> None:
        self.server.start()

    def kill(self) -> None:
        self.server.airflow.kill(Component.CONTROL_PLANE)
        self.server.airflow.stop()  # it is forgotten that it was to run


class Writer(threading.Thread):
    """Bring each of its rules to a revision, one change after the other, also when requests fail."""

    def __init__(self, api: str, headers: Mapping[str, str], rules: list[int], revisions: int) -> None:
        super().__init__(daemon=True)
        self._client = httpx.Client(base_url=api, headers=dict(headers), timeout=30, trust_env=False)
        self._unfinished = set(rules)
        self._revisions = revisions
        self._stop_wanted = threading.Event()

    def stop(self) -> None:
        self._stop_wanted.set()
        self.join()
        self._client.close()

    def run(self) -> None:
        while self._unfinished and not self._stop_wanted.is_set():
            for rule_id in sorted(self._unfinished):
                try:
                    self._continue(rule_id)
                except httpx.HTTPError:  # the change may be in the store or not: the next read of the store decides
                    self._stop_wanted.wait(AGAIN_S)

    def _continue(self, rule_id: int) -> None:
        found = self._client.get(f"/rules/{rule_id}")
        if found.status_code not in (200, 404):
            self._stop_wanted.wait(AGAIN_S)
            return
        revision = found.json()["revision"] if found.status_code == 200 else 0
        if revision >= self._revisions:
            self._unfinished.discard(rule_id)
        else:
            answer = self._change(rule_id, revision + 1)
            assert answer.is_success or answer.status_code in (409, 412, 503), answer.text

    def _change(self, rule_id: int, revision: int) -> httpx.Response:
        """Make this revision. The sequence is that of the rules in `tests.support.control_plane.writers`."""
        document = {**RULE, "ruleId": rule_id, "description": str(revision)}
        if revision == 1:
            return self._client.post("/rules", json={"document": document})
        seen = {"If-Match": f'"{revision - 1}"'}
        if revision > 3 and revision % 4:
            return self._client.put(f"/rules/{rule_id}", json={"document": document}, headers=seen)
        state = {2: "SHADOW", 3: "ACTIVE"}.get(revision, ("PAUSE", "ACTIVE")[revision // 4 % 2 == 0])
        return self._client.post(f"/rules/{rule_id}/state", json={"state": state}, headers=seen)


@contextmanager
def writing(server: ApiServer, revisions: int) -> Iterator[None]:
    """Run eight writers meanwhile."""
    writers = [
        Writer(server.api, server.headers(), rules_of(number, RULES), revisions) for number in range(1, WRITERS + 1)
    ]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.stop()


def agrees(scene: Scene, server: ApiServer, topics: OwnTopics, installation: Installation) -> None:
    """Check that a detector that has just started reports the rules of the store in force and live."""
    detector = RunningDetector(installation)
    try:
        detector.wait_ready()
        sent = server.ask("POST", "/controls", json={"control": "EXPORT_RULES_CURRENT", "confirm": "", "comment": ""})
        assert sent.status_code == 202, sent.text
        in_log = [state.value for state in StateName if state.in_log]
        with scene.database.reading() as session:
            heads = session.scalars(select(ItemHead).where(ItemHead.state.in_(in_log))).all()
        versions = {head.rule_id: head.log_version for head in heads}
        assert set(versions) == {
            *(rule for number in range(1, WRITERS + 1) for rule in rules_of(number, RULES)),
            SHARED,
        }
        exported = until(lambda: export(topics, len(versions)), "the rules in force are exported")
        assert {each["ruleId"]: each["ruleVersion"] for each in exported} == versions
        documents = {head.rule_id: json.loads(head.document) for head in heads}
        beside = {"export", "position", "rules", "ruleVersion"}
        rules = [{name: value for name, value in each.items() if name not in beside} for each in exported]
        assert {each["ruleId"]: each for each in rules} == documents
        wanted = {version for version in versions.values() if version is not None}
        operations = await_operations(topics.kafka, topics.names.rule_operations, wanted, 120)
        assert {operations[version].rule_id: version for version in wanted} == versions
        assert {operation.status for operation in operations.values()} == {"LIVE"}
    finally:
        detector.kill()


def export(topics: OwnTopics, rules: int) -> list[dict[str, Any]] | None:
    """The rules that the detector has exported, once all of them are in the topic."""
    found = [json.loads(message.value()) for message in read_all(topics.bootstrap, topics.names.current_rules)]
    return found if len(found) >= rules else None


@pytest.mark.long
@pytest.mark.recovery
@pytest.mark.timeout(0)
def test_servers_and_brokers_killed_under_many_changes(
    scene: Scene, own_broker: Broker, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FRAUD_CHANGES (10,000) changes, FRAUD_KILLS (20) kills."""
    monkeypatch.setenv("FRAUD_CONTROL_DATABASE", scene.settings.database)
    monkeypatch.setenv("FRAUD_CONTROL_RATES_REQUESTS_PER_S", "100000")
    monkeypatch.setenv("FRAUD_CONTROL_RATES_CHANGES_PER_S", "100000")
    monkeypatch.setenv("FRAUD_CONTROL_RATES_SERVER_REQUESTS_PER_S", "100000")
    topics = create_topics(own_broker, project, prefix="")
    revisions = max(4, -(-CHANGES // (WRITERS * RULES + 1)))
    total = (WRITERS * RULES + 1) * revisions
    seed = random.randrange(1_000_000)
    with api_server(own_broker, project, tmp_path) as server:
        with writing(server, revisions):
            survive(scene, own_broker, Served(server), total, KILLS, seed)
        check_final_state(scene, topics, total)
        agrees(scene, server, topics, Installation.make(tmp_path / "detector", project, topics))
