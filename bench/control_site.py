"""Runs Airflow's API server with the control plane over the topics of a session."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.lab import Session
from bench.stream_reading import Events, ReceivedEvent
from fraud_demo.airflow import USER, AirflowSite, Component, LocalAirflow
from tests.support.waiting import until

_API = "/fraud/control/api"
_STREAMS = 250  # all readers of a measurement are one user


class ControlSite:
    """The API server, a user with the role admin, and further `users`, who can log in and have no role.

    `streams` is the limit of open event streams for each user, `archive` the folder of the archive.
    """

    def __init__(
        self,
        session: Session,
        port: int,
        users: Sequence[str] = (),
        streams: int = _STREAMS,
        archive: Path | None = None,
    ) -> None:
        self._password = secrets.token_urlsafe(16)
        self._users = (USER, *users)
        self._passwords = session.files.with_suffix(".passwords.json")
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": session.bootstrap}}
        site = AirflowSite(
            home=session.files.with_suffix(".airflow"),
            project=session.project,
            port=port,
            control_port=port + 1,
            password=self._password,
            connections={"fraud_kafka": kafka},
            settings={
                "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:admin" for user in self._users),
                "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            },
            variables={} if archive is None else {"fraud_archive": str(archive)},
            process_variables={**session.environ, "FRAUD_CONTROL_RATES_STREAMS": str(streams)},
        )
        self._airflow = LocalAirflow(site)
        self.api = f"{site.url}{_API}"
        self.token = ""
        self._client = httpx.Client(timeout=30, trust_env=False)
        self._health = httpx.Client(timeout=60, trust_env=False)

    @classmethod
    @contextmanager
    def running(
        cls,
        session: Session,
        port: int,
        users: Sequence[str] = (),
        streams: int = _STREAMS,
        archive: Path | None = None,
    ) -> Iterator[ControlSite]:
        """Start a server, wait until it answers, and stop it afterwards. Its logs stay."""
        site = cls(session, port, users, streams, archive)
        try:
            site._start()
            yield site
        finally:
            site._client.close()
            site._airflow.stop()

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request to the API, which must succeed."""
        answer = self._client.request(method, self.api + path, **options)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer

    def token_of(self, user: str) -> str:
        """Log a user in, and return the session's token."""
        body = {"username": user, "password": self._password}
        answer = self._client.post(f"{self._airflow.site.url}/auth/token", json=body)
        return str(answer.json()["access_token"])

    @contextmanager
    def client_of(self, user: str) -> Iterator[Callable[..., httpx.Response]]:
        """A function like `ask` for another user, with a connection of its own."""
        headers = {"Authorization": f"Bearer {self.token_of(user)}"}
        with httpx.Client(timeout=60, trust_env=False, headers=headers) as client:

            def ask(method: str, path: str, headers: Mapping[str, str] | None = None, **options: Any) -> httpx.Response:
                answer = client.request(method, self.api + path, headers=headers, **options)
                if answer.is_error:
                    raise RuntimeError(f"{method} {path} of {user}: {answer.status_code} {answer.text[:500]}")
                return answer

            yield ask

    def health(self) -> httpx.Response:
        """Ask the address that Airflow's tasks use whether it is healthy."""
        return self._health.get(f"{self._airflow.site.url}/execution/health")

    @contextmanager
    def command(self, module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run a module with `--url` and these arguments, and pipes for its input and output."""
        process = subprocess.Popen(
            [sys.executable, "-m", module, "--url", self.api, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def cpu_s(self) -> float:
        """The CPU time of the control plane and of the API server in front of it, in seconds."""
        servers = (Component.API_SERVER, Component.CONTROL_PLANE)
        times = [each.cpu_times() for server in servers for each in self._airflow.processes(server)]
        return sum(each.user + each.system for each in times)

    @contextmanager
    def reader(self) -> Iterator[StreamReader]:
        """Start a reader of the stream."""
        with closing(StreamReader(f"{self.api}/alerts/stream", self.token)) as reader:
            until(lambda: reader.opened, "the stream opens")
            yield reader

    def _start(self) -> None:
        self._airflow.prepare()
        self._passwords.write_text(json.dumps(dict.fromkeys(self._users, self._password)), encoding="utf-8")
        self._passwords.chmod(0o600)
        self._airflow.start(Component.API_SERVER, Component.CONTROL_PLANE)
        until(self._answers, f"the control plane answers (logs: {self._airflow.logs})", every_s=0.1)

    def _answers(self) -> bool:
        self._airflow.check()
        try:
            if not self.token:
                self.token = self.token_of(USER)
                self._client.headers["Authorization"] = f"Bearer {self.token}"
            return self._client.get(f"{self.api}/rules").is_success
        except (httpx.HTTPError, ValueError, KeyError):
            return False


class StreamReader:
    """Reads in a thread until it is closed. `received` has the received events."""

    def __init__(self, url: str, token: str) -> None:
        self.received: list[ReceivedEvent] = []
        self.opened = False
        self._url = url
        self._stopped = threading.Event()
        self._client = httpx.Client(timeout=60, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        events = Events()
        with self._client.stream("GET", self._url) as answer:
            for text in answer.iter_raw():
                self.received += events.feed(text)
                self.opened = True
                if self._stopped.is_set():
                    return
