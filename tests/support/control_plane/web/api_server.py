"""A real control plane behind a real Airflow API server, and a client for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from fraud_demo.airflow import USER, AirflowSite, Component, LocalAirflow
from fraud_ops.account import Account
from fraud_ops.paths import API
from fraud_ops.tickets import HEADER, Ticket, TicketKeys
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.web.streams import StreamReader
from tests.support.ports import free_ports
from tests.support.waiting import until

PASSWORD = "a password"
_MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"


class ApiServer:
    """A running API server and a client for it."""

    def __init__(self, airflow: LocalAirflow, url: str | None = None) -> None:
        self.airflow = airflow
        self.api = f"{url or airflow.site.url}{API}"
        self._client = httpx.Client(timeout=180)
        self._tokens: dict[str, str] = {}

    def start(self, *components: Component) -> None:
        """Start these components, or Airflow's server and the control plane. Return once the control plane answers."""
        self.airflow.start(*(components or (Component.API_SERVER, Component.CONTROL_PLANE)))
        until(lambda: self._answers(), f"the control plane answers (logs: {self.airflow.logs})")

    def ask(self, method: str, path: str, user: str = USER, **options: Any) -> httpx.Response:
        """Send a request to the API."""
        headers = {**self.headers(user), **options.pop("headers", {})}
        return self._client.request(method, self.api + path, headers=headers, **options)

    def headers(self, user: str = USER) -> dict[str, str]:
        """The headers of a logged-in user."""
        if user not in self._tokens:
            body = {"username": user, "password": PASSWORD}
            answer = self._client.post(f"{self.airflow.site.url}/auth/token", json=body)
            assert answer.status_code == 201, answer.text
            self._tokens[user] = answer.json()["access_token"]
        return {"Authorization": f"Bearer {self._tokens[user]}"}

    @contextmanager
    def replica(self) -> Iterator[ApiServer]:
        """Another server of the control plane, which this client asks without Airflow in between."""
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "fraud_rules.cli", "control-plane", "serve", f"--port={port}"]
        process = subprocess.Popen(command, env=self.airflow.site.environment(component=Component.CONTROL_PLANE))
        replica = _Replica(self.airflow, f"http://127.0.0.1:{port}")
        try:
            until(replica._answers, "the other server answers")
            yield replica
        finally:
            process.terminate()
            process.wait()

    def stream(self, last_id: str | None = None) -> StreamReader:
        """Create a reader of the alert stream."""
        return StreamReader(f"{self.api}/alerts/stream", self.headers(), last_id)

    def _answers(self) -> bool:
        self.airflow.check()
        try:
            return self.ask("GET", "/me").status_code == 200 and self.ask("GET", "/quality").status_code == 200
        except (httpx.HTTPError, AssertionError):
            return False


class _Replica(ApiServer):
    """A server of the control plane, with the tickets that Airflow's plugin would sign."""

    def headers(self, user: str = USER) -> dict[str, str]:
        keys = TicketKeys(self.airflow.site.secret("tickets"))
        return {HEADER: keys.sign(Ticket(Account(_MANAGER, user, user), by_browser=False), now_ms() // 1_000)}


@contextmanager
def api_server(
    broker: Broker,
    project: Project,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[LocalAirflow], None] | None = None,
) -> Iterator[ApiServer]:
    """A ready API server. `admin` and `anna` may log in, unless Airflow's settings name other users. `prepare` is
    called as soon as Airflow's database exists."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap}}
    passwords = folder / "logins.json"
    port, control_port = free_ports(2)
    site = AirflowSite(
        home=folder / "airflow",
        project=project,
        port=port,
        control_port=control_port,
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
