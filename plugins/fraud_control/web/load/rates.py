"""The rate limit per user: a token bucket, which lets a burst pass and stops a loop.

The viewers of a process share its rate, and so do the users who may change rules. So many viewers in loops get small
shares, and neither a user with few requests nor an approver waits for them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from fraud_control.settings import Rates
from fraud_control.web.problems import WebError

_SECONDS_HELD: Final = 5.0
_LEAST_BURST: Final = 20.0
_MOST_USERS: Final = 10_000
_MOST_DELAYED: Final = 20
_DELAY_S: Final = 2.0
_LONGEST_DELAY_S: Final = 30.0
_REFUSALS_PER_S: Final = 5.0


class Buckets:
    """The buckets of a process. A full bucket holds the requests of five seconds, at least twenty."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._buckets: dict[tuple[str, bool], tuple[float, float]] = {}
        self._active: dict[bool, OrderedDict[str, float]] = {False: OrderedDict(), True: OrderedDict()}

    def allow(self, user: str, rates: Rates, *, makes_changes: bool, writes: bool) -> bool:
        """Take a token; return whether the request may proceed. A change takes a token of both kinds.

        `makes_changes`: the user's role permits changes of rules.
        """
        now_s = self._clock_s()
        active = self._count_active(user, makes_changes, now_s)
        share_per_s = min(rates.requests_per_s, rates.server_requests_per_s / active)
        allowed = self._take(user, False, share_per_s, min(_LEAST_BURST, rates.requests_per_s * _SECONDS_HELD))
        return allowed and (not writes or self._take(user, True, rates.changes_per_s, 0.0))

    def _count_active(self, user: str, makes_changes: bool, now_s: float) -> int:
        """The number of users of this kind who have sent a request within the last seconds, with this one."""
        active = self._active[makes_changes]
        active[user] = now_s
        active.move_to_end(user)
        while next(iter(active.values())) < now_s - _SECONDS_HELD:
            active.popitem(last=False)
        return len(active)

    def _take(self, user: str, writes: bool, per_s: float, least: float) -> bool:
        now_s, full = self._clock_s(), max(per_s * _SECONDS_HELD, least)
        tokens, since_s = self._buckets.get((user, writes), (full, now_s))
        tokens = min(full, tokens + (now_s - since_s) * per_s)
        if len(self._buckets) >= _MOST_USERS:
            self._buckets.clear()
        self._buckets[user, writes] = (max(0.0, tokens - 1), now_s)
        return tokens >= 1


class Throttle:
    """Counts requests, and refuses those above the limits. It delays a refusal, so that a loop costs little.

    The delay grows with the number of requests that wait for their refusal, so that clients in loops, however many,
    get about `refusals_per_s` answers.
    """

    def __init__(
        self, buckets: Buckets | None = None, delay_s: float = _DELAY_S, refusals_per_s: float = _REFUSALS_PER_S
    ) -> None:
        self._buckets = buckets or Buckets()
        self._delay_s = delay_s
        self._refusals_per_s = refusals_per_s
        self._delayed: Counter[str] = Counter()

    async def count(self, user: str, rates: Rates, *, makes_changes: bool, writes: bool) -> None:
        """Count a request. Raises WebError 429 above the limits, after `delay_refusal`."""
        if not self._buckets.allow(user, rates, makes_changes=makes_changes, writes=writes):
            await self.delay_refusal(user)
            raise WebError(429, "too many requests; wait a moment")

    async def delay_refusal(self, user: str) -> None:
        """Wait before a refusal. Return at once if many requests of this user wait already."""
        if self._delayed[user] >= _MOST_DELAYED:
            return
        self._delayed[user] += 1
        try:
            await asyncio.sleep(self._delay())
        finally:
            self._delayed[user] -= 1
            if not self._delayed[user]:
                del self._delayed[user]

    def _delay(self) -> float:
        waiting = self._delayed.total()
        return min(max(self._delay_s, waiting / self._refusals_per_s), _LONGEST_DELAY_S)
