"""The thread that reads the detector's output topics into memory and passes new events to the hub."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from fraud_control.background_thread import BackgroundThread
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.day_figures import HOUR_MS, HOURS
from fraud_control.feed.decisions import read_decision
from fraud_control.feed.events import (
    Event,
    FeedBatch,
    FeedOperation,
    FeedQuarantine,
    read_alert,
    read_correction,
    read_late,
    with_snooze,
)
from fraud_control.feed.memory import FeedMemory
from fraud_control.feed.place import FeedSource
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import ReceivedRecord, follow, topic_ends, topic_starts
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.detector_status import decode_progress
from fraud_rules.logs.rule_status import decode_operation
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.retry import RepeatedWork

_ALERTS_BACK = 50_000
_DECISIONS_BACK = 20_000
_DAY_BACK = 300_000
_OPERATIONS_BACK = 50_000
_PROGRESS_BACK = 30_000
_LISTED_BACK = 500
_BUNDLE = 500
_POLL_S = 0.05
_GATHER_MS = 100
_SHOWN_BYTES = 500

Listener = Callable[[Sequence[Event]], None]


class FeedReader(BackgroundThread):
    """Reads from the topics into memory. `report` gets new events in bundles, in this thread, and must return soon.
    `snoozing` returns the snoozes in force and does not raise.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        settings: DetectorSettings,
        memory: FeedMemory,
        report: Listener,
        snoozing: Callable[[], Snoozing],
    ) -> None:
        super().__init__("fraud-control-feed")
        self._snoozing = snoozing
        topics = settings.topics
        self._kafka = kafka
        self._detector = settings.detector.encode()
        self._memory = memory
        self._report = report
        self._back = {
            topics.alerts: _ALERTS_BACK,
            topics.shadow_alerts: _ALERTS_BACK,
            topics.alert_corrections: _ALERTS_BACK,
            topics.decisions: _DECISIONS_BACK,
            topics.rule_operations: _OPERATIONS_BACK,
            topics.detector_progress: _PROGRESS_BACK,
            topics.late_transactions: _LISTED_BACK,
            topics.quarantine: _LISTED_BACK,
        }
        self._sources = {
            topics.alerts: FeedSource.ALERTS,
            topics.shadow_alerts: FeedSource.SHADOW,
            topics.alert_corrections: FeedSource.CORRECTIONS,
            topics.rule_operations: FeedSource.OPERATIONS,
        }
        self._topics = topics
        self._next: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self.caught_up = False
        """Whether the records are read that the topics had at the start."""
        self._of_day = (topics.alerts, topics.shadow_alerts, topics.decisions)
        self._day_is_complete = True

    def positions(self) -> Mapping[str, int]:
        """The next offset, by topic; empty before the first start."""
        return dict(self._next)

    def _work(self, attempt: RepeatedWork) -> None:
        self._begin()
        self._follow(attempt)

    def _begin(self) -> None:
        """Choose the first offset of each topic: after the last read record, or else a bounded number back."""
        for topic, back in self._back.items():
            first, end = topic_starts(self._kafka, topic)[0], topic_ends(self._kafka, topic)[0]
            known = self._next.get(topic)
            if known is not None and first <= known <= end:
                continue
            self._next[topic] = self._first_offset(topic, first, end, back)
            self._ends[topic] = end
            if topic in self._sources:
                self._memory.begin(self._sources[topic], self._next[topic], first)

    def _first_offset(self, topic: str, first: int, end: int, back: int) -> int:
        """The offset to begin at: `back` records before the end. The topics of the day's figures begin at the first
        hour of these figures, if that is further back, but at most `_DAY_BACK` records.
        """
        offset = max(first, end - back)
        if topic not in self._of_day or offset == first:
            return offset
        since_ms = (now_ms() // HOUR_MS - HOURS + 1) * HOUR_MS
        with TopicReader(self._kafka, topic) as reader:
            found = reader.offset_at(since_ms)
        wanted = end if found is None else found
        bound = max(first, end - _DAY_BACK)
        if wanted < bound:
            self._day_is_complete = False
        return min(offset, max(wanted, bound))

    @property
    def day_is_complete(self) -> bool:
        """Whether the day's figures cover all alerts and decisions of the last 24 hours."""
        return self._day_is_complete and self.caught_up

    def _follow(self, attempt: RepeatedWork) -> None:
        bundle: list[Event] = []
        starts = {topic: {0: offset} for topic, offset in self._next.items()}
        reported_s = time.monotonic()
        attempt.record_success()
        try:
            for received in follow(
                self._kafka,
                starts,
                goes_on=lambda: not self._stop.is_set(),
                poll_s=_POLL_S,
                gather_ms=_GATHER_MS,
                reached=self._reach,
            ):
                if received is not None:
                    self._accept(received, bundle)
                now_s = time.monotonic()
                if bundle and (received is None or len(bundle) >= _BUNDLE or now_s - reported_s > _POLL_S):
                    self._report(bundle)
                    bundle, reported_s = [], now_s
                if not bundle and not self.caught_up and self._is_at_end():
                    self.caught_up = True
        finally:
            if bundle:  # memory holds these events, so they are not read again
                self._report(bundle)

    def _reach(self, topic: str, _: int, offset: int) -> None:
        """Advance the position behind the markers of transactions at the end of a topic, which are no records."""
        self._next[topic] = max(self._next[topic], offset)

    def _is_at_end(self) -> bool:
        """Whether the initial records are read. Other topics may grow all the time."""
        return all(self._next[topic] >= end for topic, end in self._ends.items())

    def _accept(self, received: ReceivedRecord, bundle: list[Event]) -> None:
        """Store the event of a record and add it to the bundle; only then advance the position."""
        topic, record = received.topic, received.record
        event = decode_or_skip(topic, record, lambda value: self._event(received, value), received.partition)
        if event is not None:
            event = with_snooze(event, self._snoozing())
            self._memory.add(event)
            bundle.append(event)
        self._next[topic] = record.offset + 1

    def _event(self, received: ReceivedRecord, value: bytes) -> Event | None:
        topics, record = self._topics, received.record
        match received.topic:
            case topics.alerts | topics.shadow_alerts:
                return read_alert(self._sources[received.topic], record.offset, record.append_ms, value)
            case topics.alert_corrections:
                return read_correction(record.offset, record.append_ms, value)
            case topics.rule_operations:
                return FeedOperation(record.offset, decode_operation(value))
            case topics.detector_progress:
                if record.key == self._detector:
                    self._memory.add_batch(FeedBatch(record.append_ms, decode_progress(value)))
            case topics.decisions:
                decision = read_decision(record.offset, record.append_ms, value)
                self._memory.decisions.add(decision)
                self._memory.day.add_decision(decision)
            case topics.late_transactions:
                self._memory.late.append(read_late(record.append_ms, value))
            case topics.quarantine:
                self._memory.quarantine.append(_quarantined(received, value))
        return None


def _quarantined(received: ReceivedRecord, value: bytes) -> FeedQuarantine:
    sent = received.record.headers
    headers = tuple((name, text.decode("utf-8", "replace")) for name, text in sent if text is not None)
    return FeedQuarantine(received.record.append_ms, headers, value[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"))
