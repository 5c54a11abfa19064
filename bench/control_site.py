"""Runs Airflow's API server with the control plane over the topics of a session."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx

from bench.lab import Session
from bench.stream_reading import Events, ReceivedEvent
from fraud_demo.airflow import USER, AirflowSite, Component, LocalAirflow
from tests.support.waiting import until

_API = "/fraud/control/api"
_STREAMS = 250  # all readers of a measurement are one user


class ControlSite:
    """The API server, and a user with the role admin."""

    def __init__(self, session: Session, port: int) -> None:
        self._password = secrets.token_urlsafe(16)
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": session.bootstrap}}
        site = AirflowSite(
            home=session.checkpoint.with_suffix(".airflow"),
            project=session.project,
            port=port,
            password=self._password,
            connections={"fraud_kafka": kafka},
            process_variables={**session.environ, "FRAUD_CONTROL_RATES_STREAMS": str(_STREAMS)},
        )
        self._airflow = LocalAirflow(site)
        self.api = f"{site.url}{_API}"
        self.token = ""
        self._client = httpx.Client(timeout=30, trust_env=False)

    @classmethod
    @contextmanager
    def running(cls, session: Session, port: int) -> Iterator[ControlSite]:
        """Start a server, wait until it answers, and stop it afterwards. Its logs stay."""
        site = cls(session, port)
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

    def cpu_s(self) -> float:
        """The CPU time of the API server's processes, in seconds."""
        times = [each.cpu_times() for each in self._airflow.processes(Component.API_SERVER)]
        return sum(each.user + each.system for each in times)

    @contextmanager
    def reader(self) -> Iterator[StreamReader]:
        """Start a reader of the stream."""
        with closing(StreamReader(f"{self.api}/alerts/stream", self.token)) as reader:
            until(lambda: reader.opened, "the stream opens")
            yield reader

    def _start(self) -> None:
        self._airflow.prepare()
        self._airflow.start(Component.API_SERVER)
        until(self._answers, f"the control plane answers (logs: {self._airflow.logs})", every_s=0.1)

    def _answers(self) -> bool:
        self._airflow.check()
        try:
            if not self.token:
                body = {"username": USER, "password": self._password}
                answer = self._client.post(f"{self._airflow.site.url}/auth/token", json=body)
                self.token = answer.json()["access_token"]
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
