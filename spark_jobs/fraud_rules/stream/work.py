"""Reports the driver's current work to a file that the agent reads, or to a terminal.

A phase of a start is reported at its beginning, a batch only after a second. Then a thread reads what the tasks
have sent each second, see `channel`. A short batch costs nothing.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fraud_rules.deploy.work import WORK_VARIABLE, Work, WorkPhase
from fraud_rules.runtime import clock
from fraud_rules.runtime.atomic_file import Durability, write_file
from fraud_rules.runtime.lifetime import BackgroundWork

_QUIET_S: Final = 1.0

Write = Callable[[Work | None], None]
"""Receives the driver's work at each change, at most once per second. None means that no batch runs."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TasksProgress:
    """The progress of all tasks of a batch: restored events, evaluated rows, finished key groups, whether a task still
    restores its state, the bytes that it has read from the topic of the state, and the attempts that Spark has
    repeated."""

    restored: int = 0
    rows: int = 0
    key_groups: int = 0
    restores: bool = False
    fetched_bytes: int = 0
    repeated: int = 0


class WorkReport:
    """The driver's current work. Any thread may call the methods."""

    def __init__(self, write: Write = lambda work: None) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._work: Work | None = None
        self._written: Work | None = None
        self._written_s = float("-inf")

    def begin(self, phase: WorkPhase, unit: str = "", total: int | None = None, batch_id: int | None = None) -> None:
        """Start another phase."""
        now_ms = clock.now_ms()
        with self._lock:
            self._work = Work(phase, now_ms, now_ms, 0, total, unit, batch_id)
            self._publish()

    def reached(self, done: int, total: int | None = None) -> None:
        """Record progress within the phase."""
        with self._lock:
            work = self._work
            if work is not None and (done, total or work.total) != (work.done, work.total):
                self._work = msgspec.structs.replace(
                    work, done=done, total=total or work.total, changed_ms=clock.now_ms()
                )
                if time.monotonic() >= self._written_s + _QUIET_S:
                    self._publish()

    def show(self, work: Work) -> None:
        """Replace the work by the caller's."""
        with self._lock:
            self._work = work
            self._publish()

    def end(self) -> None:
        """Record that the driver waits for the next batch."""
        with self._lock:
            self._work = None
            if self._written is not None:
                self._publish()

    def _publish(self) -> None:
        """Write the report. A failed write is logged and ignored, because a report must not end the work."""
        try:
            self._write(self._work)
        except OSError as error:
            _log.warning("the current work cannot be reported: %s", error)
        self._written, self._written_s = self._work, time.monotonic()


class BatchWatch(BackgroundWork):
    """Reports a long batch.

    `read_progress` returns the progress of its tasks, `retained` the number of events in state at the detector's last
    write (None: unknown). `key_groups` is the number of key groups of a batch.
    """

    def __init__(
        self,
        report: WorkReport,
        read_progress: Callable[[int], TasksProgress],
        retained: Callable[[], int | None],
        key_groups: int,
    ) -> None:
        self._report = report
        self._read_progress = read_progress
        self._retained = retained
        self._key_groups = key_groups
        # The batch, its start in epoch ms, and its start by the steady clock.
        self._batch: tuple[int, int, float] | None = None
        self._seen: Work | None = None
        self._progress = TasksProgress()
        self._total: int | None = None
        self._lock = threading.Lock()
        super().__init__("batch-watch")

    def batch_started(self, batch_id: int) -> None:
        """Record the start of a batch."""
        with self._lock:
            self._batch = batch_id, clock.now_ms(), time.monotonic()
            self._seen, self._progress = None, TasksProgress()

    def batch_ended(self) -> None:
        """Record the end of the batch."""
        with self._lock:
            self._batch, self._seen = None, None
            self._report.end()

    def _run(self) -> None:
        while not self._stop.wait(_QUIET_S):
            try:
                self._poll()
            except Exception:  # noqa: BLE001 - a thread that ended would report nothing, silently
                _log.exception("the progress of the batch cannot be read; the next attempt is in %g s", _QUIET_S)

    def _poll(self) -> None:
        batch = self._batch
        if batch is None or time.monotonic() - batch[2] < _QUIET_S:
            return
        batch_id, since_ms, _ = batch
        progress = self._read_progress(batch_id)
        if progress.restores and self._total is None:
            self._total = self._retained()
        with self._lock:
            if self._batch == batch:
                self._show(batch_id, since_ms, progress)

    def _show(self, batch_id: int, since_ms: int, progress: TasksProgress) -> None:
        before = self._seen
        changed_ms = since_ms if before is None else before.changed_ms
        if progress != self._progress:
            changed_ms = clock.now_ms()
        if progress.restores:
            work = Work(WorkPhase.STATE, since_ms, changed_ms, progress.restored, self._total, "events", batch_id)
        else:
            done, total = progress.key_groups, self._key_groups
            work = Work(WorkPhase.BATCH, since_ms, changed_ms, done, total, "key groups", batch_id)
        if work != before:
            self._seen, self._progress = work, progress
            self._report.show(work)


def work_file(path: Path) -> Write:
    """Write reports atomically to a file. The file does not exist between batches."""

    def write(work: Work | None) -> None:
        if work is None:
            path.unlink(missing_ok=True)
        else:
            write_file(path, msgspec.json.encode(work), Durability.NONE)

    return write


def work_lines(report: Callable[[str], None], every_s: float = 10.0) -> Write:
    """Report the current work as a line, at most one per `every_s`."""
    reported_s = time.monotonic()

    def write(work: Work | None) -> None:
        nonlocal reported_s
        if work is not None and time.monotonic() >= reported_s + every_s:
            reported_s = time.monotonic()
            report(str(work))

    return write


def default_report(otherwise: Write = lambda work: None) -> WorkReport:
    """A report to the file that the environment names, else to `otherwise`."""
    path = os.environ.get(WORK_VARIABLE)
    return WorkReport(work_file(Path(path)) if path else otherwise)
