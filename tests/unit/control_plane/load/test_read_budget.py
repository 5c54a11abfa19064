"""The read budget: reads of viewers wait for it, and a single viewer does not notice it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import pytest

from fraud_ops.control_plane.web.load.lanes import Lane, LaneLimits, LaneName
from fraud_ops.control_plane.web.load.read_budget import Metered, ReadBudget
from fraud_ops.control_plane.web.problems import WebError

LIMITS = LaneLimits(threads=2, user_threads=1, user_requests=10, wait_s=60.0)


def compute(seconds: float) -> None:
    until_s = time.thread_time() + seconds
    while time.thread_time() < until_s:
        pass


def run_in_lane(budget: ReadBudget, calls: list[tuple[str, Callable[[], None]]], limits: LaneLimits = LIMITS) -> float:
    """Run the calls of users at once. Return the duration, in seconds."""

    async def main() -> float:
        lane = Lane(LaneName.READS, limits)
        began_s = time.monotonic()
        await asyncio.gather(*(lane.run(user, call, budget=budget) for user, call in calls))
        lane.close()
        return time.monotonic() - began_s

    return asyncio.run(main())


def test_reads_within_the_burst_do_not_wait() -> None:
    budget = ReadBudget(share=0.000_1, burst_s=1.0)
    run_in_lane(budget, [("vera", partial(compute, 0.01))] * 10)


def test_reads_above_the_budget_get_their_share_of_a_core() -> None:
    budget = ReadBudget(share=0.1, burst_s=0.0)
    reads = [(f"viewer{n}", partial(compute, 0.02)) for n in range(6)]
    assert run_in_lane(budget, reads) >= 5 * 0.02 / 0.1 - 0.1, "the last read waits for the five reads before it"


def test_a_read_without_cpu_time_in_time_is_refused_and_takes_nothing() -> None:
    budget = ReadBudget(share=0.01, burst_s=0.0)
    limits = LaneLimits(threads=2, user_threads=1, user_requests=10, wait_s=0.05)
    run_in_lane(budget, [("vera", partial(compute, 0.1))])
    with pytest.raises(WebError) as error:
        run_in_lane(budget, [("vic", partial(compute, 0.02))], limits)
    assert error.value.status == 503


def test_a_viewer_does_not_wait_for_the_long_read_of_another_one() -> None:
    budget = ReadBudget(share=0.01, burst_s=0.01, debt_s=0.000_1)
    limits = LaneLimits(threads=2, user_threads=1, user_requests=10, wait_s=2.0)
    run_in_lane(budget, [("vera", partial(compute, 0.3))], limits)
    run_in_lane(budget, [("vic", partial(compute, 0.001))], limits)
    with pytest.raises(WebError, match="too many requests"):
        run_in_lane(budget, [("vera", partial(compute, 0.001))], limits)


def test_a_call_measures_its_own_cpu_time() -> None:
    waits = Metered(partial(time.sleep, 0.05))
    computes = Metered(partial(compute, 0.05))
    waits()
    computes()
    assert waits.used_s < 0.04 < 0.05 <= computes.used_s
