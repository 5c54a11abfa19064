"""Unpauses the DAGs that a demo needs. DAGs that change something by themselves start paused.

The requests run in a thread: Airflow knows a DAG only after the DAG processor has read its file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import httpx

from fraud_local.airflow import AirflowSite
from fraud_local.users import LocalUsers
from fraud_rules.errors import AirflowFailed
from fraud_rules.runtime.lifetime import BackgroundWork

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
        self._users = LocalUsers(site.url, site.password, _TIMEOUT_S)
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
            except (httpx.HTTPError, ValueError, KeyError) as error:  # Airflow is starting, or has not read the DAG
                self._fault = str(error)
                if time.monotonic() > deadline_s:
                    self._failed = True
                    return
                self._stop.wait(_EVERY_S)

    def _run(self) -> None:
        self.run()

    def _unpause_all(self) -> None:
        while self._waiting and not self._stop.is_set():
            path = f"/api/v2/dags/{self._waiting[0]}"
            self._users.send("PATCH", path, json={"is_paused": False}).raise_for_status()
            del self._waiting[0]
