"""A wait that fails for lack of progress, so that a slow machine does not fail it."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["MOST_S", "QUIET_S", "await_progress"]

QUIET_S = 900.0
"""The longest time without progress, in seconds."""

MOST_S = 3_600.0
"""The longest wait, in seconds."""


def await_progress(
    condition: Callable[[], bool],
    progress: Callable[[], object],
    late: Callable[[str], Exception],
    every_s: float,
    quiet_s: float = QUIET_S,
    most_s: float = MOST_S,
) -> None:
    """Call `condition` until it is true.

    Raises `late(reason)` when the value of `progress` has not changed for `quiet_s`, or after `most_s`.
    """
    started = changed = time.monotonic()
    known = progress()
    while not condition():
        now = time.monotonic()
        found = progress()
        if found != known:
            known, changed = found, now
        if now - changed > quiet_s:
            raise late(f"no progress for {quiet_s:g} s")
        if now - started > most_s:
            raise late(f"not within {most_s:g} s")
        time.sleep(every_s)
