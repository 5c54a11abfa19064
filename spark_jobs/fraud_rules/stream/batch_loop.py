"""The loop of the detector: plans the batches of its checkpoint and runs them, one after the other, in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.model.lost_records import Offsets
from fraud_rules.stream.plan_log import PlanLog, PlannedBatch

__all__ = ["BatchLoop"]

_POLL_S: Final = 0.005
_OUTAGE_POLL_S: Final = 0.5
_PATIENCE_S: Final = 60.0
"""How long the brokers may be unavailable between two batches. Then the process ends with an error that names it."""

_log = logging.getLogger(__name__)


class Inputs(Protocol):
    """The records that wait, see `inputs.InputTopics`."""

    def new_ends(self, starts: Offsets, most: int) -> Offsets | None:
        """The end offsets of the next batch. None without a new record."""


class BatchLoop:
    """Runs batches until it is stopped or a batch fails."""

    def __init__(self, plan: PlanLog, inputs: Inputs, run: Callable[[PlannedBatch], bool], max_records: int) -> None:
        """`run` runs a batch and returns whether another may follow it. Its error ends the loop. A batch reads about
        `max_records` at most."""
        self._plan = plan
        self._inputs = inputs
        self._run = run
        self._max_records = max_records
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run_all, name="batches", daemon=True)
        self.error: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Make the loop end after the current batch."""
        self._stop.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the loop has ended. Return whether it has; `error` is then the error that ended it, if any."""
        return self._ended.wait(timeout_s)

    def _run_all(self) -> None:
        try:
            batch = self._plan.unfinished()
            while not self._stop.is_set():
                if batch is not None:
                    continues = self._run(batch)
                    self._plan.finish(batch)
                    if not continues:
                        return
                batch = self._next()
        except BaseException as error:  # noqa: BLE001 - the main thread reports it
            self.error = error
        finally:
            self._ended.set()

    def _next(self) -> PlannedBatch | None:
        """Wait for new records and plan a batch of them. None after `stop`."""
        while not self._stop.is_set():
            ends = self._new_ends()
            if ends is not None:
                return self._plan.plan(ends)
            self._stop.wait(_POLL_S)
        return None

    def _new_ends(self) -> Offsets | None:
        """The end offsets of the next batch. Waits while no broker answers; raises BrokerUnavailable after a minute."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while not self._stop.is_set():
            try:
                return self._inputs.new_ends(self._plan.ends, self._max_records)
            except BrokerUnavailable as error:
                if time.monotonic() >= deadline_s:
                    raise
                _log.warning("the next batch waits: %s", error)
            self._stop.wait(_OUTAGE_POLL_S)
        return None
