"""The agent's loop: read intents, execute the newest valid one step by step, and report the state.

A RUN intent has four stages: check the release, prepare its detector, drain the running detector, start the new one.
The agent drains the running detector only when the check has passed and a held driver is ready beside it, with Spark
started. So the agent refuses an invalid release while the running detector continues, and a deployment delays alerts
by less than a whole start. Each step returns at once and the next step continues the work, so long work delays no
heartbeat.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from fraud_rules.configuration.settings import AgentSettings
from fraud_rules.deploy.agent.launcher import Launcher, LocalAttempt, ReleaseCheck
from fraud_rules.deploy.agent.patience import Patience
from fraud_rules.deploy.agent.reporter import Reporter, Write
from fraud_rules.deploy.agent.watch import AgentIdentity, AttemptWatch
from fraud_rules.deploy.attempt import AttemptPhase, AttemptStatus, DeploymentReports
from fraud_rules.deploy.intent import NO_EPOCH, SUPERVISOR, IntentKind, IntentLog, IntentRecord
from fraud_rules.deploy.work import Work, WorkPhase
from fraud_rules.errors import FraudError, ReleaseInvalid, Stalled, StorageFull, error_name
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.runtime import clock
from fraud_rules.runtime.clock import SteadyClock

_PREFIX: Final = "detector: "
_MESSAGE_CHARS = 2_000
_DOUBLINGS: Final = 6
_FULL_DISK: Final = (errno.ENOSPC, errno.EDQUOT)
_DIED = (AttemptPhase.FAILED, AttemptPhase.LOST)


@dataclass(slots=True)
class _Execution:
    """The execution of an intent. `check` is None for a drain, and after the release has passed it. `held` is the
    attempt that waits until the running detector has ended."""

    record: IntentRecord
    check: ReleaseCheck | None
    patience: Patience
    held: LocalAttempt | None = None


class Agent:
    """Executes intents about one detector. The times of records are passed in, in epoch ms; limits use `steady_ms`."""

    def __init__(
        self,
        me: AgentIdentity,
        launcher: Launcher,
        write: Write,
        limits: AgentSettings,
        authenticate: Callable[[IntentRecord], None],
        steady_ms: SteadyClock = clock.steady_ms,
    ) -> None:
        """`authenticate` raises IntentForged for an intent that this agent must not execute, else ConfigError."""
        self._me = me
        self._launcher = launcher
        self._authenticate = authenticate
        self._reporter = Reporter(me, write, limits.heartbeat_ms, steady_ms)
        self._steady_ms = steady_ms
        self._limits = limits
        self._current: AttemptWatch | None = None
        self._execution: _Execution | None = None
        self._executed = NO_EPOCH
        self._stalls: tuple[str | None, int] = (None, 0)

    @property
    def executed(self) -> int:
        """The newest executed epoch."""
        return self._executed

    @property
    def runs(self) -> bool:
        """Whether a detector of this agent runs."""
        return self._current is not None and self._current.is_alive()

    def take_over(self, intents: IntentLog, reports: DeploymentReports, now_ms: int) -> None:
        """Continue from the previous agent's state, on this host and in the log."""
        attempt = self._launcher.newest()
        if attempt is not None:
            self._current = AttemptWatch(self._me, attempt, self._steady_ms)
            self._executed = attempt.order.epoch
        done = [each.status.epoch for each in reports.attempts.values() if each.status.phase.is_terminal]
        self._executed = max([self._executed, *done])
        self._forget_another_log(intents)
        newest = intents.newest
        known = None if newest is None else reports.attempts.get(newest.intent.attempt_id)
        if newest is None or known is None or newest.epoch <= self._executed:
            return
        if known.status.phase is not AttemptPhase.ACCEPTED and newest.intent.kind is IntentKind.RUN:
            previous = f"agent {known.status.agent} on {known.status.host}"
            message = f"{previous} started this attempt, and agent {self._me.agent} replaced that agent"
            lost = msgspec.structs.replace(known.status, phase=AttemptPhase.LOST, message=message, ended_ms=now_ms)
            self._reporter.queue(lost)
            self._executed = newest.epoch

    def record_batch(self, progress: BatchProgress) -> None:
        """Count a batch that the detector has written."""
        if self._current is not None:
            self._current.record_batch(progress)

    def step(self, intents: IntentLog, now_ms: int) -> None:
        """Execute the newest intent one step further, and report changes. Raises the errors of `Write`."""
        self._forget_another_log(intents)
        newest = intents.newest
        if newest is not None:
            self._execute(newest, now_ms)
        self._report(now_ms)

    def end(self) -> bool:
        """Drain the running detector, whatever the newest intent is. Return True once no detector runs."""
        self._cancel()
        return self._drain_finished()

    def report(self, now_ms: int) -> None:
        """Write a heartbeat with all changes. Raises the errors of `Write`."""
        self._reporter.make_due()
        self._report(now_ms)

    def _forget_another_log(self, intents: IntentLog) -> None:
        """Reset the executed epoch if the intent log was deleted and created again. The detector keeps running."""
        last = intents.records[-1].epoch if intents.records else NO_EPOCH
        order = None if self._current is None else self._current.attempt.order
        known = None if order is None else intents.at(order.epoch)
        if self._executed > last or (known is not None and order is not None and known.intent != order.intent):
            self._executed = NO_EPOCH

    def _execute(self, newest: IntentRecord, now_ms: int) -> None:
        execution = self._execution
        if execution is not None and execution.record.epoch < newest.epoch:
            self._cancel()
            self._finish(
                execution, AttemptPhase.SUPERSEDED, now_ms, message=f"epoch {newest.epoch} arrived before its start"
            )
            execution = None
        try:
            self._continue(execution or self._begin(newest, now_ms), now_ms)
        except OSError as error:
            if error.errno not in _FULL_DISK or self._execution is None:
                raise
            self._cancel()
            self._refuse(self._execution, StorageFull.__name__, str(error), now_ms)

    def _continue(self, execution: _Execution | None, now_ms: int) -> None:
        """Execute an intent one step further. Raises OSError, for example if the disk of the agent is full."""
        if execution is None or not self._check_passed(execution, now_ms) or not self._held_is_ready(execution, now_ms):
            return
        if self._current is not None and self._current.stalled is None and self._is_repair(execution.record):
            self._current.stalled = execution.record.intent.reason
        if not self._drain_finished():
            if execution.record.intent.kind is IntentKind.DRAIN:
                self._record_phase(execution, AttemptPhase.DRAINING, now_ms)
            return
        if execution.record.intent.kind is IntentKind.DRAIN:
            self._finish(execution, AttemptPhase.STOPPED, now_ms)
        else:
            self._start(execution, now_ms)

    def _begin(self, record: IntentRecord, now_ms: int) -> _Execution | None:
        if record.epoch <= self._executed:
            return None
        execution = self._execution = _Execution(record, None, self._patience(record, now_ms))
        try:
            self._authenticate(record)
        except FraudError as error:
            # The writer of a forged intent chose its attempt id, which may be that of another attempt.
            own = msgspec.structs.replace(record.intent, attempt_id=f"refused-{record.epoch}")
            execution.record = replace(record, intent=own)
            self._refuse(execution, type(error).__name__, str(error), now_ms)
            return None
        self._record_phase(execution, AttemptPhase.ACCEPTED, now_ms)
        if record.intent.kind is IntentKind.RUN:
            try:
                self._launcher.validate(record)
            except FraudError as error:
                self._refuse(execution, type(error).__name__, str(error), now_ms)
                return None
            if not self._repeats_failed_release(record):
                execution.check = self._launcher.check(record)
        return execution

    def _repeats_failed_release(self, record: IntentRecord) -> bool:
        """Whether the last attempt ran this release and died or stalled. Then another check is useless."""
        last = self._current
        if last is None or not last.attempt.folder.running:
            return False
        if last.phase not in _DIED and not self._is_repair(record):
            return False
        wanted, ran = record.intent, last.attempt.order.intent
        return wanted.rebuild is None and not wanted.resume and wanted.fingerprint == ran.fingerprint

    def _check_passed(self, execution: _Execution, now_ms: int) -> bool:
        """Continue the check. Return True if the release is valid, and refuse an invalid release."""
        if execution.check is None:
            return True
        code = execution.check.poll()
        if code is None:
            work = Work(WorkPhase.CHECK, execution.patience.began_ms, execution.patience.moved_ms)
            self._await(execution, execution.check.cpu_s, work, now_ms)
            return False
        output, execution.check = execution.check.output(), None
        if code != 0:
            self._refuse(execution, error_name(code) or ReleaseInvalid.__name__, _last_line(output), now_ms)
        return code == 0

    def _held_is_ready(self, execution: _Execution, now_ms: int) -> bool:
        """Start a held driver if a detector runs. Return True if it is ready, or if none is needed.

        A held driver that ends too early is refused. A release with a port for Spark's UI has no held driver, because
        the running detector uses that port.
        """
        release, held = execution.record.intent.release, execution.held
        if held is None:
            if release is None or release.ui_port is not None or not self.runs or self._is_repair(execution.record):
                return True
            held = execution.held = self._launcher.start(execution.record, now_ms, held=True)
            execution.patience = self._patience(execution.record, now_ms)
        if held.folder.ready:
            return True
        end = held.end()
        if end is not None:
            name = error_name(end.exit_code or 0) or ReleaseInvalid.__name__
            self._refuse(
                execution, name, end.said or f"it ended with exit code {end.exit_code} before it was ready", now_ms
            )
        else:
            work = held.folder.read_work() or Work(WorkPhase.SESSION, execution.patience.began_ms, now_ms)
            execution.patience.record_work((work.phase, work.done), now_ms)
            self._await(execution, held.cpu_s, work, now_ms)
        return False

    def _patience(self, record: IntentRecord, now_ms: int) -> Patience:
        """The patience with a release. Its limit doubles with each stall in a row of the same release."""
        fingerprint, count = self._stalls
        doublings = min(count, _DOUBLINGS) if fingerprint == record.intent.fingerprint else 0
        return Patience(now_ms, self._limits.check_ms * 2**doublings, self._steady_ms)

    def _await(self, execution: _Execution, cpu_s: Callable[[], float], work: Work, now_ms: int) -> None:
        """Report the progress of a check or of a held driver. Refuse the release if the progress stops for too long."""
        patience = execution.patience
        if patience.is_due():
            patience.record_cpu(cpu_s(), now_ms)
        if not patience.is_over():
            work = msgspec.structs.replace(work, changed_ms=patience.moved_ms)
            self._record_phase(execution, AttemptPhase.ACCEPTED, now_ms, work=work)
            return
        tail = "" if execution.check is None else f"; its last output: {_last_line(execution.check.output())}"
        self._cancel()
        fingerprint, count = self._stalls
        own = execution.record.intent.fingerprint
        self._stalls = (own, count + 1 if fingerprint == own else 1)
        self._refuse(execution, Stalled.__name__, f"{patience.describe(str(work))}{tail}", now_ms)

    def _is_repair(self, record: IntentRecord) -> bool:
        """Whether a supervisor replaces a stalled detector. Then the running attempt counts as failed."""
        current = self._current
        if current is None or not current.is_alive():
            return False
        return record.intent.requested_by == SUPERVISOR and record.intent.after == current.attempt.order.epoch

    def _drain_finished(self) -> bool:
        current = self._current
        if current is None or not current.is_alive():
            return True
        if current.asked_ms is None and current.attempt.is_stopped():
            current.kill()
            return not current.is_alive()
        current.drain()
        if current.asked_ms is not None and self._steady_ms() > current.asked_ms + self._limits.drain_ms:
            current.kill()
        return not current.is_alive()

    def _start(self, execution: _Execution, now_ms: int) -> None:
        """Start the detector. The report comes first, because it raises Fenced if another agent has taken over."""
        if self._current is not None:
            self._observe(self._current, now_ms)
        self._record_phase(execution, AttemptPhase.STARTING, now_ms)
        self._report(now_ms)
        held = execution.held
        attempt = self._launcher.start(execution.record, now_ms) if held is None else held.proceed(now_ms)
        self._current = AttemptWatch(self._me, attempt, self._steady_ms)
        self._execution, self._executed, self._stalls = None, execution.record.epoch, (None, 0)

    def _refuse(self, execution: _Execution, name: str, message: str, now_ms: int) -> None:
        self._finish(execution, AttemptPhase.REFUSED, now_ms, name, message)

    def _finish(
        self,
        execution: _Execution,
        phase: AttemptPhase,
        now_ms: int,
        name: str | None = None,
        message: str | None = None,
    ) -> None:
        self._record_phase(execution, phase, now_ms, name, message)
        self._execution, self._executed = None, execution.record.epoch

    def _cancel(self) -> None:
        """End the check and the held driver of the current intent."""
        execution = self._execution
        if execution is not None and execution.check is not None:
            execution.check.cancel()
            execution.check = None
        if execution is not None and execution.held is not None:
            execution.held.kill()
            execution.held = None

    def _record_phase(
        self,
        execution: _Execution,
        phase: AttemptPhase,
        now_ms: int,
        name: str | None = None,
        message: str | None = None,
        work: Work | None = None,
    ) -> None:
        """Record the phase of an intent whose process has not started."""
        me, record = self._me, execution.record
        status = AttemptStatus(
            me.detector, record.intent.attempt_id, record.epoch, phase, now_ms, me.agent, me.host, name, message,
            ended_ms=now_ms if phase.is_terminal else None, work=work,
        )  # fmt: skip
        self._reporter.queue(status)

    def _observe(self, watch: AttemptWatch, now_ms: int) -> AttemptStatus:
        status = watch.status(now_ms)
        self._reporter.queue(status)
        return status

    def _report(self, now_ms: int) -> None:
        current = None if self._current is None else self._observe(self._current, now_ms)
        self._reporter.report(self._executed, current, now_ms)


def _last_line(output: str) -> str:
    """The last line of a check's output that the detector itself wrote, or else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    own = [line.removeprefix(_PREFIX) for line in lines if line.startswith(_PREFIX)]
    return (own or lines or ["no output"])[-1][:_MESSAGE_CHARS]
