"""Values that cost something to ask for, and may be a moment old."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Remembered"]

T = TypeVar("T")


class Remembered(Generic[T]):
    """What `ask` says, asked anew when it is older than `for_s`. May be used by several threads; one of them asks."""

    def __init__(self, ask: Callable[[], T], for_s: float) -> None:
        self._ask = ask
        self._for_s = for_s
        self._lock = threading.Lock()
        self._kept: tuple[float, T] | None = None

    def __call__(self) -> T:
        """The value. Raises what `ask` raises."""
        kept = self._kept
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        with self._lock:
            if self._kept is None or time.monotonic() >= self._kept[0]:
                self._kept = time.monotonic() + self._for_s, self._ask()
            return self._kept[1]

    def forget(self) -> None:
        """Ask at the next call."""
        self._kept = None
