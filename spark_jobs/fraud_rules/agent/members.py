"""The processes of an attempt: known by a variable in their environment, which all that it starts inherit.

So a recycled process id, another attempt, or a detector that somebody started by hand is never taken for one of them.
Only processes of this container can be seen.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Final

import psutil

__all__ = ["VARIABLE", "cpu_s_of", "kill_members", "members"]

VARIABLE: Final = "FRAUD_ATTEMPT"
_KILLED_S = 5.0


def members(attempt_id: str) -> Sequence[psutil.Process]:
    """Those that run, the starter, the driver, its JVM and the Python workers of this host."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(VARIABLE) == attempt_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def cpu_s_of(attempt_id: str) -> float:
    """The CPU time that they have used, that of their children that have ended included."""
    used_s = 0.0
    for process in members(attempt_id):
        with contextlib.suppress(psutil.Error):
            used_s += sum(process.cpu_times()[:4])
    return used_s


def kill_members(attempt_id: str, *, spare: Sequence[int] = (), within_s: float = _KILLED_S) -> Sequence[int]:
    """Kill them all but those of the ids to spare, stopped ones too, and return once they are gone.

    Returns the ids of those that are still there after `within_s`: they wait for a disk or a file system that does not
    answer. None of them executes another instruction of its own, but they hold what they have open.
    """
    deadline_s = time.monotonic() + within_s
    while doomed := [process for process in members(attempt_id) if process.pid not in spare]:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return [process.pid for process in doomed]
        for process in doomed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(doomed, timeout=left_s)
    return ()
