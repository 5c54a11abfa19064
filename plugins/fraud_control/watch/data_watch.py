"""Raises alarms about payments and rules: fields that become null, rules that match nothing, unusual alert rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fraud_control.background_thread import BackgroundThread
from fraud_control.watch.alarm_reports import AlarmReports, report_standing
from fraud_rules.monitoring.data_faults import DataFault, DataVerdict
from fraud_rules.runtime.retry import RepeatedWork

_INTERVAL_S: Final = 60.0


class DataWatch(BackgroundThread):
    """One instance per process. `leads` returns whether this process raises the alarms."""

    def __init__(
        self,
        faults: Callable[[], Sequence[DataFault]],
        detector: str,
        alarms: AlarmReports,
        leads: Callable[[], bool],
    ) -> None:
        """`faults` returns the present faults, and may raise FraudError. `detector` names the installation in
        alarms."""
        super().__init__("fraud-control-data")
        self._faults = faults
        self._detector = detector
        self._alarms = alarms
        self._leads = leads

    def observe(self) -> None:
        """Report all faults, and the end of those that no longer hold. Raises FraudError."""
        faults = self._faults()
        for verdict in DataVerdict:
            standing = [(fault.part, fault.reason) for fault in faults if fault.verdict is verdict]
            report_standing(self._alarms, verdict, self._detector, standing, "is as usual")

    def _work(self, attempt: RepeatedWork) -> None:
        while not self._stop.wait(_INTERVAL_S):
            if self._leads():
                self.observe()
            attempt.record_success()
