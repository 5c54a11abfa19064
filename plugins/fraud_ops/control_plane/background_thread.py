"""A thread beside the API: begun once, told to stop once, and waited for."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

__all__ = ["BackgroundThread"]


class BackgroundThread(ABC):
    """Runs `_run` in a daemon thread; it returns soon after `_stop` is set, whatever happens in between."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Return once it has ended."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def _run(self) -> None: ...
