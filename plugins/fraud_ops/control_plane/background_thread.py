"""A thread beside the API that starts once and stops once. After an error it starts its work again."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Final

from fraud_rules.runtime.retry import RepeatedWork

__all__ = ["BackgroundThread"]

_JOIN_S: Final = 30.0

_log = logging.getLogger(__name__)


class BackgroundThread(ABC):
    """Runs `_run` in a daemon thread, and again after a growing pause whenever it raises or returns.

    `_run` returns soon after `_stop` is set. `fault` is the reason why the work fails at the moment.
    """

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._attempts = RepeatedWork(name)
        self._thread = threading.Thread(target=self._keep_running, name=name, daemon=True)

    @property
    def name(self) -> str:
        """The thread's name."""
        return self._thread.name

    @property
    def fault(self) -> str | None:
        """The reason why the work fails at the moment; None while it succeeds."""
        return self._attempts.failure

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end, at most 30 seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
            if self._thread.is_alive():
                _log.warning("%s has not ended within %g s", self.name, _JOIN_S)

    def _keep_running(self) -> None:
        self._attempts.run(self._run, self._stop)

    @abstractmethod
    def _run(self, attempt: RepeatedWork) -> None:
        """Work until `_stop` is set; call `attempt.record_success` once the work succeeds."""
