"""Waits for another process: polls a condition until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

LOOK_S = 0.05
MOMENT_S = 0.005
"""The poll interval for cheap conditions and short phases."""
_PAUSES_PER_CHECK = 4
_LONGEST_PAUSE_S = 0.5
_T = TypeVar("_T")


def until(
    condition: Callable[[], _T | Literal[False] | None], what: str, timeout_s: float = 180.0, every_s: float = LOOK_S
) -> _T:
    """Poll `condition` until its result is truthy and return the result. Fails with `what` after `timeout_s`.

    Polling slows the observed process. So the pause is `every_s` or, up to a limit, a multiple of the time that the
    condition takes. With an `every_s` of 0 there is no pause.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        asked_s = time.monotonic()
        answer = condition()
        answered_s = time.monotonic()
        if answer:
            return answer
        if answered_s > deadline_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        if every_s:
            time.sleep(max(every_s, min(_PAUSES_PER_CHECK * (answered_s - asked_s), _LONGEST_PAUSE_S)))
