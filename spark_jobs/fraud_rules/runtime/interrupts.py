"""Turns Ctrl-C and SIGTERM into an event, so that a long command can end cleanly."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_set(stop: threading.Event) -> Iterator[None]:
    """Within the block, SIGINT and SIGTERM set the event. A second signal ends the process at once.

    Only the main thread can set a signal handler. In another thread the block changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()

    known = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)
