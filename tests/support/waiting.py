"""Waiting for what another process does: a condition looked at again and again, and a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LOOK_S = 0.05
MOMENT_S = 0.005
"""For what lasts a moment only: a look must cost next to nothing."""
_T = TypeVar("_T")


def until(condition: Callable[[], _T | None], what: str, timeout_s: float = 180.0, every_s: float = LOOK_S) -> _T:
    """The first answer of `condition` that is true, or a list that is not empty. Fails with `what` after `timeout_s`.

    Looking takes from what is looked at: `every_s` is for looks that cost more than a moment.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(every_s)
