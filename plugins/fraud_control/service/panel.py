"""The data of the detector's panel: its status, its verdict, its liveness and its history.

A thread observes Kafka every two seconds. Requests assess the newest observation, so no request waits for Kafka.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fraud_control.background_thread import BackgroundThread
from fraud_control.feed.events import FeedBatch
from fraud_control.feed.memory import FeedMemory
from fraud_ops.observer import DetectorObserver
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.verdict import Verdict
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.logs.detector_status import DetectorStatus, detector_status, longest_silence_ms
from fraud_rules.monitoring.liveness import Liveness
from fraud_rules.monitoring.liveness_reader import LivenessReader
from fraud_rules.runtime.retry import RepeatedWork

_POINTS: Final = 300
_POLL_INTERVAL_S: Final = 2.0
_FIRST_LOOK_S: Final = 5.0

_log = logging.getLogger(__name__)


class Panel(BackgroundThread):
    """Several threads may call the methods."""

    def __init__(
        self,
        kafka: KafkaConnection,
        observer: DetectorObserver,
        memory: FeedMemory,
        settings: DetectorSettings,
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__("fraud-control-panel")
        self._observer = observer
        self._reader = LivenessReader(kafka, settings)
        self._memory = memory
        self._settings = settings
        self._clock_ms = clock_ms
        self._seen = DetectorObservation.failed(settings.detector, clock_ms(), "Kafka has not answered yet")
        self._looked = threading.Event()

    def verdict(self) -> Verdict:
        """Assess the detector with the function that the supervisor uses."""
        self._looked.wait(_FIRST_LOOK_S)
        seen = self._seen
        return assess_detector(seen, self._settings.health, self._clock_ms() - (seen.skew_ms or 0))

    def verdict_since_ms(self, verdict: Verdict) -> int | None:
        """The start time of the verdict, as the supervisor recorded it; None if it recorded another verdict."""
        return self._seen.recorded_since_ms(verdict.health.value)

    def liveness(self) -> Liveness:
        """Whether the detector evaluates payments now."""
        self._looked.wait(_FIRST_LOOK_S)
        return self._reader.liveness(self._seen.skew_ms or 0)

    @property
    def longest_silence_ms(self) -> int:
        """The longest time between two batches of a live detector."""
        return longest_silence_ms(self._settings.tick_ms)

    def status(self) -> DetectorStatus | None:
        """The figures of the detector; None before its first report."""
        records = [(each.append_ms, each.progress) for each in self._memory.newest_progress()]
        return detector_status(records, self._clock_ms(), self._settings.tick_ms)

    def history(self, minutes: int) -> Iterator[tuple[Sequence[FeedBatch], int | None]]:
        """Yield the batches of the last minutes in at most 300 groups, each with the time of the batch before it."""
        now_ms = self._clock_ms()
        step_ms = max(1_000, minutes * 60_000 // _POINTS)
        before_ms: int | None = None
        group: list[FeedBatch] = []
        for batch in self._memory.progress_since(now_ms - minutes * 60_000):
            if group and batch.append_ms // step_ms != group[0].append_ms // step_ms:
                yield group, before_ms
                before_ms, group = group[-1].append_ms, []
            group.append(batch)
        if group:
            yield group, before_ms

    def _work(self, attempt: RepeatedWork) -> None:
        try:
            while not self._stop.is_set():
                self._observe()
                attempt.record_success()
                self._stop.wait(_POLL_INTERVAL_S)
        finally:
            self._observer.close()
            self._reader.close()

    def _observe(self) -> None:
        self._seen = self._observer.observe()
        try:
            self._reader.poll()
        except BrokerUnavailable as error:
            _log.debug("the waiting payments cannot be counted: %s", error)  # the verdict reports it
        self._looked.set()
