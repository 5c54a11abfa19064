"""Taking a topic of one partition into the database: each record once, its position kept in the same transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session

from fraud_ops.control_plane.attempts import Attempts
from fraud_ops.control_plane.changes import Work
from fraud_ops.control_plane.given import Reader
from fraud_ops.control_plane.settings import ControlPlaneSettings
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.store.models import PositionRow
from fraud_ops.control_plane.views import RuleChanged
from fraud_rules.errors import RuleLogForeign
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import follow, settled_end
from fraud_rules.kafka.reader import Record, TopicReader, topic_ids, uncommitted_end

__all__ = ["Follower", "Source"]

_AT_ONCE: Final = 200
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Source:
    """A topic, and the name under which its position is kept."""

    kafka: KafkaConnection
    topic: str
    name: str


class Follower:
    """Gives every record of a topic to `take_in`, in order, in a writer's transaction that also keeps the position."""

    def __init__(
        self,
        database: Database,
        source: Source,
        settings: ControlPlaneSettings,
        reader: Reader,
        clock_ms: Callable[[], int],
        take_in: Callable[[Work, Record], None],
        tell: Callable[[RuleChanged], None] = lambda changed: None,
    ) -> None:
        """`tell` hears of the changes once they are committed."""
        self._database = database
        self._source = source
        self._settings = settings
        self._reader = reader
        self._clock_ms = clock_ms
        self._take_in = take_in
        self._tell = tell
        self.failure: str | None = None

    def run(self, stop: threading.Event) -> None:
        """Follow the topic until told to stop, as the only process that does; whatever fails is tried again."""
        attempts = Attempts(self._source.name)
        while not stop.is_set():
            with attempts.another() as attempt, self._database.leadership(self._source.name) as led:
                if led:
                    self._follow(stop, attempt)
                else:
                    attempt.stands_by()
            self.failure = attempts.failure
            stop.wait(attempts.pause_s)

    def catch_up(self) -> int:
        """Take in all that is in the topic now, once open transactions have ended; the offset after it.

        Raises BrokerUnavailable, Unavailable, RuleLogForeign.
        """
        kafka, topic = self._source.kafka, self._source.topic
        known = self._position()
        topic_id = topic_ids(kafka, [topic])[topic]
        with TopicReader(kafka, topic) as reader:
            end = settled_end(reader, uncommitted_end(kafka, topic))
            self._check(known, topic_id, end)
            start = known.offset if known is not None else reader.ends()[0]
            batch: list[Record] = []
            for record in reader.read(start, end):
                batch.append(record)
                if len(batch) >= _AT_ONCE:
                    self.keep(batch, batch[-1].offset + 1, topic_id)
                    batch = []
            if batch or known is None or end > known.offset:
                self.keep(batch, end, topic_id)
        return end

    def position(self) -> int:
        """The offset after the last record taken in; 0 before the first."""
        known = self._position()
        return 0 if known is None else known.offset

    def _follow(self, stop: threading.Event, attempt: Attempts) -> None:
        kafka, topic = self._source.kafka, self._source.topic
        start = self.catch_up()
        attempt.succeeds()
        self.failure = None
        batch: list[Record] = []
        for received in follow(kafka, {topic: {0: start}}, wanted=lambda: not stop.is_set(), poll_s=_LOOK_S):
            if received is not None:
                batch.append(received.record)
            if batch and (received is None or len(batch) >= _AT_ONCE):
                self.keep(batch, batch[-1].offset + 1)
                batch = []

    def keep(self, records: Sequence[Record], end: int, topic_id: str | None = None) -> None:
        """Take records in that are not yet; others may have been quicker."""
        with self._database.writing() as session:
            row = session.get(PositionRow, self._source.name)
            if row is None:
                row = PositionRow(name=self._source.name, offset=0, topic_id=topic_id)
                session.add(row)
            work = Work(session, self._settings, self._reader, self._clock_ms())
            for record in records:
                if record.offset >= row.offset:
                    self._take_in(work, record)
            row.offset = max(row.offset, end)
        for changed in work.changed:
            self._tell(changed)

    def _position(self) -> PositionRow | None:
        with self._database.reading() as session:
            return session.get(PositionRow, self._source.name)

    def _check(self, known: PositionRow | None, topic_id: str, end: int) -> None:
        if known is None:
            return
        if known.topic_id not in (None, topic_id) or known.offset > end:
            known_as = f"{self._source.topic} is not the topic this store knows, which had reached {known.offset}"
            raise RuleLogForeign(f"{known_as}: see the runbook drift")


def forget(session: Session, name: str) -> None:
    """Begin a topic anew."""
    row = session.get(PositionRow, name)
    if row is not None:
        session.delete(row)
