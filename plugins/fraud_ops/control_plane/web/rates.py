"""How often one user may ask: a bucket of tokens each, so that a burst passes and a loop does not."""

from __future__ import annotations

import time
from collections.abc import Callable

from fraud_ops.control_plane.settings import Rates

__all__ = ["Buckets"]

_SECONDS_HELD = 5.0
_MOST_USERS = 10_000


class Buckets:
    """One a process. Five seconds' worth of requests may come at once."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._buckets: dict[tuple[str, bool], tuple[float, float]] = {}

    def allow(self, user: str, rates: Rates, *, writes: bool) -> bool:
        """Whether this one may go on."""
        now_s, per_s = self._clock_s(), rates.changes_per_s if writes else rates.requests_per_s
        full = per_s * _SECONDS_HELD
        tokens, since_s = self._buckets.get((user, writes), (full, now_s))
        tokens = min(full, tokens + (now_s - since_s) * per_s)
        if len(self._buckets) >= _MOST_USERS:
            self._buckets.clear()
        self._buckets[user, writes] = (max(0.0, tokens - 1), now_s)
        return tokens >= 1
