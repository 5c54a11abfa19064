"""Lets the event loop wait less for Python's interpreter lock.

A thread that computes keeps the lock for up to five milliseconds after another thread asks for it. A request changes
between the event loop and other threads many times, and waits at each change. docs/decisions has a measurement of
shorter turns.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["short_turns"]

_INTERVAL_S: Final = 0.000_5


@contextmanager
def short_turns(interval_s: float = _INTERVAL_S) -> Iterator[None]:
    """Shorten the turns of this process's threads in the block."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(min(interval_s, before_s))
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)
