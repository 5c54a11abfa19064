"""Waits for a file lock that another process of the host holds, as long as that process makes progress."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

import psutil

from fraud_rules.errors import Stalled
from fraud_rules.runtime.file_lock import FileLock
from fraud_rules.runtime.process import is_stopped

_ADVICE: Final = "continue it (kill -CONT) or end it (kill -KILL)"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockPatience:
    """How long to wait: `quiet_s` without a message, `idle_s` for a holder that uses no CPU time, `limit_s` in all."""

    quiet_s: float = 10.0
    idle_s: float = 60.0
    limit_s: float = 1_800.0


def await_lock(lock: FileLock, what: str, patience: LockPatience) -> None:
    """Lock a file. A long wait is logged with the holder's pid; `what` names the lock.

    Raises Stalled if the holder is suspended or hangs, so that it uses no CPU time, or at the limit. A holder in
    another container is not visible here, so that only the limit ends the wait.
    """
    if lock.acquire(patience.quiet_s):
        return
    began_s = time.monotonic() - patience.quiet_s
    known: tuple[str, float | None] = ("", None)
    moved_s = began_s
    _log.warning("waits for %s, which %s holds", what, _described(lock))
    while not lock.acquire(min(1.0, patience.idle_s)):
        now = (lock.holder(), _cpu_s(lock))
        if now != known or now[1] is None:
            known, moved_s = now, time.monotonic()
        waited_s, idle_s = time.monotonic() - began_s, time.monotonic() - moved_s
        if idle_s >= patience.idle_s:
            raise Stalled(f"{_described(lock)} holds {what} and has used no CPU time for {idle_s:.0f} s: {_ADVICE}")
        if waited_s >= patience.limit_s:
            raise Stalled(f"{_described(lock)} has held {what} for {waited_s:.0f} s: end it if it hangs")


def _described(lock: FileLock) -> str:
    pid, holder = lock.holder(), _holder(lock)
    if holder is None:
        return f"process {pid} (not visible here)"
    return f"process {pid}{' (suspended)' if is_stopped(holder) else ''}"


def _cpu_s(lock: FileLock) -> float | None:
    """The CPU time of the holder; None if it is not visible."""
    holder = _holder(lock)
    try:
        return None if holder is None else sum(holder.cpu_times()[:2])
    except psutil.Error:
        return None


def _holder(lock: FileLock) -> psutil.Process | None:
    """The process that has recorded its pid in the lock; None if it is not visible, as in another container."""
    try:
        process, path = psutil.Process(int(lock.holder())), str(lock.path.resolve())
        return process if any(each.path == path for each in process.open_files()) else None
    except (ValueError, psutil.Error):
        return None
