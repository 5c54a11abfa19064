"""The clocks of this host, and the units of time.

The time of day can be set back or forward, by an operator, by NTP or after a suspension. So `now_ms` is for records and
messages only, and for times that several processes share. Durations, intervals and limits within a process use the
steady clock (`steady_ms` or `time.monotonic`).

Code that compares times takes the clock or the time as an argument, so that a test can pass its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

MS_PER_S: Final = 1_000

SteadyClock = Callable[[], int]
"""`steady_ms`, or a test's clock."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def now_ms() -> int:
    """The time of this host, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def utc(epoch_ms: int) -> datetime:
    """The time in UTC. A time outside the years 1 to 9999 becomes the first or the last of them, so that a wrong time
    in a record never breaks a display."""
    try:
        return _EPOCH + epoch_ms * _MILLISECOND
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if epoch_ms > 0 else datetime.min.replace(tzinfo=UTC)


def utc_text(epoch_ms: int, timespec: str = "seconds") -> str:
    """The date and time in UTC for people, such as `2026-11-20 10:00:00 UTC`, for any time, as in `utc`."""
    return f"{utc(epoch_ms).replace(tzinfo=None).isoformat(' ', timespec)} UTC"


def steady_ms() -> int:
    """Milliseconds that only grow, for durations. The zero is arbitrary, and no other process shares it."""
    return time.monotonic_ns() // 1_000_000
