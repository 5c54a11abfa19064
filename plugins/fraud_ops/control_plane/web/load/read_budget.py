"""The CPU time that the reads of viewers may use together: a share of one core.

All threads of an API server share Python's interpreter lock, so reads that never pause would slow Airflow's heartbeats
and the changes of approvers, however many threads they have. A read above the budget waits for it, in the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

__all__ = ["Metered", "ReadBudget"]

T = TypeVar("T")

_SHARE: Final = 0.25
_BURST_S: Final = 2.0
_FIRST_READ_S: Final = 0.02
_NEW_WEIGHT: Final = 0.2


class Metered(Generic[T]):
    """A call that measures the CPU time of its thread."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self.used_s = 0.0

    def __call__(self) -> T:
        began_s = time.thread_time()
        try:
            return self._call()
        finally:
            self.used_s = time.thread_time() - began_s


class ReadBudget:
    """A bucket of CPU time, which holds `burst_s` and fills with `share` seconds a second.

    Only the event loop may use it. A read takes the mean time of earlier reads before it begins, and settles the
    difference after its end.
    """

    def __init__(
        self, share: float = _SHARE, burst_s: float = _BURST_S, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._share = share
        self._burst_s = burst_s
        self._clock_s = clock_s
        self._left_s = burst_s
        self._since_s = clock_s()
        self._mean_s = _FIRST_READ_S
        self._queue = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, read: Metered[T]) -> AsyncIterator[None]:
        """Wait for CPU time, in the order of the calls. The read must run, or give up, inside of the block."""
        async with self._queue:
            while (left_s := self._refilled()) < 0:  # noqa: ASYNC110 -- time fills the bucket
                await asyncio.sleep(-left_s / self._share)
            taken_s = self._mean_s
            self._left_s -= taken_s
        try:
            yield
        finally:
            self._left_s += taken_s - read.used_s
            if read.used_s:
                self._mean_s += _NEW_WEIGHT * (read.used_s - self._mean_s)

    def _refilled(self) -> float:
        now_s = self._clock_s()
        self._left_s = min(self._burst_s, self._left_s + (now_s - self._since_s) * self._share)
        self._since_s = now_s
        return self._left_s
