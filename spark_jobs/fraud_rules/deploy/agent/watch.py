"""Derives the status of a started attempt from its folder and from the detector's progress records."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fraud_rules.deploy.agent.home import AttemptEnd
from fraud_rules.deploy.agent.launcher import LocalAttempt
from fraud_rules.deploy.agent.patience import Patience
from fraud_rules.deploy.attempt import AttemptPhase, AttemptStatus
from fraud_rules.deploy.work import Work
from fraud_rules.errors import DetectorStopped, Stalled, error_name
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.runtime import clock
from fraud_rules.runtime.clock import SteadyClock

_BUSY_WINDOW_MS: Final = 60_000
_UNKILLABLE: Final = "killed, but its processes still exist: they wait for a disk or a file system that does not answer"


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """The identity of an agent. `agent` is unique to its process."""

    detector: str
    agent: str
    host: str
    code: str


@dataclass(slots=True)
class AttemptWatch:
    """Watches one attempt.

    `asked_ms` is the time of the request to end by `steady_ms`, None before it. `stalled` is a supervisor's reason for
    ending the attempt as stalled.
    """

    me: AgentIdentity
    attempt: LocalAttempt
    steady_ms: SteadyClock = clock.steady_ms
    asked_ms: int | None = None
    killed: bool = False
    stalled: str | None = None
    _batches: int = field(default=0, repr=False)
    _first: int | None = field(default=None, repr=False)
    _end: AttemptEnd | None = field(default=None, repr=False)
    _last_work: Work | None = field(default=None, repr=False)
    _patience: Patience | None = field(default=None, repr=False)

    @property
    def attempt_id(self) -> str:
        return self.attempt.order.intent.attempt_id

    @property
    def phase(self) -> AttemptPhase:
        """The current phase of the attempt."""
        return self._phase(self.end())[0]

    def end(self) -> AttemptEnd | None:
        """The end of the attempt. None while any of its processes runs."""
        self._end = self._end or self.attempt.end()
        return self._end

    def is_alive(self) -> bool:
        """Whether any process of the attempt runs."""
        return self.end() is None

    def drain(self) -> None:
        """Ask the detector, once, to end after its current batch."""
        if self.asked_ms is None:
            self.asked_ms, self._last_work = self.steady_ms(), self.attempt.folder.read_work()
            self.attempt.drain()

    def kill(self) -> None:
        """Kill the attempt."""
        if self.asked_ms is None:
            self.asked_ms, self._last_work = self.steady_ms(), self.attempt.folder.read_work()
        self.killed = True
        self.attempt.kill()

    def record_batch(self, progress: BatchProgress) -> None:
        """Count a written batch of the detector, if this attempt wrote it."""
        if progress.attempt != self.attempt_id:
            return
        if self._first is None:
            self._first = self.attempt.folder.first_batch()
        if self._first is None:
            self._first = progress.batch_id
            with suppress(OSError):  # on a full disk, the next agent counts the batches anew
                self.attempt.folder.write_first_batch(self._first)
        self._batches = max(self._batches, progress.batch_id - self._first + 1)

    def status(self, now_ms: int) -> AttemptStatus:
        """The current status of the attempt."""
        order, folder, end = self.attempt.order, self.attempt.folder, self.end()
        release = order.intent.release
        ui_port = None if release is None else release.ui_port
        phase, error, message = self._phase(end)
        return AttemptStatus(
            detector=self.me.detector,
            attempt_id=self.attempt_id,
            epoch=order.epoch,
            phase=phase,
            at_ms=now_ms,
            agent=self.me.agent,
            host=self.me.host,
            error_name=error,
            message=message,
            exit_code=None if end is None else end.exit_code,
            started_ms=order.created_ms,
            ended_ms=None if end is None else end.ended_ms,
            spark_ui=None if ui_port is None else f"http://{self.me.host}:{ui_port}",
            log=str(folder.log),
            batches_committed=self._batches,
            work=self._work(now_ms),
        )

    def _work(self, now_ms: int) -> Work | None:
        """The current work, or the last work before the request to end.

        In a phase without counters, the use of CPU time counts as progress.
        """
        if self.asked_ms is not None:
            return self._last_work
        work = self.attempt.folder.read_work()
        if work is None or work.unit or not self.is_alive():
            return work
        patience = self._patience = self._patience or Patience(now_ms, _BUSY_WINDOW_MS, self.steady_ms)
        if patience.is_due():
            patience.record_cpu(self.attempt.cpu_s(), now_ms)
        return msgspec.structs.replace(work, changed_ms=max(work.changed_ms, patience.moved_ms))

    def _phase(self, end: AttemptEnd | None) -> tuple[AttemptPhase, str | None, str | None]:
        """The phase, and the name and the message of the error that led to it."""
        if end is None:
            if self.asked_ms is not None:
                return AttemptPhase.DRAINING, None, _UNKILLABLE if self.killed else None
            folder = self.attempt.folder
            message = f"{folder.log} lacks output: the disk does not accept it" if folder.log_is_cut else None
            return (AttemptPhase.RUNNING if folder.running else AttemptPhase.STARTING), None, message
        if end.exit_code is None:
            lost = "its processes are gone, and their exit code is unknown"
            return AttemptPhase.LOST, None, "; ".join(filter(None, (lost, end.said)))
        if end.exit_code == DetectorStopped.exit_code:
            return AttemptPhase.STOPPED, DetectorStopped.__name__, end.said
        if self.stalled is not None:
            return AttemptPhase.FAILED, Stalled.__name__, self.stalled
        if self.asked_ms is not None or end.exit_code == 0:
            return AttemptPhase.STOPPED, None, "killed: it was stopped, or did not end in time" if self.killed else None
        name = error_name(end.exit_code)
        if end.exit_code < 0:
            return AttemptPhase.FAILED, None, f"killed by signal {-end.exit_code}"
        return AttemptPhase.FAILED, name, end.said or f"ended with exit code {end.exit_code}"
