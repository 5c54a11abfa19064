"""Equal reads that wait at the same time run once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fastapi import Response

from fraud_ops.control_plane.web.load.lanes import Lane, LaneLimits, LaneName
from fraud_ops.control_plane.web.load.shared_reads import SharedReads
from fraud_ops.control_plane.web.problems import WebError

LONG_S = 60.0
ONE_THREAD = LaneLimits(threads=1, user_threads=1, user_requests=2, wait_s=LONG_S)


class Reads:
    """Counts its calls. The first one blocks the lane's only thread until the test opens the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.began = threading.Event()
        self.count = 0

    def block(self) -> Response:
        self.began.set()
        assert self.gate.wait(LONG_S)
        return Response(b"first")

    def __call__(self) -> Response:
        self.count += 1
        return Response(f"read {self.count}", headers={"X-Of": str(self.count)})


def run(scenario: Callable[[SharedReads, Lane, Reads], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        lane, reads = Lane(LaneName.READS, ONE_THREAD), Reads()
        first = asyncio.create_task(lane.run("vic", reads.block))
        assert await asyncio.to_thread(reads.began.wait, LONG_S)
        try:
            await scenario(SharedReads(), lane, reads)
        finally:
            reads.gate.set()
            await first
            lane.close()

    asyncio.run(main())


def test_waiting_reads_of_several_users_run_once_and_a_later_read_runs_again() -> None:
    async def scenario(shared: SharedReads, lane: Lane, reads: Reads) -> None:
        waiting = [asyncio.create_task(shared.run("/rules", lane, user, reads)) for user in ("ann", "ben", "vera")]
        other = asyncio.create_task(shared.run("/lists", lane, "carl", reads))
        await asyncio.sleep(0)
        reads.gate.set()
        answers = [await each for each in waiting]
        assert {bytes(each.body) for each in answers} == {b"read 1"}
        assert bytes((await other).body) == b"read 2"
        assert bytes((await shared.run("/rules", lane, "ben", reads)).body) == b"read 3"
        answers[0].headers["X-Of"] = "changed"
        assert answers[1].headers["X-Of"] == "1", "each answer has headers of its own"

    run(scenario)


def test_a_read_does_not_join_one_that_has_begun() -> None:
    async def scenario(shared: SharedReads, lane: Lane, reads: Reads) -> None:
        began, gate = threading.Event(), threading.Event()

        def slow() -> Response:
            began.set()
            assert gate.wait(LONG_S)
            return reads()

        first = asyncio.create_task(shared.run("/rules", lane, "ann", slow))
        reads.gate.set()
        assert await asyncio.to_thread(began.wait, LONG_S)
        second = asyncio.create_task(shared.run("/rules", lane, "ben", reads))
        await asyncio.sleep(0)
        gate.set()
        assert {bytes((await first).body), bytes((await second).body)} == {b"read 1", b"read 2"}

    run(scenario)


def test_a_partner_that_is_refused_or_goes_away_does_not_harm_the_others() -> None:
    async def scenario(shared: SharedReads, lane: Lane, reads: Reads) -> None:
        mine = [asyncio.create_task(lane.run("ann", reads)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = asyncio.create_task(shared.run("/rules", lane, "ann", reads))
        joined = asyncio.create_task(shared.run("/rules", lane, "ben", reads))
        with pytest.raises(WebError):
            await refused
        left = asyncio.create_task(shared.run("/lists", lane, "vera", reads))
        stays = asyncio.create_task(shared.run("/lists", lane, "carl", reads))
        await asyncio.sleep(0)
        left.cancel()
        reads.gate.set()
        assert bytes((await joined).body).startswith(b"read")
        assert bytes((await stays).body).startswith(b"read")
        await asyncio.gather(*mine)

    run(scenario)
