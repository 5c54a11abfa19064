"""The installation for browser tests: Airflow's API server, a broker, a detector, and users with roles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fraud_demo.steering import VARIABLE as STEERING
from fraud_demo.steering import Steering, TrafficState
from fraud_local.airflow import LocalAirflow
from fraud_local.users import USER
from fraud_ops.paths import PAGES
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime import clock
from tests.support.control_plane.web.api_server import ApiServer, local_site
from tests.support.kafka.own_broker import running_broker
from tests.support.kafka.own_topics import OwnTopics, create_topics
from tests.support.nightly.archived import Site
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.records.payments import payment_record
from tests.support.waiting import until

ROLES = {USER: "admin", "ann": "analyst", "ben": "approver", "vera": "viewer"}
ARCHIVED = 1_000
NO_TRAFFIC = TrafficState(0)
"""The state in which the demo page shows its controls while no traffic runs."""


class World(ApiServer):
    """A running installation. `control` is the URL of the pages."""

    def __init__(self, airflow: LocalAirflow, topics: OwnTopics, steering: Steering, detector: RunningDetector) -> None:
        super().__init__(airflow)
        self.topics, self.steering, self.detector = topics, steering, detector
        self.control = f"{self.url}{PAGES}"
        self._sent = 0

    def rule(self, document: dict[str, Any], state: str | None = None, user: str = "ann") -> int:
        """Create a rule and, with `state`, make a transition. Return its id."""
        made = self.ask("POST", "/rules", user, json={"document": document})
        assert made.status_code == 201, made.text
        rule_id: int = made.json()["ruleId"]
        if state is not None:
            etag = made.headers["etag"]
            moved = self.ask("POST", f"/rules/{rule_id}/state", user, json={"state": state}, headers={"If-Match": etag})
            assert moved.status_code == 200, moved.text
        return rule_id

    def request_active(self, rule_id: int) -> None:
        """Request ACTIVE for a rule as an analyst."""
        etag = self.ask("GET", f"/rules/{rule_id}").headers["etag"]
        transition = {"state": "ACTIVE", "comment": "three frauds in a week, no false alert"}
        answer = self.ask("POST", f"/rules/{rule_id}/state", "ann", json=transition, headers={"If-Match": etag})
        assert answer.status_code == 202, answer.text

    def approve(self, rule_id: int) -> None:
        """Approve the open request of a rule."""
        found = self.ask("GET", "/approvals?open=true").json()["items"]
        (approval,) = (each["id"] for each in found if each["ruleId"] == rule_id)
        decided = self.ask("POST", f"/approvals/{approval}/approve", "ben", json={"comment": ""})
        assert decided.is_success, decided.text

    def await_live(self, rule_id: int) -> None:
        """Wait until the newest version of a rule is live."""

        def live() -> bool:
            activation = self.ask("GET", f"/rules/{rule_id}").json()["activation"]
            return activation is not None and activation["status"] == "LIVE"

        until(live, f"rule {rule_id} is live")

    def pay(self, payer: int, *amounts: float, beneficiary: int = 7, kind: str = "CRD") -> None:
        """Send payments of one payer with the current time."""
        now_ms = clock.now_ms()
        records = []
        for amount in amounts:
            self._sent += 1
            members = {"payeeId": payer, "beneficiaryId": beneficiary, "paymentType": kind, "paymentAmount": amount}
            record = payment_record(now_ms * 1_000 + self._sent, now_ms, **members)
            records.append((str(payer).encode(), record))
        append_records(self.topics.kafka, self.topics.names.transactions, records)

    def garbage(self, text: str) -> None:
        """Send an unreadable record."""
        append_records(self.topics.kafka, self.topics.names.transactions, [(b"0", text.encode())])


@contextmanager
def world(project: Project, folder: Path) -> Iterator[World]:
    """Start everything, with four eyes required and the configured topic names."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("FRAUD_CONTROL_DATABASE", f"sqlite:///{folder / 'control.db'}")
        patch.setenv("FRAUD_CONTROL_FOUR_EYES", "true")
        broker = stack.enter_context(running_broker(folder / "broker", project))
        topics = create_topics(broker, project, prefix="")
        detector = RunningDetector(Installation.make(folder / "detector", project, topics))
        steering = Steering(folder / "steering")
        steering.write_state(NO_TRAFFIC)
        archived(folder / "archive", project)
        site = local_site(
            folder / "airflow", project, broker.bootstrap,
            archive=folder / "archive",
            users={user: "viewer" for user in ROLES if user != USER},
            process_variables={STEERING: str(folder / "steering")},
        )  # fmt: skip
        running = World(LocalAirflow(site), topics, steering, detector)
        stack.callback(lambda: running.detector.kill())
        stack.enter_context(running.running())
        for user, role in ROLES.items():
            if user != USER:
                assert running.ask("PUT", f"/bindings/{user}", json={"role": role}).status_code == 200
        detector.wait_ready()
        yield running


def archived(folder: Path, project: Project) -> None:
    """Write an archive of two past days: each minute one of ten payers makes a payment of 10, 20, ... 100."""
    yesterday = Day.of(clock.now_ms()).plus(-1)
    steps: list[dict[str, Any]] = []
    for number in range(ARCHIVED):
        at_ms = yesterday.start_ms + (number - ARCHIVED // 2) * 60_000
        payment = {"transactionId": number, "eventTime": at_ms, "payeeId": number % 10, "beneficiaryId": 7}
        payment |= {"paymentType": "CRD", "paymentAmount": 10 * (number % 10 + 1)}
        steps.append({"at": at_ms, "tx": payment})
    site = Site.make(folder, {"steps": steps}, TransactionSchema.load(project.config / "schema.yaml"))
    site.archive(until_ms=yesterday.end_ms)
    # These payments were never in the broker's topic, so the archive has none of its offsets.
    manifest = site.store.latest()
    site.store.commit(msgspec.structs.replace(manifest, version=manifest.version + 1, ends={}))
