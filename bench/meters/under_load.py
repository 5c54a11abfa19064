"""Measures a detector during a load: CPU time by kind of process, long pauses, and the phases of a batch.

CPU time per batch is the figure that machines agree on best. Elapsed times of one revision differ by a factor of three
between two idle machines.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import psutil

from bench.detector import Detector
from bench.figures import Figure
from bench.lab import Session
from bench.meters.pauses import Pause, pauses_in
from fraud_rules.stream.driver.batch_jobs import LARGE_BATCH_TRANSACTIONS

__all__ = ["FIGURES", "Meters", "metered"]

_LONG_PAUSE_MS = 100.0
_PHASES = ("pin", "evaluate", "write")

FIGURES = (
    Figure("cpu_jvm_ms", "CPU per batch, JVM", "ms"),
    Figure("cpu_driver_ms", "CPU per batch, Python driver", "ms"),
    Figure("cpu_workers_ms", "CPU per batch, Python workers", "ms"),
    *(Figure(f"{phase}_ms", f"median of a batch's phase: {phase}", "ms") for phase in _PHASES),
    Figure("rows_per_batch", "transactions per batch", ""),
    Figure("large_share", "transactions in large batches", "%"),
    Figure("cores", "CPU of the detector", "cores"),
    Figure("gc_long", f"pauses for garbage collection above {_LONG_PAUSE_MS:.0f} ms", ""),
    Figure("gc_long_at_s", "end of the longest of them, after the load's start", "s"),
)


@dataclass(slots=True)
class Meters:
    """Values by the keys of FIGURES; filled when the load ends."""

    values: dict[str, float] = field(default_factory=dict)


@contextlib.contextmanager
def metered(session: Session) -> Iterator[Meters]:
    """Meter the detector of a session while the block runs."""
    meters, detector = Meters(), session.running
    progress = session.progress()
    last = progress[-1]["batchId"] if progress else -1
    paused = len(pauses_in(session.pause_log))
    cpu, started_s, began_s = _cpu_s(detector), _uptime_s(detector), time.monotonic()
    yield meters
    lasted_s = time.monotonic() - began_s
    spent = {kind: after - cpu.get(kind, 0.0) for kind, after in _cpu_s(detector).items()}
    batches = [each for each in _since(session, last) if each["rows"]]
    meters.values |= _per_batch(spent, batches) | _phases(batches) | {"cores": sum(spent.values()) / lasted_s}
    meters.values |= _long_pauses(pauses_in(session.pause_log)[paused:], started_s)


def _per_batch(spent_s: Mapping[str, float], batches: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    if not batches:
        return {}
    shares = {f"cpu_{kind}_ms": seconds * 1_000 / len(batches) for kind, seconds in spent_s.items()}
    rows = sum(each["rows"] for each in batches)
    large = sum(each["rows"] for each in batches if each["rows"] >= LARGE_BATCH_TRANSACTIONS)
    return {**shares, "rows_per_batch": rows / len(batches), "large_share": 100 * large / rows}


def _phases(batches: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    timed = [each["previous"] for each in batches if each.get("previous") and each["previous"]["rows"]]
    return {f"{phase}_ms": median(each[f"{phase}Ms"] for each in timed) for phase in _PHASES} if timed else {}


def _long_pauses(pauses: Iterable[Pause], started_s: float) -> dict[str, float]:
    long = [pause for pause in pauses if pause.ms > _LONG_PAUSE_MS]
    found = {"gc_long": float(len(long))}
    if long:
        found["gc_long_at_s"] = max(long, key=lambda pause: pause.ms).at_s - started_s
    return found


def _since(session: Session, batch_id: int) -> list[dict[str, Any]]:
    """The progress records after a batch. A batch takes at least 20 ms, so a few thousand cover any steady load."""
    return [each for each in session.progress(last=5_000) if each["batchId"] > batch_id]


def _uptime_s(detector: Detector) -> float:
    """The age of the JVM, the clock of its log of pauses."""
    ages = [time.time() - each.create_time() for each in detector.processes() if detector.kind_of(each) == "jvm"]
    return max(ages, default=0.0)


def _cpu_s(detector: Detector) -> dict[str, float]:
    """The CPU time that each kind of process has used so far, in seconds. It excludes processes that have ended."""
    used = dict.fromkeys(("jvm", "driver", "workers"), 0.0)
    for process in detector.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used[detector.kind_of(process)] += times.user + times.system
    return used
