"""Runs Airflow's API server with the control plane over the topics of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from bench.lab import Session
from fraud_local.airflow import Component, LocalAirflow
from fraud_local.users import USER
from tests.support.control_plane.web.api_server import ApiServer, local_site

_STREAMS = 250  # all readers of a measurement are one user


class ControlSite(ApiServer):
    """The API server, a user with the role admin, and further `users`, who can log in and have no role."""

    @classmethod
    @contextmanager
    def over(cls, session: Session, users: Sequence[str] = (), streams: int = _STREAMS) -> Iterator[ControlSite]:
        """Start a server, wait until it answers, and stop it afterwards. Its logs stay. `streams` is the limit of open
        event streams for each user."""
        variables = {**session.environ, "FRAUD_CONTROL_RATES_STREAMS": str(streams)}
        home, airflow_users = session.files.with_suffix(".airflow"), dict.fromkeys(users, "admin")
        site = cls(
            LocalAirflow(
                local_site(home, session.project, session.bootstrap, users=airflow_users, process_variables=variables)
            )
        )
        with site.running():
            yield site

    def ask(self, method: str, path: str, user: str = USER, **options: Any) -> httpx.Response:
        """Send a request to the API, which must succeed."""
        answer = super().ask(method, path, user, **options)
        if answer.is_error:
            raise RuntimeError(f"{method} {path} of {user}: {answer.status_code} {answer.text[:500]}")
        return answer

    def health(self) -> httpx.Response:
        """Ask the address that Airflow's tasks use whether it is healthy."""
        return self.send("GET", "/execution/health")

    def cpu_s(self) -> float:
        """The CPU time of the control plane and of the API server in front of it, in seconds."""
        servers = (Component.API_SERVER, Component.CONTROL_PLANE)
        times = [each.cpu_times() for server in servers for each in self.airflow.processes(server)]
        return sum(each.user + each.system for each in times)
