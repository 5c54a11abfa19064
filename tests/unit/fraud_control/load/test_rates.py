"""The rate limit: one user's bucket, equal shares of many users, and delayed refusals."""

from __future__ import annotations

import asyncio
import time

import pytest

from fraud_control.settings import Rates
from fraud_control.web.load.rates import Buckets, Throttle
from fraud_control.web.problems import WebError

LONG_S = 3_600.0
RATES = Rates(requests_per_s=100, changes_per_s=2, server_requests_per_s=200)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def allowed(buckets: Buckets, user: str, count: int, *, writes: bool = False, rates: Rates = RATES) -> int:
    return sum(buckets.allow(user, rates, makes_changes=False, writes=writes) for _ in range(count))


def test_one_user_may_send_a_burst_of_five_seconds_and_then_the_rate() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    assert allowed(buckets, "ann", 1_000) == 500
    clock.now_s += 1
    assert allowed(buckets, "ann", 1_000) == 100


def test_a_change_has_a_limit_of_its_own_too() -> None:
    buckets = Buckets(Clock())
    assert allowed(buckets, "ann", 100, writes=True) == 10
    assert allowed(buckets, "ann", 1_000) == 400, "the changes are requests, too"


def test_many_users_in_loops_share_the_rate_of_the_server() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    users = [f"viewer{n}" for n in range(50)]
    passed = 0
    for second in range(20):
        clock.now_s += 1
        passed = passed * (second != 10) + sum(allowed(buckets, user, 20) for user in users)
    assert passed == pytest.approx(10 * RATES.server_requests_per_s, rel=0.1)
    assert allowed(buckets, "approver", 20, writes=False) == 20, "a user with few requests does not wait for them"


def test_a_user_who_has_left_takes_no_share() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    for n in range(50):
        buckets.allow(f"viewer{n}", RATES, makes_changes=False, writes=False)
    clock.now_s += 6
    assert allowed(buckets, "ann", 1_000) == 500


def test_a_refusal_is_delayed_but_not_for_all_requests_of_a_user() -> None:
    async def refuse(throttle: Throttle) -> None:
        with pytest.raises(WebError) as error:
            await throttle.count("ann", Rates(1, 1, 1), makes_changes=False, writes=False)
        assert error.value.status == 429

    async def main() -> list[bool]:
        buckets = Buckets(Clock())
        assert allowed(buckets, "ann", 100, rates=Rates(1, 1, 1)) == 5
        throttle = Throttle(buckets, delay_s=LONG_S)
        refusals = [asyncio.create_task(refuse(throttle)) for _ in range(25)]
        for _ in range(len(refusals)):
            await asyncio.sleep(0)  # each task continues until it waits or ends
        at_once = [each.done() for each in refusals]
        for each in refusals:
            each.cancel()
        return at_once

    assert asyncio.run(main()).count(True) == 5, "five of 25 are refused at once"


def test_refusals_take_longer_if_many_users_send_loops() -> None:
    rates = Rates(1, 1, 1)

    async def refuse(throttle: Throttle, user: str) -> float:
        began = time.monotonic()
        with pytest.raises(WebError):
            await throttle.count(user, rates, makes_changes=False, writes=False)
        return time.monotonic() - began

    async def main() -> list[float]:
        buckets = Buckets(Clock())
        users = [f"user{n}" for n in range(10)]
        for user in users:
            allowed(buckets, user, 100, rates=rates)
        throttle = Throttle(buckets, delay_s=0.01, refusals_per_s=100)
        return sorted(await asyncio.gather(*(refuse(throttle, user) for user in users * 6)))

    waits = asyncio.run(main())
    assert waits[-1] >= 60 / 100, "the last of 60 waits until the others could be refused at this rate"


def test_viewers_in_loops_take_no_share_of_users_who_may_change_rules() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    passed = 0
    for _ in range(20):
        clock.now_s += 1
        for n in range(50):
            allowed(buckets, f"viewer{n}", 20)
        passed += sum(buckets.allow("approver", RATES, makes_changes=True, writes=False) for _ in range(20))
    assert passed == 20 * 20, "without a group of its own, the approver would get 4 requests a second"
