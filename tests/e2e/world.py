"""The installation for browser tests: Airflow's API server, a broker, a detector, and users with roles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from fraud_demo.airflow import USER, AirflowSite, Component, LocalAirflow
from fraud_demo.steering import VARIABLE as STEERING
from fraud_demo.steering import Steering, TrafficState
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime import clock
from tests.support.kafka.own_broker import running_broker
from tests.support.kafka.own_topics import OwnTopics, create_topics
from tests.support.nightly.archived import Site
from tests.support.ports import free_ports
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.waiting import until

PASSWORD = "a password"
ROLES = {USER: "admin", "ann": "analyst", "ben": "approver", "vera": "viewer"}
START_S = 240.0
ARCHIVED = 1_000
NO_TRAFFIC = TrafficState(0)
"""The state in which the demo page shows its controls while no traffic runs."""


@dataclass
class World:
    """A running installation. `control` is the URL of the pages."""

    airflow: LocalAirflow
    topics: OwnTopics
    steering: Steering
    detector: RunningDetector
    _sent: int = field(default=0)
    _tokens: dict[str, str] = field(default_factory=dict)

    @property
    def control(self) -> str:
        return f"{self.airflow.site.url}/fraud/control"

    def token(self, user: str) -> str:
        """Log in once per user; return the token."""
        if user not in self._tokens:
            self._tokens[user] = self._login(user)
        return self._tokens[user]

    def _login(self, user: str) -> str:
        answer = httpx.post(
            f"{self.airflow.site.url}/auth/token",
            json={"username": user, "password": PASSWORD},
            trust_env=False,
            timeout=180,
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["access_token"])

    def ask(self, method: str, path: str, user: str = USER, **options: Any) -> httpx.Response:
        """Send a request to the API directly."""
        headers = {"Authorization": f"Bearer {self.token(user)}", **options.pop("headers", {})}
        return httpx.request(
            method, f"{self.control}/api{path}", headers=headers, trust_env=False, timeout=180, **options
        )

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
            transaction = {
                "transactionId": now_ms * 1_000 + self._sent,
                "eventTime": now_ms,
                "payeeId": payer,
                "beneficiaryId": beneficiary,
                "paymentType": kind,
                "paymentAmount": amount,
            }
            records.append((str(payer).encode(), json.dumps(transaction).encode()))
        append_records(self.topics.kafka, self.topics.names.transactions, records)

    def restart_detector(self) -> None:
        """Start the detector again from its checkpoint, after a kill."""
        self.detector = RunningDetector(self.detector.installation)
        self.detector.wait_ready()

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
        stack.callback(detector.kill)
        steering = Steering(folder / "steering")
        steering.write_state(NO_TRAFFIC)
        archived(folder / "archive", project)
        airflow = LocalAirflow(_site(project, folder, broker))
        airflow.prepare()
        stack.callback(airflow.stop)
        airflow.start(Component.API_SERVER, Component.CONTROL_PLANE)
        running = World(airflow, topics, steering, detector)
        stack.callback(lambda: running.detector.kill())
        until(lambda: _answers(running), f"the control plane answers (logs: {airflow.logs})", START_S)
        for user, role in ROLES.items():
            if user != USER:
                assert running.ask("PUT", f"/bindings/{user}", json={"role": role}).status_code == 200
        detector.wait_ready()
        yield running


def _site(project: Project, folder: Path, broker: Broker) -> AirflowSite:
    passwords = folder / "logins.json"
    passwords.write_text(json.dumps(dict.fromkeys(ROLES, PASSWORD)), encoding="utf-8")
    users = ",".join(f"{user}:{'admin' if user == USER else 'viewer'}" for user in ROLES)
    port, control_port = free_ports(2)
    return AirflowSite(
        home=folder / "airflow",
        project=project,
        port=port,
        control_port=control_port,
        password=PASSWORD,
        connections={"fraud_kafka": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap}}},
        settings={
            "CORE__SIMPLE_AUTH_MANAGER_USERS": users,
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        },
        variables={"fraud_archive": str(folder / "archive")},
        process_variables={STEERING: str(folder / "steering")},
    )


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


def _answers(running: World) -> bool:
    running.airflow.check()
    try:
        return running.ask("GET", "/me").status_code == 200 and running.ask("GET", "/rules").status_code == 200
    except (httpx.HTTPError, AssertionError):
        return False
