"""Reads the garbage collection pauses of a detector's JVM from its log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Pause", "logging_to", "pauses", "pauses_in"]

_PAUSE = re.compile(r"^\[(?P<at>[0-9.]+)s\].*GC\(\d+\) Pause (?P<kind>\w+).* (?P<ms>[0-9.]+)ms$", re.MULTILINE)


class Pause(NamedTuple):
    """One pause: its end in seconds since the start of the JVM, its kind and its length."""

    at_s: float
    kind: str
    ms: float


def logging_to(log: Path) -> list[str]:
    """Arguments that make a detector's JVM log its pauses."""
    return ["--spark-conf", f"spark.driver.defaultJavaOptions=-Xlog:gc:file={log}"]


def pauses_in(log: Path) -> list[Pause]:
    """The pauses in a log, in order. Without a log, the list is empty."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return [Pause(float(each["at"]), each["kind"], float(each["ms"])) for each in _PAUSE.finditer(text)]


def pauses(log: Path) -> Mapping[str, float]:
    """Return the number of full collections, and the longest pause."""
    found = pauses_in(log)
    full = sum(pause.kind == "Full" for pause in found)
    return {"gc_full": full, "gc_longest_ms": max((pause.ms for pause in found), default=0.0)}
