"""Threads beside the API. Each starts once and stops once, and starts its work again after an error. The work of some
is done by one process at a time, the leader.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from fraud_control.store.leases import Leadership
from fraud_rules.runtime.lifetime import BackgroundWork
from fraud_rules.runtime.retry import RepeatedWork

_JOIN_S: Final = 30.0

_log = logging.getLogger(__name__)


class BackgroundThread(BackgroundWork):
    """Does `_work` in a daemon thread, and again after a growing pause whenever it raises or returns.

    `_work` returns soon after `_stop` is set. `fault` is the reason why the work fails at the moment.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, _JOIN_S)
        self._attempts = RepeatedWork(name)

    @property
    def name(self) -> str:
        """The thread's name."""
        return self._thread.name

    @property
    def fault(self) -> str | None:
        """The reason why the work fails at the moment; None while it succeeds."""
        return self._attempts.failure

    def stop(self) -> None:
        """Stop the thread and wait for its end, at most 30 seconds."""
        super().stop()
        if self._thread.is_alive():
            _log.warning("%s has not ended within %g s", self.name, _JOIN_S)

    def _run(self) -> None:
        self._attempts.run(self._work, self._stop)

    @abstractmethod
    def _work(self, attempt: RepeatedWork) -> None:
        """Work until `_stop` is set; call `attempt.record_success` once the work succeeds."""


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
