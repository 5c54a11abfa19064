"""Unpauses the DAGs that a demo needs. DAGs that change something by themselves start paused.

The requests run in a thread: Airflow knows a DAG only after the DAG processor has read its file.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fraud_demo.airflow import USER, AirflowSite
from fraud_rules.errors import AirflowFailed
from fraud_rules.runtime.lifetime import BackgroundWork

__all__ = ["UNPAUSED", "Unpausing"]

UNPAUSED: Final = (
    "fraud_detector",
    "fraud_topics",
    "fraud_seed_rules",
    "fraud_warm_up",
    "fraud_archive",
    "fraud_nightly_reevaluation",
    "fraud_checkpoint_drill",
)
"""The DAGs of a whole installation that start paused, the most urgent one first."""

_TIMEOUT_S: Final = 20.0
_EVERY_S: Final = 0.5
_ATTEMPTS_S: Final = 300.0


class Unpausing(BackgroundWork):
    """Unpauses DAGs of an installation of Airflow that is starting."""

    def __init__(self, site: AirflowSite, dag_ids: Sequence[str] = UNPAUSED) -> None:
        self._site = site
        self._waiting = list(dag_ids)
        self._fault = ""
        self._failed = False
        super().__init__("demo-unpausing", _TIMEOUT_S)

    def check(self) -> None:
        """Raise AirflowFailed if the DAGs could not be unpaused in time."""
        if self._failed:
            raise AirflowFailed(f"the DAGs {', '.join(self._waiting)} could not be unpaused: {self._fault}")

    def run(self) -> None:
        """Unpause the DAGs in this thread. `check` then says whether it failed."""
        deadline_s = time.monotonic() + _ATTEMPTS_S
        while self._waiting and not self._stop.is_set():
            try:
                self._unpause_all()
            except (OSError, ValueError, KeyError, TypeError) as error:  # Airflow is starting, or has not read the DAG
                self._fault = str(error)
                if time.monotonic() > deadline_s:
                    self._failed = True
                    return
                self._stop.wait(_EVERY_S)

    def _run(self) -> None:
        self.run()

    def _unpause_all(self) -> None:
        login = {"username": USER, "password": self._site.password}
        token = self._send("POST", "/auth/token", login, {})["access_token"]
        while self._waiting and not self._stop.is_set():
            headers = {"Authorization": f"Bearer {token}"}
            self._send("PATCH", f"/api/v2/dags/{self._waiting[0]}", {"is_paused": False}, headers)
            del self._waiting[0]

    def _send(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> Any:
        request = urllib.request.Request(  # noqa: S310 -- loopback
            f"{self._site.url}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **headers},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 -- loopback
            return json.loads(answer.read())
