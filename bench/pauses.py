"""The pauses of a detector's JVM for the garbage collector, from its log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["logging_to", "pauses"]

_PAUSE = re.compile(r"GC\(\d+\) Pause (?P<kind>\w+).* (?P<ms>[0-9.]+)ms$", re.MULTILINE)


def logging_to(log: Path) -> list[str]:
    """Arguments that make a detector's JVM log its pauses."""
    return ["--spark-conf", f"spark.driver.defaultJavaOptions=-Xlog:gc:file={log}"]


def pauses(log: Path) -> Mapping[str, float]:
    """The number of full collections, and the longest pause of any."""
    found = list(_PAUSE.finditer(log.read_text(encoding="utf-8", errors="replace"))) if log.exists() else []
    full = sum(pause["kind"] == "Full" for pause in found)
    return {"gc_full": full, "gc_longest_ms": max((float(pause["ms"]) for pause in found), default=0.0)}
