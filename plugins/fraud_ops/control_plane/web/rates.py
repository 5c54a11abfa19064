"""The rate limit per user: a token bucket, which lets a burst pass and stops a loop."""

from __future__ import annotations

import time
from collections.abc import Callable

from fraud_ops.control_plane.settings import Rates

__all__ = ["Buckets"]

_SECONDS_HELD = 5.0
_MOST_USERS = 10_000


class Buckets:
    """The buckets of a process. A full bucket holds the requests of five seconds."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._buckets: dict[tuple[str, bool], tuple[float, float]] = {}

    def allow(self, user: str, rates: Rates, *, writes: bool) -> bool:
        """Take a token; return whether the request may proceed."""
        now_s, per_s = self._clock_s(), rates.changes_per_s if writes else rates.requests_per_s
        full = per_s * _SECONDS_HELD
        tokens, since_s = self._buckets.get((user, writes), (full, now_s))
        tokens = min(full, tokens + (now_s - since_s) * per_s)
        if len(self._buckets) >= _MOST_USERS:
            self._buckets.clear()
        self._buckets[user, writes] = (max(0.0, tokens - 1), now_s)
        return tokens >= 1
