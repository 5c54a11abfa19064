"""The pace: a burst passes at once, later requests pass one after the other, and none waits for too long."""

from __future__ import annotations

import asyncio
import time

import pytest

from fraud_ops.control_plane.web.load.pace import Pace
from fraud_ops.control_plane.web.problems import WebError


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    clock = Clock()
    pace = Pace(per_s=10, burst=3, clock_s=clock)
    assert [pace.reserve() for _ in range(6)] == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])
    clock.now_s += 0.3
    assert pace.reserve() == pytest.approx(0.1), "the turns that were reserved count"
    clock.now_s += 60
    assert [pace.reserve() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1]), "a quiet time saves no larger burst"


def test_a_request_that_would_wait_for_too_long_is_refused_and_takes_no_turn() -> None:
    clock = Clock()
    pace = Pace(per_s=1, burst=1, clock_s=clock)
    assert [pace.reserve() for _ in range(11)] == pytest.approx(list(range(11)))
    for _ in range(3):
        with pytest.raises(WebError) as error:
            pace.reserve()
        assert error.value.status == 429
    clock.now_s += 1
    assert pace.reserve() == pytest.approx(10)


def test_requests_of_the_same_moment_pass_one_after_the_other() -> None:
    async def main() -> list[float]:
        pace, began_s = Pace(per_s=100, burst=1), time.monotonic()

        async def one() -> float:
            await pace.turn()
            return time.monotonic() - began_s

        return sorted(await asyncio.gather(*(one() for _ in range(10))))

    assert asyncio.run(main())[-1] >= 0.09
