"""The clock of this host, and the units of time.

Code that compares times takes the clock or the time as an argument, so that a test can pass its own.
"""

from __future__ import annotations

import time
from typing import Final

__all__ = ["MS_PER_S", "now_ms"]

MS_PER_S: Final = 1_000


def now_ms() -> int:
    """The time of this host, in epoch milliseconds."""
    return time.time_ns() // 1_000_000
