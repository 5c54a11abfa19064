"""Monitors the readers of the control plane, and raises an alarm about a stuck reader."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from fraud_control.background_thread import BackgroundThread
from fraud_control.sync.reader_state import ReaderPosition, ReaderProgress, ReaderState
from fraud_control.watch.alarm_reports import AlarmReports
from fraud_ops.alarms import REPEAT_MS, Alarm
from fraud_rules.errors import FraudError
from fraud_rules.kafka.unread import Unread
from fraud_rules.runtime.clock import SteadyClock
from fraud_rules.runtime.retry import RepeatedWork

ALARM: Final = "READER_STUCK"

_POLL_INTERVAL_S: Final = 10.0
_SILENT_MS: Final = 2 * REPEAT_MS
"""A process repeats its alarms more often, so an older alarm is that of a process that has ended."""


class ReaderWatch(BackgroundThread):
    """One instance per process. `leads` returns whether this process raises the alarms about shared positions."""

    def __init__(
        self,
        readings: Callable[[], Iterable[ReaderPosition]],
        unread: Callable[[str, int], Unread],
        detector: str,
        alarms: AlarmReports,
        steady_ms: SteadyClock,
        leads: Callable[[], bool],
    ) -> None:
        """`readings` returns the readers, and `unread` the records of a topic from an offset on; both may raise
        FraudError. `detector` names the installation in alarms.
        """
        super().__init__("fraud-control-readers")
        self._readings = readings
        self._unread = unread
        self._detector = detector
        self._alarms = alarms
        self._steady_ms = steady_ms
        self._leads = leads
        self._process = f"{socket.gethostname()}:{os.getpid()}"
        self._progress = ReaderProgress()
        self.states: Sequence[ReaderState] = ()
        """The readers at the last observation."""

    def observe(self) -> None:
        """Observe all readers once. A topic that cannot be read is a fault of its reader.

        Raises FraudError if the store does not answer, or if no topic can be read: other alarms report that.
        """
        found: list[tuple[ReaderPosition, Unread]] = []
        errors: list[FraudError] = []
        for reading in self._readings():
            try:
                found.append((reading, self._unread(reading.topic, reading.position)))
            except FraudError as error:
                errors.append(error)
                fault = reading.fault or " ".join(str(error).split())
                found.append((replace(reading, fault=fault), Unread(reading.position, None)))
        if errors and len(errors) == len(found):
            raise errors[0]
        states = [(each, self._progress.state(each, unread, self._steady_ms())) for each, unread in found]
        for reading, state in states:
            if self._leads() or not reading.shared:
                self._report(state, "" if reading.shared else f" in {self._process}")
        self.states = [state for _, state in states]
        if self._leads():
            for part in sorted(self._alarms.open_parts(ALARM, silent_ms=_SILENT_MS)):
                said = f"no process reports {part} any more"
                self._alarms.report(Alarm(ALARM, self._detector, said, resolved=True, part=part))

    def _report(self, state: ReaderState, where: str) -> None:
        """Report whether a reader is stuck. The store decides whether that is news."""
        part = f"{state.name} of {state.topic}{where}"
        self._alarms.report(Alarm(ALARM, self._detector, str(state) + where, resolved=not state.stuck, part=part))

    def _work(self, attempt: RepeatedWork) -> None:
        while not self._stop.wait(_POLL_INTERVAL_S):
            self.observe()
            attempt.record_success()
