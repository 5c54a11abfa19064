"""Follows the detector's committed outputs in a thread, for the demo's screen."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fraud_rules.cli.display.alert_lines import read_alert_line
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import ReceivedRecord, follow, topic_starts
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.logs.detector_status import BatchProgress, DetectorStatus, decode_progress, detector_status
from fraud_rules.model.schema import ID_FIELD
from fraud_rules.monitoring.liveness import Liveness
from fraud_rules.monitoring.liveness_reader import LivenessWatch
from fraud_rules.replay.replay import decode_exactly
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.lifetime import BackgroundWork

_PROGRESS_KEPT = 400
_RECENT_KEPT = 200
_LATENCIES_KEPT = 10_000
_NEWEST_MS = 60_000
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class ReceivedAlert:
    """An alert with the time at which it was readable. `planted` is the label of the fraud that triggered it."""

    alert: Mapping[str, Any]
    received_ms: int
    planted: str | None

    @property
    def latency_ms(self) -> int:
        """The time from the transaction's append to the reading of its alert."""
        return self.received_ms - int(self.alert["ingestionTime"])


@dataclass(frozen=True, slots=True)
class OutputSnapshot:
    """A snapshot of the outputs so far."""

    recent: tuple[ReceivedAlert, ...]
    alerts: int
    shadow_alerts: int
    found: frozenset[str]
    latencies_ms: tuple[int, ...]
    newest_latencies_ms: tuple[int, ...]
    """Those of the alerts of the last minute."""
    status: DetectorStatus | None
    liveness: Liveness | None
    evaluated: Mapping[int, int]
    rules_live: int
    decisions: Mapping[str, int] = field(default_factory=dict)
    """The number of decisions by outcome."""


class OutputWatch(BackgroundWork):
    """Follows alerts, shadow alerts, decisions and progress from their beginnings.

    `planted` maps transaction ids to labels.
    """

    def __init__(self, kafka: KafkaConnection, settings: DetectorSettings, planted: Mapping[int, str]) -> None:
        self._kafka = kafka
        self._settings = settings
        self._planted = planted
        self._changed = threading.Condition()
        super().__init__("watch")
        self._failure: Exception | None = None
        self._recent: deque[ReceivedAlert] = deque(maxlen=_RECENT_KEPT)
        self._latencies_ms: deque[tuple[int, int]] = deque(maxlen=_LATENCIES_KEPT)
        self._progress: deque[tuple[int, BatchProgress]] = deque(maxlen=_PROGRESS_KEPT)
        self._counts = {settings.topics.alerts: 0, settings.topics.shadow_alerts: 0}
        self._found: set[str] = set()
        self._decisions: Counter[str] = Counter()
        self._liveness = LivenessWatch(kafka, settings)

    def snapshot(self) -> OutputSnapshot:
        """The outputs so far. Raises the error that ended the thread, if any."""
        with self._changed:
            return self._snapshot()

    def await_seen(
        self, is_reached: Callable[[OutputSnapshot], bool], timeout_s: float, check: Callable[[], bool]
    ) -> bool:
        """Wait until the outputs satisfy `is_reached`. Return False after the timeout, or if `check` returns False.

        `check` is called repeatedly and may raise. Raises the error that ended the thread, if any.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not is_reached(self._snapshot()):
                if time.monotonic() > deadline or not check():
                    return False
                self._changed.wait(_POLL_S)
        return True

    def _snapshot(self) -> OutputSnapshot:
        if self._failure is not None:
            raise self._failure
        topics = self._settings.topics
        newest, now = self._progress[-1][1] if self._progress else None, now_ms()
        return OutputSnapshot(
            recent=tuple(self._recent),
            alerts=self._counts[topics.alerts],
            shadow_alerts=self._counts[topics.shadow_alerts],
            found=frozenset(self._found),
            latencies_ms=tuple(each for _, each in self._latencies_ms),
            newest_latencies_ms=tuple(each for at_ms, each in self._latencies_ms if at_ms > now - _NEWEST_MS),
            status=detector_status(list(self._progress), now, self._settings.tick_ms),
            liveness=self._liveness.liveness(),
            evaluated={} if newest is None else newest.ends_of(topics.transactions),
            rules_live=0 if newest is None else newest.rules_end,
            decisions=dict(self._decisions),
        )

    def _run(self) -> None:
        with self._liveness:
            self._follow()

    def _follow(self) -> None:
        topics = self._settings.topics
        try:
            starts = {
                name: topic_starts(self._kafka, name)
                for name in (topics.alerts, topics.shadow_alerts, topics.decisions, topics.detector_progress)
            }
            for received in follow(self._kafka, starts, goes_on=lambda: not self._stop.is_set()):
                if received is not None:
                    with self._changed:
                        self._add(received)
                        self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - `snapshot` raises it, so that the screen does not show old figures as current
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _add(self, received: ReceivedRecord) -> None:
        topic, record = received.topic, received.record
        if topic == self._settings.topics.detector_progress:
            progress = decode_or_skip(topic, record, decode_progress, received.partition)
            if progress is not None:
                self._progress.append((record.append_ms, progress))
            return
        if topic == self._settings.topics.decisions:
            decision = decode_or_skip(topic, record, decode_exactly, received.partition)
            if decision is not None:
                self._decisions[decision["outcome"]] += 1
            return
        seen = decode_or_skip(topic, record, lambda value: self._alert(value, received.received_ms), received.partition)
        if seen is None:
            return
        self._counts[received.topic] += 1
        self._recent.append(seen)
        self._latencies_ms.append((seen.received_ms, seen.latency_ms))
        if seen.planted is not None:
            self._found.add(seen.planted)

    def _alert(self, value: bytes, received_ms: int) -> ReceivedAlert:
        """Decode an alert for the screen. Raises an error of `kafka.decoding.UNDECODABLE` if it is unreadable."""
        read_alert_line(value, received_ms)
        alert = decode_exactly(value)
        return ReceivedAlert(alert, received_ms, self._planted.get(alert["triggeringEvent"][ID_FIELD]))
