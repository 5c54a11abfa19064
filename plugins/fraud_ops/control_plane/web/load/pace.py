"""Admits the requests of viewers one after the other, at a steady rate.

Many viewers who wait for one answer get it at the same moment, and then send their next requests at the same moment.
The authentication of all of them would occupy the event loop for half a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from fraud_ops.control_plane.web.problems import WebError

__all__ = ["Pace"]

_PER_S: Final = 30.0
_BURST: Final = 20
_LONGEST_WAIT_S: Final = 10.0


class Pace:
    """The turns of a process: `burst` at once, then `per_s`. Only the event loop may use it."""

    def __init__(
        self, per_s: float = _PER_S, burst: int = _BURST, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval_s = 1 / per_s
        self._burst_s = burst / per_s
        self._clock_s = clock_s
        self._next_s = 0.0

    def reserve(self) -> float:
        """Reserve the next turn, and return the time until then. Raises WebError 429 if it is too far away."""
        now_s = self._clock_s()
        next_s = max(self._next_s + self._interval_s, now_s - self._burst_s + self._interval_s)
        if next_s - now_s > _LONGEST_WAIT_S:
            raise WebError(429, "the server has too many requests; try again later")
        self._next_s = next_s
        return max(0.0, next_s - now_s)

    async def turn(self) -> None:
        """Wait for a turn. Raises WebError 429."""
        if (wait_s := self.reserve()) > 0:
            await asyncio.sleep(wait_s)
