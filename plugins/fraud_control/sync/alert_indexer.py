"""Fills the alert index and the outbox of notifications from the topics of alerts, in one process at a time.

The same transaction saves the rows and the positions, so each record counts once. The index is a copy: if its topics
are recreated, it starts again from their beginning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from sqlalchemy.orm import Session

from fraud_control.feed.events import FeedAlert, FeedCorrection, read_alert, read_correction
from fraud_control.feed.place import FeedSource
from fraud_control.service.alerts.index import AlertIndex
from fraud_control.service.notifications.intake import AlertNotifications
from fraud_control.store.database import Database
from fraud_control.store.leases import Leadership
from fraud_control.store.models import PositionRow
from fraud_control.sync.reader_state import ReaderPosition
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import follow
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import Record, TopicReader, topic_ids
from fraud_rules.model.day import DAY_MS
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.retry import RepeatedWork

_NAME: Final = "alert-index"
_AT_ONCE: Final = 200
_PAUSE_S: Final = 0.01
"""The pause after a transaction. A user's change that waits for the writer's lock gets its turn within this time; the
lock itself is not fair."""

_POLL_S: Final = 0.05
_GATHER_MS: Final = 500
_PRUNE_EVERY_S: Final = 60.0
_PRUNE_S: Final = 1.0


class AlertIndexer:
    """Follows the topics. `days` is the age at which alerts leave the index; `notifications` gets the new alerts."""

    def __init__(
        self,
        database: Database,
        kafka: KafkaConnection,
        topics: TopicNames,
        schema: TransactionSchema,
        days: int,
        notifications: AlertNotifications,
        clock_ms: Callable[[], int],
    ) -> None:
        self._database = database
        self._kafka = kafka
        # Corrections come last: they change alerts that the index has.
        self._topics = {
            topics.alerts: FeedSource.ALERTS,
            topics.shadow_alerts: FeedSource.SHADOW,
            topics.alert_corrections: FeedSource.CORRECTIONS,
        }
        self._index = AlertIndex(schema)
        self._kept_ms = days * DAY_MS
        self._notifications = notifications
        self._clock_ms = clock_ms
        self._attempts = RepeatedWork("the alert index")
        self._pruned_s = 0.0

    @property
    def failure(self) -> str | None:
        """The reason why indexing fails at the moment; None while it succeeds."""
        return self._attempts.failure

    def run(self, stop: threading.Event) -> None:
        """Fill the index until `stop` is set. After an error, try again."""
        self._attempts.run(partial(self._lead, stop), stop)

    def readings(self) -> Sequence[ReaderPosition]:
        """The positions in the topics. Raises Unavailable."""
        with self._database.reading() as session:
            places = {topic: session.get(PositionRow, _position_name(topic)) for topic in self._topics}
        return [
            ReaderPosition(_NAME, topic, 0 if place is None else place.offset, self.failure, shared=True)
            for topic, place in places.items()
        ]

    def catch_up(self) -> dict[str, int]:
        """Index all records that the topics have now, and return the next offset by topic.

        Raises BrokerUnavailable, Unavailable.
        """
        return {topic: self._catch_up(topic) for topic in self._topics}

    def prune(self) -> bool:
        """Delete alerts that are too old, for about a second, and return whether all of them are gone. Transactions are
        small, with a pause for other writers in between. Raises Unavailable.
        """
        now_ms, ends_s = self._clock_ms(), time.monotonic() + _PRUNE_S
        while time.monotonic() < ends_s:
            with self._database.writing() as session:
                if not self._index.prune(session, now_ms - self._kept_ms, now_ms):
                    return True
            time.sleep(_PAUSE_S)
        return False

    def _lead(self, stop: threading.Event, attempt: RepeatedWork) -> None:
        with self._database.leadership(_NAME) as lead:
            if lead:
                self._follow(stop, attempt, lead)
            else:
                attempt.record_standby()

    def _follow(self, stop: threading.Event, attempt: RepeatedWork, lead: Leadership) -> None:
        starts = {topic: {0: offset} for topic, offset in self.catch_up().items()}
        attempt.record_success()
        batch: dict[str, list[Record]] = {}
        for received in follow(
            self._kafka, starts, goes_on=lambda: not stop.is_set(), poll_s=_POLL_S, gather_ms=_GATHER_MS
        ):
            lead.check()
            now_s = time.monotonic()
            if received is not None:
                batch.setdefault(received.topic, []).append(received.record)
            if batch and (received is None or sum(map(len, batch.values())) >= _AT_ONCE):
                for topic, records in batch.items():
                    self._save(topic, records, records[-1].offset + 1)
                    stop.wait(_PAUSE_S)
                batch = {}
            elif now_s - self._pruned_s >= _PRUNE_EVERY_S and self.prune():
                # Until all are gone, each turn deletes a part: the index forgets as fast as it learns.
                self._pruned_s = now_s

    def _catch_up(self, topic: str) -> int:
        topic_id = topic_ids(self._kafka, [topic])[topic]
        with TopicReader(self._kafka, topic) as reader:
            first, end = reader.ends()
            at = self._start(topic, topic_id, reader, first, end)
            records = reader.read(at, end)
            while chunk := list(islice(records, _AT_ONCE)):
                at = chunk[-1].offset + 1
                self._save(topic, chunk, at)
                time.sleep(_PAUSE_S)
            if at < end:
                self._save(topic, [], end)
        return end

    def _start(self, topic: str, topic_id: str, reader: TopicReader, first: int, end: int) -> int:
        """The next offset. A new index starts with the first record that is young enough."""
        with self._database.reading() as session:
            known = session.get(PositionRow, _position_name(topic))
        if known is not None and known.topic_id == topic_id and first <= known.offset <= end:
            return known.offset
        if known is not None and known.topic_id == topic_id and known.offset < first:
            return first
        found = reader.offset_at(self._clock_ms() - self._kept_ms)
        start = end if found is None else max(first, found)
        with self._database.writing() as session:
            session.merge(PositionRow(name=_position_name(topic), offset=start, topic_id=topic_id))
        return start

    def _save(self, topic: str, records: Sequence[Record], end: int) -> None:
        """Index some records of a topic in one transaction with the position after them."""
        source = self._topics[topic]
        events = [self._event(topic, source, record) for record in records]
        with self._database.writing() as session:
            place = session.get(PositionRow, _position_name(topic))
            if place is not None and place.offset < end:
                self._apply(session, [each for each in events if each is not None and each.offset >= place.offset])
                place.offset = end

    def _apply(self, session: Session, events: Sequence[FeedAlert | FeedCorrection]) -> None:
        added = self._index.add(session, [each for each in events if isinstance(each, FeedAlert)])
        self._notifications.add(session, added, self._clock_ms())
        corrections = [each for each in events if isinstance(each, FeedCorrection)]
        self._index.correct(session, corrections, self._clock_ms())

    def _event(self, topic: str, source: FeedSource, record: Record) -> FeedAlert | FeedCorrection | None:
        def decode(value: bytes) -> FeedAlert | FeedCorrection:
            if source is FeedSource.CORRECTIONS:
                return read_correction(record.offset, record.append_ms, value)
            return read_alert(source, record.offset, record.append_ms, value)

        return decode_or_skip(topic, record, decode)


def _position_name(topic: str) -> str:
    return f"{_NAME}:{topic}"[:64]
