"""What the detector's panel shows: its status, the verdict about it, and how it went lately."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from fraud_ops.control_plane.feed.events import ProgressPassed
from fraud_ops.control_plane.feed.memory import FeedMemory
from fraud_ops.health import Limits, Verdict, health
from fraud_ops.hooks.watch import DetectorWatch
from fraud_rules.detector_status import DetectorStatus, detector_status
from fraud_rules.settings import DetectorSettings

__all__ = ["Panel"]

_POINTS = 300


class Panel:
    """May be used by several threads; one of them looks."""

    def __init__(
        self, watch: DetectorWatch, memory: FeedMemory, settings: DetectorSettings, clock_ms: Callable[[], int]
    ) -> None:
        self._watch = watch
        self._memory = memory
        self._settings = settings
        self._clock_ms = clock_ms
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the broker."""
        with self._lock:
            self._watch.close()

    def verdict(self) -> Verdict:
        """How the detector is, by the judgement that supervision uses. Never raises: a broker away is a verdict."""
        with self._lock:
            seen = self._watch.look()
        return health(seen, Limits.of(self._settings.health), self._clock_ms())

    def status(self) -> DetectorStatus | None:
        """The detector in numbers; None while it has never said anything."""
        records = [(each.append_ms, each.progress) for each in self._memory.newest_progress()]
        return detector_status(records, self._clock_ms(), self._settings.tick_ms)

    def history(self, minutes: int) -> Iterator[tuple[Sequence[ProgressPassed], int | None]]:
        """The batches of the last minutes, in at most 300 groups, each with the time of the batch before it."""
        now_ms = self._clock_ms()
        step_ms = max(1_000, minutes * 60_000 // _POINTS)
        before_ms: int | None = None
        group: list[ProgressPassed] = []
        for batch in self._memory.progress_since(now_ms - minutes * 60_000):
            if group and batch.append_ms // step_ms != group[0].append_ms // step_ms:
                yield group, before_ms
                before_ms, group = group[-1].append_ms, []
            group.append(batch)
        if group:
            yield group, before_ms
