"""Warm-up jobs beside a detector that is killed: a thread that runs them, as the DAG does, and kills some of them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Self

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.logs.open_warm_ups import open_requests
from tests.support.nightly.jobs import JobsInTurn
from tests.support.processes.running_detector import Installation
from tests.support.waiting import LOOK_S

_KILLED_OF_JOBS = 0.1
_PAUSE_S = 1.0
_LONGEST_S = 2.0


class WarmUpJobs:
    """Runs a job whenever a request is open. A job that fails or is killed is repeated."""

    def __init__(self, installation: Installation, seed: int) -> None:
        self._installation = installation
        self._random = random.Random(seed + 2)
        self._jobs: JobsInTurn | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warm-up jobs", daemon=True)
        self.ends: Counter[str] = Counter()
        """The number of jobs by exit code, or `killed`."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._end()

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE_S):
            try:
                waits = open_requests(self._installation.topics.kafka, self._installation.settings)
            except BrokerUnavailable:
                continue  # the broker has been killed
            if waits:
                self._run_job()

    def _run_job(self) -> None:
        if self._jobs is None:
            home = self._installation.home / f"jobs-{self.ends.total()}"
            self._jobs = JobsInTurn(home, self._installation.project)
        self._jobs.begin("warm_up", self._installation)
        killed_at = None
        if self._random.random() < _KILLED_OF_JOBS:
            killed_at = time.monotonic() + self._random.uniform(0, _LONGEST_S)
        while (code := self._jobs.ended()) is None and not self._stop.wait(LOOK_S):
            if killed_at is not None and time.monotonic() >= killed_at:
                self._end()
                self.ends["killed"] += 1
                return
        self.ends["stopped" if code is None else str(code)] += 1

    def _end(self) -> None:
        if self._jobs is not None:
            self._jobs.end()
        self._jobs = None
