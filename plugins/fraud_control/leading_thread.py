"""A thread beside the API whose work one process at a time does: the leader."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from fraud_control.background_thread import BackgroundThread
from fraud_control.store.leases import Leadership
from fraud_rules.runtime.retry import RepeatedWork


class LeadingThread(BackgroundThread):
    """Calls `step` every `interval_s` seconds while this process leads. `lead` opens the leadership.

    `leads` is whether this process leads.
    """

    def __init__(self, name: str, lead: Callable[[], AbstractContextManager[Leadership]], interval_s: float) -> None:
        super().__init__(name)
        self._lead = lead
        self._interval_s = interval_s
        self.leads = False

    @abstractmethod
    def step(self) -> None:
        """Do the work that is due. After an error, the thread opens the leadership again."""

    def _work(self, attempt: RepeatedWork) -> None:
        with self._lead() as lead:
            if not lead:
                attempt.record_standby()
                return
            self.leads = True
            try:
                while not self._stop.wait(self._interval_s):
                    lead.check()
                    self.step()
                    attempt.record_success()
            finally:
                self.leads = False
