"""Measures memory during half an hour at a steady rate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.rulesets import RULES_10, Document
from bench.lab import Lab, Session
from bench.rows.soaks.compressed import TOLERATED, flat, summary

_RATE = 1_000
_EVERY_S = 10.0
_WINDOW_MINUTES = 1
_LATENESS_MINUTES = 1
_MIB = 2**20
_JVM_MIB = 600
KINDS = ("jvm_mib", "python_mib", "views_mib", "retained_events")

RULES: tuple[Document, ...] = tuple({**rule, "windowMinutes": _WINDOW_MINUTES} for rule in RULES_10)


def _measure(lab: Lab, scale: Scale) -> Mapping[str, Any]:
    seconds = scale.soak_minutes * 60
    with lab.session("soak") as session:
        session.environ["FRAUD_MAX_OUT_OF_ORDERNESS_MS"] = str(_LATENESS_MINUTES * 60_000)
        session.start(RULES)
        with session.steady(_RATE, seconds) as load:
            series = _sample(session, lambda: load.poll() is None)
    return summary(series, KINDS) | {"series": series}


def _sample(session: Session, wanted: Callable[[], bool]) -> list[dict[str, float]]:
    """Take a sample every ten seconds until stopped; `at_s` counts from the first sample."""
    samples: list[dict[str, float]] = []
    start = time.monotonic()
    while wanted():
        session.running.check()
        samples.append({"at_s": round(time.monotonic() - start), **_sizes(session)})
        time.sleep(max(0.0, start + len(samples) * _EVERY_S - time.monotonic()))
    return samples


def _sizes(session: Session) -> dict[str, float]:
    resident = {"jvm_mib": 0.0, "python_mib": 0.0}
    for process in session.running.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            kind = "jvm_mib" if session.running.kind_of(process) == "jvm" else "python_mib"
            resident[kind] += process.memory_info().rss / _MIB
    last = session.progress()
    return {
        **resident,
        "views_mib": sum(map(allocated_mib, session.views())),
        "retained_events": last[0]["retainedEvents"] if last else 0,
        "p99_ms": (last[0]["previous"] or {}).get("p99Ms") or 0 if last else 0,
    }


def allocated_mib(folder: Path) -> float:
    """Return the disk space of a folder's files, in MiB. Files may disappear during the call."""
    blocks = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            blocks += path.lstat().st_blocks
    return blocks * 512 / _MIB


def _figures() -> list[Figure]:
    titles = {
        "jvm_mib": "RSS of the JVM",
        "python_mib": "RSS of the Python processes",
        "views_mib": "memory-mapped views",
    }
    found = [Figure("minutes", "steady run", "minutes"), Figure("retained_events", "retained events", "")]
    for kind, title in titles.items():
        size, growth = flat(kind, title, "MiB")
        bounded = replace(size, target=at_most(_JVM_MIB)) if kind == "jvm_mib" else size
        found += [replace(bounded, promise=bounded.target is not None), growth]
    return found


ROWS = (
    Rows(
        "soak",
        "Half an hour at a steady rate",
        f"`rules10`, windows of {_WINDOW_MINUTES} minute and {_LATENESS_MINUTES} minute of lateness, {_RATE:,} tx/s; "
        f"a sample every {_EVERY_S:g} s. Flat means: the mean of the last third is at most {TOLERATED}% above that of "
        "the previous third.",
        tuple(_figures()),
        _measure,
        soak=True,
    ),
)
