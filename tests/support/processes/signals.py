"""Signals to processes that may end meanwhile, as the workers of a killed driver do."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def send_signal(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to each process that is still there."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
