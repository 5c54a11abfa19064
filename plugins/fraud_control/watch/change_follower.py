"""A thread that works on the changes of rules and lists that the users of this process make."""

from __future__ import annotations

import threading
from abc import abstractmethod

from fraud_control.background_thread import BackgroundThread
from fraud_control.domain.read_models import RuleChanged
from fraud_control.service.store_access import StoreAccess


class ChangeFollower(BackgroundThread):
    """Calls `_note` for each change, in the thread that made it, and then wakes its own thread.

    The lock `_lock` guards what both threads use.
    """

    def __init__(self, name: str, store: StoreAccess) -> None:
        super().__init__(name)
        self._store = store
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        self._store.listen(self.accept)
        super().start()

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._stop.set()
        self._wake.set()
        super().stop()

    def accept(self, changed: RuleChanged) -> None:
        """Accept a change that this process made."""
        with self._lock:
            self._note(changed)
        self._wake.set()

    def _await_change(self, most_s: float) -> None:
        """Wait for the next change or the end, at most so many seconds."""
        self._wake.wait(most_s)
        self._wake.clear()

    @abstractmethod
    def _note(self, changed: RuleChanged) -> None:
        """Remember a change. The caller holds the lock."""
