"""Lowers the priority of a job that shares its host with a detector.

Linux divides the cores between sessions first (autogroups), and between the processes of a session by their niceness
only then. So a nice job gets as much of a core as the detector, unless its session is nice too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_AUTOGROUP: Final = Path("/proc/self/autogroup")
_STARTED_BY_SPARK: Final = "PYSPARK_GATEWAY_PORT"
"""The variable of a Python driver that spark-submit has started as a child of its JVM."""


def yield_cores(niceness: int) -> None:
    """Raise the niceness of this process, of the JVM that has started it, and of their later children, to a value.

    The session gets the niceness too if it begins with one of these processes, so that no other process is in it.
    """
    processes = [os.getpid(), *([os.getppid()] if _STARTED_BY_SPARK in os.environ else [])]
    for thread in _threads(processes):
        with suppress(OSError):  # the thread has ended
            os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))
    if niceness > 0 and os.getsid(0) in processes:
        with suppress(OSError):  # a kernel without autogroups
            _AUTOGROUP.write_text(str(niceness))


def _threads(processes: list[int]) -> Iterator[int]:
    """The threads of processes. Each thread has a niceness of its own, which the threads and processes that it starts
    inherit."""
    for process in processes:
        with suppress(OSError):
            yield from [int(thread.name) for thread in Path(f"/proc/{process}/task").iterdir()]
