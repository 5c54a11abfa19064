"""Ends a run of the benchmark cleanly, with every process that it started."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import psutil

from fraud_rules.runtime.process import end_processes, kill_processes

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S = 15.0
_PR_SET_CHILD_SUBREAPER = 36


@contextmanager
def ending_children() -> Iterator[None]:
    """Within the block a signal raises SystemExit. After the block, each process that this one started has ended.

    A broker and a detector have sessions of their own, so a Ctrl-C in the terminal does not reach them. The process
    adopts descendants whose parents have died, so it finds all descendants by their parents.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    known = {number: signal.signal(number, _exit) for number in _SIGNALS}
    try:
        yield
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _end_all(psutil.Process().children(recursive=True))
        for number, handler in known.items():
            signal.signal(number, handler)


def _exit(number: int, _: FrameType | None) -> None:
    print("bench: ending the processes that it started", file=sys.stderr, flush=True)
    sys.exit(128 + number)


def _end_all(processes: list[psutil.Process]) -> None:
    if not processes:
        return
    left = end_processes(processes, _GRACE_S)
    kill_processes({*left, *psutil.Process().children(recursive=True)})
