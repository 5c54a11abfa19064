"""Measures how long a killed detector is away."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.lab import Session
from fraud_rules.runtime.clock import now_ms

__all__ = ["IN_FLIGHT_MS", "recovery_s"]

IN_FLIGHT_MS = 1_000
"""The broker may still complete the commit of a killed detector. A restart takes several seconds."""


def recovery_s(session: Session, lose: Callable[[], None] = lambda: None) -> float:
    """The seconds from a kill -9 of all processes, a loss and a restart to the next committed batch."""
    progress = session.received(session.names.detector_progress)
    killed = time.monotonic()
    session.running.kill()
    old_until_ms = now_ms() + IN_FLIGHT_MS
    lose()
    session.launch()
    next(each for each in progress if each.record.append_ms > old_until_ms)
    return time.monotonic() - killed
