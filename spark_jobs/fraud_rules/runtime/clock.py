"""The clock of this host.

Code that compares times takes the clock or the time as an argument, so that a test can pass its own.
"""

from __future__ import annotations

import time

__all__ = ["now_ms"]


def now_ms() -> int:
    """The time of this host, in epoch milliseconds."""
    return time.time_ns() // 1_000_000
