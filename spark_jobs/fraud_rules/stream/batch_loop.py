"""The loop of the detector: plans batches and runs them, one after the other, in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.model.lost_records import Offsets

_LOOK_S: Final = 0.1
"""How often the loop asks for the ends of the topics while no record announces itself."""
_SLICE_S: Final = 0.02
"""How long a wait goes on after `stop` or `wake`."""
_OUTAGE_POLL_S: Final = 0.5
_MOST_HALVINGS: Final = 5
_WARM_BATCHES: Final = 30
"""The first batches of a new JVM take several times as long, so this many run at once, before they matter."""
_PATIENCE_S: Final = 60.0
"""How long the brokers may be unavailable between two batches. Then the process ends with an error that names it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The records of a batch: from `starts` up to `ends`. A partition without a start begins at its first record."""

    batch_id: int
    starts: Offsets
    ends: Offsets

    @property
    def records(self) -> int:
        """The number of offsets between the starts and the ends."""
        return sum(
            end - self.starts.get(topic, {}).get(place, 0)
            for topic, places in self.ends.items()
            for place, end in places.items()
        )


class Inputs(Protocol):
    """The records that wait, see `inputs.InputTopics`."""

    def new_ends(self, starts: Offsets, most: int) -> Offsets | None:
        """The end offsets of the next batch. None without a new record."""


class Announcements(Protocol):
    """Announces records, see `announcements.RecordAnnouncements`."""

    def wait(self, starts: Offsets, timeout_s: float) -> bool:
        """Wait for a record after these offsets. Return whether one has arrived."""

    def pause(self) -> None:
        """Announce nothing until the next `wait`."""


class BatchLoop:
    """Runs batches until it is stopped or a batch fails."""

    def __init__(
        self, batch_id: int, starts: Offsets, inputs: Inputs, announcements: Announcements,
        run: Callable[[PlannedBatch], bool], max_records: int, tick_s: float, halvings: int = 0,
    ) -> None:  # fmt: skip
        """`batch_id` and `starts` are those of the first batch. `run` runs a batch and returns whether another may
        follow it. Its error ends the loop. A batch reads about `max_records` at most. Without new records, a batch runs
        `tick_s` after the end of the last one. `halvings` halves `max_records` so many times until the loop has caught
        up, because a batch of the full size has ended earlier starts."""
        self._batch_id = batch_id
        self._starts = starts
        self._inputs = inputs
        self._announcements = announcements
        self._run = run
        self._max_records = max_records
        self._limit = max(1, max_records >> min(halvings, _MOST_HALVINGS))
        self._tick_s = tick_s
        self._due_s = float("-inf")
        self._warm_batches = 0
        self._woken = threading.Event()
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

    def wake(self) -> None:
        """Make the loop run a batch also without new records."""
        self._woken.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the loop has ended. Return whether it has; `error` is then the error that ended it, if any."""
        return self._ended.wait(timeout_s)

    def _run_all(self) -> None:
        try:
            while (batch := self._next()) is not None:
                continues = self._run(batch)
                self._batch_id, self._starts = batch.batch_id + 1, batch.ends
                self._warm_batches += 1
                self._due_s = time.monotonic() + (self._tick_s if self._warm_batches > _WARM_BATCHES else 0.0)
                if batch.records < self._limit:
                    self._limit = self._max_records
                if not continues:
                    return
        except BaseException as error:  # noqa: BLE001 - the main thread reports it
            self.error = error
        finally:
            self._ended.set()

    def _next(self) -> PlannedBatch | None:
        """Plan a batch of new records, or one without records if it is due. None after `stop`."""
        has_waited = False
        while not self._stop.is_set():
            ends = self._new_ends()
            if ends is not None:
                if not has_waited:  # records wait whenever a batch ends, so nothing has to announce them
                    self._announcements.pause()
                return PlannedBatch(self._batch_id, self._starts, ends)
            if self._woken.is_set() or time.monotonic() >= self._due_s:
                self._woken.clear()
                return PlannedBatch(self._batch_id, self._starts, self._starts)
            self._await_records()
            has_waited = True
        return None

    def _await_records(self) -> None:
        """Wait for a record, for a stop, or until the loop has to look."""
        until_s = min(self._due_s, time.monotonic() + _LOOK_S)
        while (left_s := until_s - time.monotonic()) > 0 and not (self._stop.is_set() or self._woken.is_set()):
            if self._announcements.wait(self._starts, min(_SLICE_S, left_s)):
                return

    def _new_ends(self) -> Offsets | None:
        """The end offsets of the next batch. Waits while no broker answers; raises BrokerUnavailable after a minute."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while not self._stop.is_set():
            try:
                return self._inputs.new_ends(self._starts, self._limit)
            except BrokerUnavailable as error:
                if time.monotonic() >= deadline_s:
                    raise
                _log.warning("the next batch waits: %s", error)
            self._stop.wait(_OUTAGE_POLL_S)
        return None
