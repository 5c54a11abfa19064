"""The CPU time that the reads of viewers may use together: a share of one core.

All threads of an API server share Python's interpreter lock, so reads that never pause would slow Airflow's heartbeats
and the changes of approvers, however many threads they have. A read above the budget waits for it, in the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Generic, TypeVar

__all__ = ["Metered", "ReadBudget"]

T = TypeVar("T")

_SHARE: Final = 0.25
_BURST_S: Final = 2.0
_DEBT_S: Final = 0.25
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


class _Bucket:
    """CPU time in seconds: at most `burst_s`, filled with `share` seconds a second. Below zero it is a debt."""

    def __init__(self, share: float, burst_s: float, clock_s: Callable[[], float]) -> None:
        self._share = share
        self._burst_s = burst_s
        self._clock_s = clock_s
        self._since_s = clock_s()
        self.left_s = burst_s

    def wait_s(self) -> float:
        """The time until the debt is paid; 0 without a debt."""
        now_s = self._clock_s()
        self.left_s = min(self._burst_s, self.left_s + (now_s - self._since_s) * self._share)
        self._since_s = now_s
        return max(0.0, -self.left_s / self._share)

    @property
    def is_full(self) -> bool:
        """Whether the bucket is as a new one."""
        self.wait_s()
        return self.left_s >= self._burst_s


class ReadBudget:
    """A bucket of CPU time for all viewers, and one for each viewer. All hold `burst_s` and fill with `share` seconds a
    second.

    Only the event loop may use it. A read takes the mean time of earlier reads before it begins, and settles the
    difference after its end. A viewer pays for a long read alone: the debt of all viewers is at most `debt_s`.
    """

    def __init__(
        self,
        share: float = _SHARE,
        burst_s: float = _BURST_S,
        debt_s: float = _DEBT_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._new_bucket = partial(_Bucket, share, burst_s, clock_s)
        self._all = self._new_bucket()
        self._by_user: dict[str, _Bucket] = {}
        self._debt_s = debt_s
        self._mean_s = _FIRST_READ_S
        self._queue = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, user: str, read: Metered[T]) -> AsyncIterator[None]:
        """Wait for CPU time of the user, then for that of all viewers in the order of the calls. The read must run, or
        give up, inside of the block.
        """
        await _wait(self._by_user.setdefault(user, self._new_bucket()))
        async with self._queue:
            await _wait(self._all)
            taken_s = self._mean_s
            self._all.left_s -= taken_s
        try:
            yield
        finally:
            self._settle(user, taken_s, read.used_s)

    def _settle(self, user: str, taken_s: float, used_s: float) -> None:
        self._all.left_s += taken_s
        self._all.left_s = max(self._all.left_s - used_s, min(self._all.left_s, -self._debt_s))
        self._by_user.setdefault(user, self._new_bucket()).left_s -= used_s
        self._by_user = {name: bucket for name, bucket in self._by_user.items() if not bucket.is_full}
        if used_s:
            self._mean_s += _NEW_WEIGHT * (used_s - self._mean_s)


async def _wait(bucket: _Bucket) -> None:
    while (wait_s := bucket.wait_s()) > 0:  # noqa: ASYNC110 -- time fills the bucket
        await asyncio.sleep(wait_s)
