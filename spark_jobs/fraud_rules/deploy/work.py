"""A detector's current work: the phase of a start, a batch or a shutdown, and its progress. Pure."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from fraud_rules.runtime.clock import MS_PER_S

WORK_VARIABLE: Final = "FRAUD_WORK"
"""The environment variable with the file for work reports. An older release ignores the variable."""


class WorkPhase(StrEnum):
    """The phases of work. A start passes most of them, in this order."""

    CHECK = "CHECK"  # the agent checks the release
    RULES = "RULES"  # reads the rule log
    SESSION = "SESSION"  # starts Spark
    WORKERS = "WORKERS"  # starts the Python workers
    READY = "READY"  # waits for the end of the previous detector
    HISTORY = "HISTORY"  # a rebuild reads the recorded batches
    RECOMPUTE = "RECOMPUTE"  # a rebuild evaluates the batches again
    QUERY = "QUERY"  # starts the first batch
    STATE = "STATE"  # a batch restores state before it evaluates
    BATCH = "BATCH"  # a batch evaluates
    STOP = "STOP"  # ends the batches and Spark


_DESCRIPTIONS: Final = MappingProxyType(
    {
        WorkPhase.CHECK: "checking the release",
        WorkPhase.RULES: "reading the rules",
        WorkPhase.SESSION: "starting Spark",
        WorkPhase.WORKERS: "starting the Python workers",
        WorkPhase.READY: "ready, waiting for the previous detector to end",
        WorkPhase.HISTORY: "reading the history",
        WorkPhase.RECOMPUTE: "recomputing state",
        WorkPhase.QUERY: "starting the first batch",
        WorkPhase.STATE: "restoring state",
        WorkPhase.BATCH: "evaluating",
        WorkPhase.STOP: "stopping Spark",
    }
)


class Work(msgspec.Struct, frozen=True, rename="camel"):
    """One piece of work. `done` and `total` count in `unit`; `total` is None where it is unknown.

    Times are in epoch ms of the detector's host. `since_ms` is the start of the phase, `changed_ms` the time of the
    last progress in it. Some progress changes only `changed_ms`.
    """

    phase: WorkPhase
    since_ms: int
    changed_ms: int
    done: int = 0
    total: int | None = None
    unit: str = ""
    batch_id: int | None = None

    def __str__(self) -> str:
        batch = "" if self.batch_id is None else f" (batch {self.batch_id})"
        if not self.unit:
            return f"{_DESCRIPTIONS[self.phase]}{batch}"
        of = "" if self.total is None else f" of {self.total:,}"
        return f"{_DESCRIPTIONS[self.phase]}{batch}: {self.done:,}{of} {self.unit}{self._pace()}"

    def _pace(self) -> str:
        """The rate of a rebuild and the time that it still needs, if both are known."""
        elapsed_ms = self.changed_ms - self.since_ms
        if self.phase is not WorkPhase.RECOMPUTE or self.total is None or self.done <= 0 or elapsed_ms <= 0:
            return ""
        left_s = max(0, self.total - self.done) * elapsed_ms / self.done / MS_PER_S
        return f", {round(self.done * MS_PER_S / elapsed_ms):,}/s, {left_s:,.0f} s left"
