"""Objects that a `with` block closes, and objects that work in a thread of their own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """An object that the end of a `with` block closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the object."""


class BackgroundWork(ABC):
    """An object that works in a daemon thread, from `start` until `_stop` is set."""

    def __init__(self, name: str, join_s: float | None = None) -> None:
        """`stop` waits for the end of the thread, at most `join_s`."""
        self._join_s = join_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._join_s)

    @abstractmethod
    def _run(self) -> None:
        """The work of the thread."""
