"""Finds the processes of an attempt by an environment variable, which child processes inherit.

So a reused process id, another attempt, or a detector that was started by hand never counts as a member. Only the
processes of this container are visible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import psutil

from fraud_rules.runtime.process import kill_processes_with, processes_with

VARIABLE: Final = "FRAUD_ATTEMPT"
_KILLED_S = 5.0


def members(attempt_id: str) -> Sequence[psutil.Process]:
    """The running processes of an attempt on this host: starter, driver, JVM and Python workers."""
    return processes_with(VARIABLE, attempt_id)


def cpu_s_of(attempt_id: str) -> float:
    """The CPU time of the processes, with that of their ended children."""
    used_s = 0.0
    for process in members(attempt_id):
        with contextlib.suppress(psutil.Error):
            used_s += sum(process.cpu_times()[:4])
    return used_s


def kill_members(attempt_id: str, *, excluded: Sequence[int] = (), within_s: float = _KILLED_S) -> Sequence[int]:
    """Kill the processes of an attempt, also stopped ones, except the ids in `excluded`. Wait until they have ended.

    Returns the ids of the processes that still exist after `within_s`, because they wait for a disk or a file system
    that does not answer. Such a process executes no further code, but keeps its files open.
    """
    left = kill_processes_with(VARIABLE, attempt_id, excluded=excluded, within_s=within_s)
    return [process.pid for process in left]
