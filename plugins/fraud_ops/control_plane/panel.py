"""What the detector's panel shows: its status, the verdict about it, whether payments are evaluated, and its history.

A thread looks at Kafka every two seconds. Requests judge the newest look by the clock, so no request waits for Kafka.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fraud_ops.control_plane.attempts import Attempts
from fraud_ops.control_plane.background_thread import BackgroundThread
from fraud_ops.control_plane.feed.events import ProgressPassed
from fraud_ops.control_plane.feed.memory import FeedMemory
from fraud_ops.health import Limits, Verdict, health
from fraud_ops.hooks.watch import DetectorWatch
from fraud_ops.observation import DetectorObservation
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.logs.detector_status import DetectorStatus, detector_status, longest_silence_ms
from fraud_rules.monitoring.liveness import Liveness
from fraud_rules.monitoring.liveness_reader import LivenessReader

__all__ = ["Panel"]

_POINTS: Final = 300
_LOOK_S: Final = 2.0
_FIRST_LOOK_S: Final = 5.0

_log = logging.getLogger(__name__)


class Panel(BackgroundThread):
    """Its methods may be called by several threads."""

    def __init__(
        self,
        kafka: KafkaConnection,
        watch: DetectorWatch,
        memory: FeedMemory,
        settings: DetectorSettings,
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__("fraud-control-panel")
        self._watch = watch
        self._reader = LivenessReader(kafka, settings)
        self._memory = memory
        self._settings = settings
        self._clock_ms = clock_ms
        self._seen = DetectorObservation.unseen(settings.detector, clock_ms(), "Kafka has not answered yet")
        self._looked = threading.Event()

    def verdict(self) -> Verdict:
        """How the detector is, by the judgement that supervision uses."""
        self._looked.wait(_FIRST_LOOK_S)
        seen = self._seen
        return health(seen, Limits.of(self._settings.health), self._clock_ms() - (seen.skew_ms or 0))

    def liveness(self) -> Liveness:
        """Whether payments are evaluated now."""
        self._looked.wait(_FIRST_LOOK_S)
        return self._reader.liveness(self._seen.skew_ms or 0)

    @property
    def longest_silence_ms(self) -> int:
        """How far apart two batches of a live detector can be."""
        return longest_silence_ms(self._settings.tick_ms)

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

    def _run(self, attempt: Attempts) -> None:
        try:
            while not self._stop.is_set():
                self._look()
                attempt.succeeds()
                self._stop.wait(_LOOK_S)
        finally:
            self._watch.close()
            self._reader.close()

    def _look(self) -> None:
        self._seen = self._watch.look()
        try:
            self._reader.look()
        except BrokerUnavailable as error:
            _log.debug("the waiting payments cannot be counted: %s", error)  # the verdict says it
        self._looked.set()
