"""Values that are expensive to read, and may be a moment old."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cachetools import TTLCache

__all__ = ["Remembered"]

T = TypeVar("T")


class Remembered(Generic[T]):
    """The answer of `ask`, for `for_s` seconds after it came. Threads share it: one asks, the others wait for it."""

    def __init__(self, ask: Callable[[], T], for_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._kept: TTLCache[None, T] = TTLCache(maxsize=1, ttl=for_s, timer=clock_s)

    def __call__(self) -> T:
        """The value. Raises what `ask` raises."""
        with self._lock:
            try:
                return self._kept[None]
            except KeyError:
                value = self._kept[None] = self._ask()
                return value

    def forget(self) -> None:
        """Ask at the next call."""
        with self._lock:
            self._kept.clear()
