"""What the detector's panel shows: its status, the verdict about it, whether payments are evaluated, and its history.

A thread looks at Kafka every two seconds. Requests judge the newest look by the clock, so no request waits for Kafka.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from fraud_ops.control_plane.background_thread import BackgroundThread
from fraud_ops.control_plane.feed.events import ProgressPassed
from fraud_ops.control_plane.feed.memory import FeedMemory
from fraud_ops.health import Limits, Verdict, health
from fraud_ops.hooks.watch import DetectorWatch
from fraud_ops.observation import DetectorObservation
from fraud_rules.detector_status import DetectorStatus, Progress, detector_status, longest_silence_ms
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.partition_ends import read_partition_ends
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.liveness import Liveness, PartitionEnds, liveness, starts_since
from fraud_rules.settings import DetectorSettings

__all__ = ["Panel"]

_POINTS: Final = 300
_LOOK_S: Final = 2.0
_FIRST_LOOK_S: Final = 20.0
_ENDS_KEPT_MS: Final = 10_000
"""Ends that are older count as unknown: Kafka does not answer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    """The newest observation, the newest one without a fault, and the ends of `transactions` with their time."""

    seen: DetectorObservation
    known: DetectorObservation
    ends: Mapping[int, PartitionEnds] | None
    ends_ms: int


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
        self._kafka = kafka
        self._watch = watch
        self._memory = memory
        self._settings = settings
        self._clock_ms = clock_ms
        nothing = DetectorObservation.unseen(settings.detector, clock_ms(), "Kafka has not answered yet")
        self._newest = _Look(nothing, nothing, None, 0)
        self._looked = threading.Event()

    def verdict(self) -> Verdict:
        """How the detector is, by the judgement that supervision uses."""
        return health(self._look().seen, Limits.of(self._settings.health), self._clock_ms())

    def liveness(self) -> Liveness:
        """Whether payments are evaluated now."""
        look, now_ms = self._look(), self._clock_ms()
        newest = self._newest_progress(look)
        valid = look.known.intents.valid
        return liveness(
            newest,
            look.ends if now_ms - look.ends_ms <= _ENDS_KEPT_MS else None,
            self._settings.topics.transactions,
            now_ms,
            self._settings.tick_ms,
            starts=starts_since(look.known.intents, None if newest is None else newest[0]),
            asked_ms=valid[0].append_ms if valid else None,
        )

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

    def _look(self) -> _Look:
        self._looked.wait(_FIRST_LOOK_S)
        return self._newest

    def _newest_progress(self, look: _Look) -> tuple[int, Progress] | None:
        """The newer of two records: the feed's, and the one of the look."""
        found = [(each.append_ms, each.progress) for each in self._memory.newest_progress()[-1:]]
        if look.known.progress is not None:
            found.append((look.known.progress.append_ms, look.known.progress.progress))
        return max(found, key=lambda each: each[0], default=None)

    def _run(self) -> None:
        while not self._stop.is_set():
            with ExitStack() as stack:
                stack.callback(self._watch.close)
                try:
                    self._look_again_and_again(stack)
                except Exception:  # noqa: BLE001 -- the thread goes on, or the pages would show an old verdict for ever
                    _log.exception("the look at the detector failed; the next one is in %g s", _LOOK_S)
            self._stop.wait(_LOOK_S)

    def _look_again_and_again(self, stack: ExitStack) -> None:
        reader = stack.enter_context(TopicReader(self._kafka, self._settings.topics.transactions))
        while not self._stop.is_set():
            seen, now_ms = self._watch.look(), self._clock_ms()
            ends = None if seen.fault is not None else self._ends(reader, now_ms)
            self._newest = _Look(seen, self._newest.known if seen.fault is not None else seen, ends, now_ms)
            self._looked.set()
            self._stop.wait(_LOOK_S)

    def _ends(self, reader: TopicReader, now_ms: int) -> Mapping[int, PartitionEnds] | None:
        try:
            return read_partition_ends(reader, now_ms)
        except BrokerUnavailable as error:
            _log.warning("the waiting payments cannot be counted: %s", error)
            return None
