"""The control plane in a real API server of Airflow's, over a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from fraud_ops.control_plane.web.app import PREFIX
from fraud_rules.demo.airflow import USER, AirflowSite, Component, LocalAirflow
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.declared import load_topics
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.project import Project
from tests.control.web.server import RULE
from tests.control.web.streams import StreamReader
from tests.control.web.test_feed import alert_json
from tests.ports import free_ports
from tests.waiting import until

PASSWORD = "a password"
ANEW = {"Connection": "close"}


class ApiServer:
    """A running API server, and a way to ask it."""

    def __init__(self, airflow: LocalAirflow) -> None:
        self.airflow = airflow
        self.api = f"{airflow.site.url}{PREFIX}/api"
        self._client = httpx.Client(timeout=30)
        self._tokens: dict[str, str] = {}

    def start(self) -> None:
        """Return once the control plane answers."""
        self.airflow.start(Component.API_SERVER)
        until(lambda: self._answers(), f"the control plane answers (logs: {self.airflow.logs})", 170)

    def ask(self, method: str, path: str, user: str = USER, **options: Any) -> httpx.Response:
        """A request to the API."""
        headers = {**self.headers(user), **options.pop("headers", {})}
        return self._client.request(method, self.api + path, headers=headers, **options)

    def headers(self, user: str = USER) -> dict[str, str]:
        """What a login gives."""
        if user not in self._tokens:
            body = {"username": user, "password": PASSWORD}
            answer = self._client.post(f"{self.airflow.site.url}/auth/token", json=body)
            assert answer.status_code == 201, answer.text
            self._tokens[user] = answer.json()["access_token"]
        return {"Authorization": f"Bearer {self._tokens[user]}"}

    def stream(self, last_id: str | None = None) -> StreamReader:
        """A reader of the stream."""
        return StreamReader(f"{self.api}/alerts/stream", self.headers(), last_id)

    def _answers(self) -> bool:
        self.airflow.check()
        try:
            return self.ask("GET", "/me").status_code == 200 and self.ask("GET", "/quality").status_code == 200
        except (httpx.HTTPError, AssertionError):
            return False


@contextmanager
def api_server(
    broker: Broker,
    project: Project,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[LocalAirflow], None] | None = None,
) -> Iterator[ApiServer]:
    """An API server, ready; `admin` and `anna` may log in, unless settings of Airflow's say otherwise. `prepare` is
    called when Airflow's database is there."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap}}
    passwords = folder / "logins.json"
    site = AirflowSite(
        home=folder / "airflow",
        project=project,
        port=free_ports(1)[0],
        password=PASSWORD,
        connections={"fraud_kafka": kafka},
        settings={
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,anna:viewer",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            **(settings or {}),
        },
    )
    passwords.write_text(json.dumps(dict.fromkeys((USER, "anna"), PASSWORD)))
    airflow = LocalAirflow(site)
    airflow.prepare()
    if prepare is not None:
        prepare(airflow)
    server = ApiServer(airflow)
    try:
        server.start()
        yield server
    finally:
        airflow.stop()


@pytest.fixture
def served(broker: Broker, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """One over topics of the names that are configured, which no other test of a session uses."""
    declared = load_topics(project.config / "topics.yaml")
    topic_admin.apply(broker.kafka, declared)
    monkeypatch.setenv("FRAUD_CONTROL_DATABASE", f"sqlite:///{tmp_path / 'control.db'}")
    with api_server(broker, project, tmp_path) as server:
        yield server
    topic_admin.delete(broker.kafka, declared)


@pytest.mark.timeout(600)
def test_a_rule_goes_into_the_log_and_its_alerts_come_out(served: ApiServer, broker: Broker) -> None:
    anonymous = httpx.get(f"{served.api}/me")
    assert (anonymous.status_code, anonymous.headers["content-type"]) == (401, "application/problem+json")
    assert served.ask("PUT", "/bindings/anna", json={"role": "analyst"}).status_code == 200
    runbook = httpx.get(f"{served.airflow.site.url}/fraud/runbooks/README", headers=served.headers())
    assert "<h1>" in runbook.text, "what lies beside the control plane is still there"

    with served.stream() as reader:
        rule = served.ask("POST", "/rules", "anna", json={"document": RULE, "comment": "a first one"})
        assert rule.status_code == 201, rule.text
        rule_id = rule.json()["ruleId"]
        moved = served.ask(
            "POST",
            f"/rules/{rule_id}/state",
            "anna",
            json={"state": "SHADOW"},
            headers={"If-Match": rule.headers["etag"]},
        )
        assert moved.json()["state"] == "SHADOW"
        assert reader.await_event("rules").data["ruleId"] == rule_id
        version = until(lambda: _in_log(broker, rule_id), "the rule is in the log", 30)
        until(lambda: _activation(served, rule_id) == ("PENDING", version[0]), "the page knows its version", 30)
        append_records(broker.kafka, "rule-operations", [(b"1", _live(version[0], rule_id))])
        assert reader.await_event("operation").data["status"] == "LIVE"
        assert _activation(served, rule_id) == ("LIVE", version[0])

        _alert(broker, 1)
        assert len(reader.await_alerts(1)) == 1
        seen, last_id = reader.alerts(), reader.last_id
    for number in (2, 3, 4):
        _alert(broker, number)
    served.airflow.kill(Component.API_SERVER)
    served.airflow.stop()  # it is forgotten that it was to run
    served.start()
    _alert(broker, 5)
    with served.stream(last_id) as again:
        everything = seen + again.await_alerts(4)
    assert everything == [json.loads(alert_json(number))["alertId"] for number in range(1, 6)]
    listed = served.ask("GET", "/alerts", "anna").json()["items"]
    assert [each["alertId"] for each in listed] == everything[::-1]


@pytest.mark.timeout(600)
def test_several_workers_are_one_control_plane(
    broker: Broker, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever process somebody has come to, they hear of what is changed in another; the log has it once."""
    declared = load_topics(project.config / "topics.yaml")
    topic_admin.apply(broker.kafka, declared)
    monkeypatch.setenv("FRAUD_CONTROL_DATABASE", f"sqlite:///{tmp_path / 'control.db'}")
    with api_server(broker, project, tmp_path, {"API__WORKERS": "2"}) as server, ExitStack() as stack:
        readers = _readers_at(2, server, stack)
        rules = range(1, 9)
        # Each over a connection of its own, so that any process may be asked.
        made = [
            server.ask("POST", "/rules", json={"document": {**RULE, "ruleId": rule}}, headers=ANEW) for rule in rules
        ]
        moved = [
            server.ask("POST", f"/rules/{rule}/state", json={"state": "SHADOW"}, headers={**ANEW, "If-Match": '"1"'})
            for rule in rules
        ]
        wanted = [201] * len(rules) + [200] * len(rules)
        assert [each.status_code for each in (*made, *moved)] == wanted, [each.text for each in (*made, *moved)]
        until(lambda: all(_in_log(broker, rule) for rule in rules), "the rules are in the log", 30)
        _alert(broker, 1)
        for reader in readers:
            assert reader.await_alerts(1) == [json.loads(alert_json(1))["alertId"]]
            until(lambda of=reader: _rules_heard(of) >= set(rules), "a reader has heard of every rule", 30)
        assert [len(_in_log(broker, rule)) for rule in rules] == [1] * len(rules)
        verdict = server.ask("GET", "/audit/verify")
        assert verdict.json()["whole"], verdict.text
    topic_admin.delete(broker.kafka, declared)


def _readers_at(processes: int, server: ApiServer, stack: ExitStack) -> list[StreamReader]:
    """Readers of the stream, at so many of the server's processes; one that is starting yet sends them away."""
    readers: list[StreamReader] = []

    def another() -> bool:
        with suppress(httpx.HTTPStatusError):
            readers.append(stack.enter_context(server.stream()))
        return len(_serving(server)) >= processes

    until(another, f"{processes} processes have readers", 120)
    return readers


def _rules_heard(reader: StreamReader) -> set[int]:
    """The rules of whose changes a reader was told."""
    return {each.data["ruleId"] for each in list(reader.told) if each.name == "rules"}


def _serving(server: ApiServer) -> set[int]:
    """The processes that have somebody's connection."""
    port = server.airflow.site.port
    return {
        process.pid
        for process in server.airflow.processes(Component.API_SERVER)
        for each in process.net_connections("tcp")
        if each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED
    }


def _in_log(broker: Broker, rule_id: int) -> list[int]:
    records = read_topic(broker.kafka, "rules")[0]
    return [each.offset for each in records if json.loads(each.value or b"{}").get("ruleId") == rule_id]


def _activation(served: ApiServer, rule_id: int) -> tuple[str, int] | None:
    found = served.ask("GET", f"/rules/{rule_id}").json()["activation"]
    return None if found is None else (found["status"], found["logVersion"])


def _live(version: int, rule_id: int) -> bytes:
    said = {"ruleId": rule_id, "ruleVersion": version, "status": "LIVE", "batchId": 1, "time": int(time.time() * 1_000)}
    return json.dumps(said).encode()


def _alert(broker: Broker, number: int) -> None:
    append_records(broker.kafka, "alerts", [(b"k", alert_json(number))])
