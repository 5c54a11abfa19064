"""Counts the takeovers of a transactional id by processes that this one cannot know.

They use the same name with another database, or with other topics. Each side would take over from the other for ever,
and keep one fenced producer for each takeover (see `writer`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

MOST_TAKEOVERS: Final = 5
_WITHIN_S: Final = 86_400.0


class Takeovers:
    """The takeovers of the last day. `clock_s` never goes back."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._times_s: list[float] = []

    def count(self) -> bool:
        """Count one more, and return whether this process must end, because the last day had `MOST_TAKEOVERS`."""
        now_s = self._clock_s()
        self._times_s = [*(each for each in self._times_s if now_s - each < _WITHIN_S), now_s]
        return len(self._times_s) >= MOST_TAKEOVERS
