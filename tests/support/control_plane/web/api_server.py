"""A real control plane behind a real Airflow API server, and its users."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from fraud_control.web.login.logins import SESSION_COOKIE
from fraud_local.airflow import AirflowSite, Component, LocalAirflow
from fraud_local.users import USER, LocalUsers
from fraud_ops.account import Account
from fraud_ops.paths import API
from fraud_ops.tickets import HEADER, Purpose, Ticket, TicketKeys
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.runtime.clock import MS_PER_S, now_ms
from tests.support.control_plane.web.streams import StreamReader
from tests.support.ports import free_ports
from tests.support.waiting import until

PASSWORD = "a password"
_MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"


class ApiServer(LocalUsers):
    """A running API server with the control plane, and their users. `api` is the URL of the control plane's API."""

    def __init__(self, airflow: LocalAirflow, url: str | None = None) -> None:
        super().__init__(url or airflow.site.url, airflow.site.password)
        self.airflow = airflow
        self.api = f"{self.url}{API}"

    def start(self, *components: Component) -> None:
        """Start these components, or Airflow's server and the control plane. Return once the control plane answers."""
        self.airflow.start(*(components or (Component.API_SERVER, Component.CONTROL_PLANE)))
        self.await_served()

    def await_served(self) -> None:
        """Return once the control plane answers."""

        def are_served() -> bool:
            self.airflow.check()
            try:
                return self.ask("GET", "/rules").is_success
            except (httpx.HTTPError, ValueError, KeyError):  # it is starting
                return False

        until(are_served, f"the control plane answers (logs: {self.airflow.logs})", 240.0, 0.1)

    @contextmanager
    def running(self, prepare: Callable[[LocalAirflow], None] = lambda _: None) -> Iterator[None]:
        """Create Airflow's database, call `prepare`, and start the components. They end with the block."""
        self.airflow.prepare()
        prepare(self.airflow)
        try:
            self.start()
            yield
        finally:
            self.airflow.stop()

    @contextmanager
    def replica(self) -> Iterator[ApiServer]:
        """Another server of the control plane, which this client asks without Airflow in between."""
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "fraud_rules.cli", "control-plane", "serve", f"--port={port}"]
        process = subprocess.Popen(command, env=self.airflow.site.environment(component=Component.CONTROL_PLANE))
        replica = DirectServer(self.airflow, f"http://127.0.0.1:{port}")
        try:
            replica.await_served()
            yield replica
        finally:
            process.terminate()
            process.wait()

    def stream(self, last_id: str | None = None) -> StreamReader:
        """Create a reader of the alert stream."""
        return StreamReader(f"{self.api}/alerts/stream", self.headers(), last_id)


class DirectServer(ApiServer):
    """A server of the control plane without Airflow's in between, with the tickets that Airflow's plugin would sign."""

    def headers(self, user: str = USER) -> dict[str, str]:
        return {HEADER: self._signed(user, Purpose.REQUEST)}

    def cookie(self, user: str) -> str:
        """The cookie of a user's session on the server's own pages."""
        return f"{SESSION_COOKIE}={self._signed(user, Purpose.SESSION)}"

    def _signed(self, user: str, purpose: Purpose) -> str:
        keys = TicketKeys(self.airflow.site.secret("tickets"))
        ticket = Ticket(Account(_MANAGER, user, user), by_browser=purpose is Purpose.SESSION)
        return keys.sign(ticket, now_ms() // MS_PER_S, purpose)


def local_site(folder: Path, project: Project, bootstrap: str, **options: Any) -> AirflowSite:
    """An Airflow with a control plane on free ports, in a folder."""
    port, control_port = free_ports(2)
    ports = {"port": port, "control_port": control_port}
    return AirflowSite(home=folder, project=project, password=PASSWORD, bootstrap=bootstrap, **ports, **options)


@contextmanager
def api_server(
    broker: Broker,
    project: Project,
    folder: Path,
    prepare: Callable[[LocalAirflow], None] = lambda _: None,
    **settings: str,
) -> Iterator[ApiServer]:
    """A ready API server with these settings of Airflow's. `admin` and `anna` may log in. `prepare` is called as soon
    as Airflow's database exists."""
    site = local_site(folder / "airflow", project, broker.bootstrap, settings=settings, users={"anna": "viewer"})
    airflow = LocalAirflow(site)
    server = ApiServer(airflow)
    with server.running(prepare):
        yield server
