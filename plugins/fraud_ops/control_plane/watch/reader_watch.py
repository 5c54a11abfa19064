"""Monitors the readers of the control plane, and raises an alarm about a stuck reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fraud_ops.alarms import Alarm
from fraud_ops.control_plane.background_thread import BackgroundThread
from fraud_ops.control_plane.sync.reader_state import ReaderPosition, ReaderProgress, ReaderState
from fraud_rules.kafka.unread import Unread
from fraud_rules.runtime.clock import SteadyClock
from fraud_rules.runtime.retry import RepeatedWork

__all__ = ["ALARM", "ReaderWatch"]

ALARM: Final = "READER_STUCK"

_POLL_INTERVAL_S: Final = 10.0


class ReaderWatch(BackgroundThread):
    """One instance per process. `leads` returns whether this process raises the alarms about shared positions."""

    def __init__(
        self,
        readings: Callable[[], Iterable[ReaderPosition]],
        unread: Callable[[str, int], Unread],
        detector: str,
        alarm: Callable[[Alarm], object],
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
        self._alarm = alarm
        self._steady_ms = steady_ms
        self._leads = leads
        self._progress = ReaderProgress()
        self.states: Sequence[ReaderState] = ()
        """The readers at the last observation."""

    def observe(self) -> None:
        """Observe all readers once. Raises FraudError if the store or Kafka does not answer."""
        found = []
        for reading in self._readings():
            state = self._progress.state(reading, self._unread(reading.topic, reading.position), self._steady_ms())
            found.append(state)
            if self._leads() or not reading.shared:
                self._update_alarm(state)
        self.states = found

    def _update_alarm(self, state: ReaderState) -> None:
        """Report whether a reader is stuck. The store decides whether that is news."""
        part = f"{state.name} of {state.topic}"
        self._alarm(Alarm(ALARM, self._detector, str(state), resolved=not state.stuck, part=part))

    def _run(self, attempt: RepeatedWork) -> None:
        while not self._stop.wait(_POLL_INTERVAL_S):
            self.observe()
            attempt.record_success()
