"""The processes of an attempt: known by a variable in their environment, which all that it starts inherit.

So a recycled process id, another attempt, or a detector that somebody started by hand is never taken for one of them.
Only processes of this container can be seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import psutil

__all__ = ["VARIABLE", "kill_members", "members"]

VARIABLE: Final = "FRAUD_ATTEMPT"
_KILLED_S = 10.0


def members(attempt_id: str) -> Sequence[psutil.Process]:
    """Those that run, the starter, the driver, its JVM and the Python workers of this host."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(VARIABLE) == attempt_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_members(attempt_id: str, *, spare: Sequence[int] = ()) -> None:
    """Kill them all but those of the ids to spare, stopped ones too, and return once they are gone."""
    while doomed := [process for process in members(attempt_id) if process.pid not in spare]:
        for process in doomed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(doomed, timeout=_KILLED_S)
