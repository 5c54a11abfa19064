"""Decides whether a reader is stuck: it fails, or its position does not move before unread records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fraud_rules.kafka.unread import Unread
from fraud_rules.runtime.clock import utc_text

STUCK_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class ReaderPosition:
    """A reader of a topic: its next offset, and the reason why it waits, if it does.

    `shared`: the position is in the store, so that only one process at a time raises the alarm about it.
    """

    name: str
    topic: str
    position: int
    fault: str | None
    shared: bool


@dataclass(frozen=True, slots=True)
class ReaderState:
    """A reader at one moment. `behind` counts offsets, 0 if every record is read; `since_ms` is the append time of the
    first unread record. `stuck`: for a minute, the position has not moved while records are unread, or the reader has
    failed, for example because its topic was recreated with fewer records than it has read.
    """

    name: str
    topic: str
    position: int
    end: int
    behind: int
    since_ms: int | None
    stuck: bool
    fault: str | None

    def __str__(self) -> str:
        where = f"{self.name} is at offset {self.position} of {self.topic}, which ends at {self.end}"
        since = "" if self.since_ms is None else f"; its first unread record is from {utc_text(self.since_ms)}"
        return where + since + ("" if self.fault is None else f"; the last error is: {self.fault}")


class ReaderProgress:
    """Remembers since when each position has not moved, and since when each reader fails, by the steady clock."""

    def __init__(self) -> None:
        self._still: dict[tuple[str, str], tuple[int, int]] = {}
        self._faulty: dict[tuple[str, str], int] = {}

    def state(self, reading: ReaderPosition, unread: Unread, steady_ms: int) -> ReaderState:
        """Compute the state of a reader from an observation at `steady_ms`."""
        key, is_behind = (reading.name, reading.topic), unread.since_ms is not None
        known = self._still.get(key)
        if not is_behind:
            self._still.pop(key, None)
        elif known is None or known[0] != reading.position:
            self._still[key] = reading.position, steady_ms
        if reading.fault is None:
            self._faulty.pop(key, None)
        faulty_ms = steady_ms if reading.fault is None else self._faulty.setdefault(key, steady_ms)
        _, still_ms = self._still.get(key, (reading.position, steady_ms))
        return ReaderState(
            reading.name,
            reading.topic,
            reading.position,
            unread.end,
            behind=max(0, unread.end - reading.position) if is_behind else 0,
            since_ms=unread.since_ms,
            stuck=(is_behind and steady_ms - still_ms >= STUCK_MS) or steady_ms - faulty_ms >= STUCK_MS,
            fault=reading.fault,
        )
