"""The lanes: threads of the control plane with limits for each user."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fraud_control.web.load.lanes import Lane, LaneLimits, LaneName
from fraud_control.web.problems import WebError

NOW_S, LONG_S = 0.05, 60.0


class Gate:
    """A call that blocks its thread until the test opens the gate. `running` counts the calls inside."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.running = 0
        self.names: set[str] = set()

    def __call__(self) -> str:
        with self._lock:
            self.running += 1
            self.names.add(threading.current_thread().name)
        assert self._open.wait(LONG_S)
        return "done"

    def open(self) -> None:
        self._open.set()

    async def reached(self, count: int) -> None:
        async with asyncio.timeout(LONG_S):
            while self.running < count:  # noqa: ASYNC110 -- the calls are threads
                await asyncio.sleep(0.001)


@asynccontextmanager
async def working(limits: LaneLimits) -> AsyncIterator[tuple[Lane, Gate]]:
    lane, gate = Lane(LaneName.READS, limits), Gate()
    try:
        yield lane, gate
    finally:
        gate.open()
        lane.close()


async def refused(call: Coroutine[Any, Any, str]) -> int:
    with pytest.raises(WebError) as error:
        await call
    return error.value.status


@pytest.mark.anyio
async def test_a_user_above_the_limit_is_refused_at_once_and_others_are_served() -> None:
    async with working(LaneLimits(threads=3, user_threads=2, user_requests=3, wait_s=LONG_S)) as (lane, gate):
        ours = [asyncio.create_task(lane.run("vic", gate)) for _ in range(3)]
        await gate.reached(2)
        assert await refused(lane.run("vic", gate)) == 429
        theirs = asyncio.create_task(lane.run("ann", gate))
        await gate.reached(3)
        gate.open()
        assert await asyncio.gather(*ours, theirs) == ["done"] * 4
        assert await lane.run("vic", lambda: "again") == "again"


@pytest.mark.anyio
async def test_a_request_without_a_thread_waits_without_one_and_then_fails() -> None:
    async with working(LaneLimits(threads=1, user_threads=1, user_requests=2, wait_s=NOW_S)) as (lane, gate):
        first = asyncio.create_task(lane.run("vic", gate))
        await gate.reached(1)
        assert await refused(lane.run("ann", gate)) == 503
        assert await refused(lane.run("vic", gate)) == 503
        assert gate.names == {"fraud-control-reads_0"}
        gate.open()
        assert await first == "done"
        assert await lane.run("ann", gate) == "done"


@pytest.mark.anyio
async def test_an_error_frees_the_thread() -> None:
    async with working(LaneLimits(threads=1, user_threads=1, user_requests=1, wait_s=NOW_S)) as (lane, gate):
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await lane.run("vic", lambda: str(1 // 0))
        gate.open()
        assert await lane.run("vic", gate) == "done"
