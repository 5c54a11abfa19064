"""Keeps full garbage collections of the API server short.

Airflow's API server holds more than a million objects, and a full collection visits all of them while no other thread
runs. Nearly all of these objects live as long as the process. So the survivors of a long collection are frozen: later
collections do not visit them.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["LongCollections"]

_log = logging.getLogger(__name__)
_FULL: Final = 2
_LONG_S: Final = 0.05
_MOST_FREEZES: Final = 10


class LongCollections:
    """A callback of the garbage collector. It freezes the survivors of a few long collections, because cycles among
    frozen objects stay in memory."""

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self._began_s = 0.0
        self._left = _MOST_FREEZES

    def install(self) -> None:
        """Watch the collections of this process."""
        gc.callbacks.append(self)

    def remove(self) -> None:
        """Stop watching. Frozen objects stay frozen."""
        gc.callbacks.remove(self)

    def __call__(self, phase: str, facts: Mapping[str, int]) -> None:
        if facts["generation"] != _FULL or not self._left:
            return
        if phase == "start":
            self._began_s = self._clock_s()
            return
        took_s = self._clock_s() - self._began_s
        if took_s >= _LONG_S:
            self._left -= 1
            gc.freeze()
            _log.info("a full garbage collection took %.0f ms: its survivors are frozen", 1_000 * took_s)
