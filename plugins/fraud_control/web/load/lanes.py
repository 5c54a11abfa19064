"""Runs the routes' functions in threads of the control plane, with limits for each user.

All threads share Python's interpreter lock, so few of them read for viewers at a time, and users who may change rules
have threads of their own. A request waits for its turn in the event loop, without a thread.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from fraud_control.web.problems import WebError

T = TypeVar("T")


class LaneName(StrEnum):
    """The kinds of requests that do not wait for each other."""

    READS = "reads"
    READS_FOR_CHANGES = "reads-for-changes"
    EVIDENCE = "evidence"
    ENTITIES = "entities"
    FILES = "files"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """The limits of a lane: its threads, those of one user at once, the requests of one user that run or wait, and
    how long a request waits for a thread. A random part of up to half of it comes on top. Without that, requests that
    arrived together are refused together and come back together. With it, the wait is at most 60 s: `fraud` waits no
    longer for an answer.
    """

    threads: int
    user_threads: int
    user_requests: int
    wait_s: float


LIMITS: Final[Mapping[LaneName, LaneLimits]] = {
    LaneName.READS: LaneLimits(2, 1, 20, 10.0),
    LaneName.READS_FOR_CHANGES: LaneLimits(2, 2, 20, 10.0),
    LaneName.EVIDENCE: LaneLimits(1, 1, 6, 20.0),
    LaneName.ENTITIES: LaneLimits(1, 1, 4, 30.0),
    LaneName.FILES: LaneLimits(2, 1, 2, 40.0),
    LaneName.CHANGES: LaneLimits(4, 1, 20, 15.0),
}


@dataclass(slots=True)
class _Share:
    """One user's part of a lane."""

    turns: asyncio.Semaphore
    requests: int = field(default=0)


class Lane:
    """The threads of one lane. Only the event loop may use it."""

    def __init__(self, name: LaneName, limits: LaneLimits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, f"fraud-control-{name}")
        self._turns = asyncio.Semaphore(limits.threads)
        self._shares: dict[str, _Share] = {}

    async def run(self, user: str, call: Callable[[], T]) -> T:
        """Run `call` in a thread of the lane and return its result.

        Raises what `call` raises, and WebError: 429 above the user's limit, 503 if no thread becomes free in time.
        """
        share = self._shares.setdefault(user, _Share(asyncio.Semaphore(self._limits.user_threads)))
        if share.requests >= self._limits.user_requests:
            raise WebError(429, f"{share.requests} of your requests are running or waiting; wait for their answers")
        share.requests += 1
        try:
            return await self._run(share, call)
        finally:
            share.requests -= 1
            if not share.requests:
                del self._shares[user]

    def close(self) -> None:
        """Cancel the waiting calls. Running ones continue to their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, share: _Share, call: Callable[[], T]) -> T:
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._limits.wait_s * random.uniform(1, 1.5)):  # noqa: S311 - no secret
                    # The user's turn comes first, so that the waiting requests of one user hold no thread.
                    await held.enter_async_context(share.turns)
                    await held.enter_async_context(self._turns)
            except TimeoutError:
                raise WebError(503, "the server has too many requests of this kind; try again later") from None
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)


class Lanes:
    """All lanes of a process."""

    def __init__(self, limits: Mapping[LaneName, LaneLimits] = LIMITS) -> None:
        self._lanes = {name: Lane(name, limits[name]) for name in LaneName}

    def __getitem__(self, name: LaneName) -> Lane:
        return self._lanes[name]

    def close(self) -> None:
        """Close all lanes."""
        for lane in self._lanes.values():
            lane.close()
