"""Waits for another process: polls a condition until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

LOOK_S = 0.05
MOMENT_S = 0.005
"""The poll interval for cheap conditions and short phases."""
_T = TypeVar("_T")


def until(
    condition: Callable[[], _T | Literal[False] | None], what: str, timeout_s: float = 180.0, every_s: float = LOOK_S
) -> _T:
    """Poll `condition` until its result is truthy and return the result. Fails with `what` after `timeout_s`.

    Polling slows the observed process: set a larger `every_s` for expensive conditions.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(every_s)
