"""A thread beside the API that starts once and stops once. After an error it starts its work again."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Final

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
