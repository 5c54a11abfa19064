"""Applies the records of a topic of one partition to the database, each once: the same transaction saves the position.

A record that cannot be applied is skipped. The log, a metric and a row of the audit log name it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy.exc import DataError

from fraud_control.domain.errors import RequestRefused
from fraud_control.domain.item import NO_ITEM, ItemName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.roles import system_author
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.leases import Leadership
from fraud_control.store.models import PositionRow
from fraud_rules.errors import RuleLogForeign, RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import follow, settled_ends
from fraud_rules.kafka.decoding import UNDECODABLE, decode_reason, skip
from fraud_rules.kafka.reader import Record, TopicReader, topic_ids
from fraud_rules.runtime.retry import RepeatedWork

_MOST_RECORDS: Final = 100
_MOST_BYTES: Final = 1 << 20
_POLL_INTERVAL_S: Final = 0.02
_PAUSE_S: Final = 0.01
"""The pause after a full batch. Another writer that waits for its turn tries again within this time."""

_SHOWN_REASONS: Final = 20
_UNFIT: Final = (*UNDECODABLE, RuleRejected, DataError)
"""The errors of a record that no later attempt can apply."""


@dataclass(frozen=True, slots=True)
class ConsumedTopic:
    """A topic, and the name under which the store keeps the position in it.

    A `renewable` topic that was recreated is read from its beginning. Any other one stops its consumer.
    """

    kafka: KafkaConnection
    topic: str
    name: str
    renewable: bool = False


@dataclass(frozen=True, slots=True)
class _Unread:
    """Records in order, the offset after them, and Kafka's id of their topic."""

    records: Sequence[Record]
    end: int
    topic_id: str


class _Batch:
    """Records for one writer's transaction: few enough that the changes of users wait only for tens of milliseconds."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._bytes = 0

    def add(self, record: Record) -> None:
        self.records.append(record)
        self._bytes += len(record.value or b"")

    @property
    def is_full(self) -> bool:
        return len(self.records) >= _MOST_RECORDS or self._bytes >= _MOST_BYTES

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.records[-1].offset + 1


class TopicConsumer:
    """Passes all records of a topic in order to `apply_record`, in a writer's transaction that also saves the
    position.
    """

    def __init__(
        self,
        store: StoreAccess,
        source: ConsumedTopic,
        apply_record: Callable[[UnitOfWork, Record], None],
        report: Callable[[RuleChanged], None] = lambda changed: None,
        apply_together: Callable[[UnitOfWork, Sequence[Record]], None] | None = None,
        arrange: Callable[[UnitOfWork, Sequence[Record]], Sequence[Record]] = lambda work, records: records,
    ) -> None:
        """`report` gets the events of the changes after the commit. `apply_together` applies several records like
        `apply_record`, but with fewer changes. `arrange` sorts records that are applied in one transaction."""
        self._store = store
        self._database = store.database
        self._source = source
        self._apply_record = apply_record
        self._apply_together = apply_together or self._apply_each
        self._report = report
        self._arrange = arrange
        self._attempts = RepeatedWork(source.name)

    @property
    def failure(self) -> str | None:
        """The reason why reading fails at the moment; None while it succeeds."""
        return self._attempts.failure

    @property
    def name(self) -> str:
        """The name under which the store keeps the position."""
        return self._source.name

    @property
    def topic(self) -> str:
        """The topic."""
        return self._source.topic

    def run(self, stop: threading.Event) -> None:
        """Consume the topic until `stop` is set, in one process at a time. After an error, try again."""
        self._attempts.run(partial(self._lead, stop), stop)

    def _lead(self, stop: threading.Event, attempt: RepeatedWork) -> None:
        with self._database.leadership(self._source.name) as lead:
            if lead:
                self._follow(stop, attempt, lead)
            else:
                attempt.record_standby()

    def catch_up(self) -> int:
        """Wait until open transactions have ended, apply all records that the topic has then, and return the offset
        after them.

        Raises BrokerUnavailable, Unavailable, RuleLogForeign.
        """
        end = self.position()
        for unread in self._unread():
            self.apply_records(unread.records, unread.end, unread.topic_id)
            end = unread.end
        return end

    def each_unread(self, visit: Callable[[UnitOfWork, Record], object]) -> None:
        """Pass each unread record to `visit`, in a writer's transaction, and keep the position.

        Raises BrokerUnavailable, Unavailable, RuleLogForeign.
        """
        for unread in self._unread():
            with self._working() as work:
                for record in unread.records:
                    visit(work, record)

    def reread(self, user: str) -> int:
        """Continue at the beginning of a topic that was recreated, and return its first offset. A row of the audit log
        names the `user` of this host.

        Raises RequestRefused if the store knows this topic, BrokerUnavailable, Unavailable.
        """
        name, kafka, topic = self._source.name, self._source.kafka, self._source.topic
        topic_id = topic_ids(kafka, [topic])[topic]
        with TopicReader(kafka, topic) as reader:
            first, end = settled_ends(reader)[0]
        with self._working() as work:
            row = work.session.get(PositionRow, name)
            if row is None or not _is_foreign(row, topic_id, end):
                raise RequestRefused(f"{topic} was not recreated: its reader continues at its position by itself")
            before, row.offset, row.topic_id = row.offset, first, topic_id
            after = {"offset": first, "osUser": user}
            record = AuditRecord(system_author(name), f"{name}.reread", f"topic {topic}", {"offset": before}, after)
            work.append_audit(record)
        return first

    def _unread(self) -> Iterator[_Unread]:
        """Wait until open transactions have ended, and yield the unread records in batches.

        The last batch ends at the end of the topic and may be empty.
        """
        kafka, topic = self._source.kafka, self._source.topic
        known = self._position()
        topic_id = topic_ids(kafka, [topic])[topic]
        with TopicReader(kafka, topic) as reader:
            first, end = settled_ends(reader)[0]
            if self._source.renewable and _is_foreign(known, topic_id, end):
                known = self._begin_again(topic_id, first)
            self._check(known, topic_id, end)
            start = first if known is None else max(first, known.offset)
            batch = _Batch()
            for record in reader.read(start, end):
                batch.add(record)
                if batch.is_full:
                    yield _Unread(batch.records, batch.end, topic_id)
                    batch = _Batch()
                    time.sleep(_PAUSE_S)
            if batch.records or known is None or end > known.offset:
                yield _Unread(batch.records, end, topic_id)

    def position(self) -> int:
        """The offset after the last applied record; 0 before the first."""
        known = self._position()
        return 0 if known is None else known.offset

    def _follow(self, stop: threading.Event, attempt: RepeatedWork, lead: Leadership) -> None:
        kafka, topic = self._source.kafka, self._source.topic
        start = self.catch_up()
        attempt.record_success()
        batch = _Batch()
        for received in follow(kafka, {topic: {0: start}}, goes_on=lambda: not stop.is_set(), poll_s=_POLL_INTERVAL_S):
            lead.check()
            if received is not None:
                batch.add(received.record)
            if batch.is_full or (batch.records and received is None):
                self.apply_records(batch.records, batch.end)
                if batch.is_full:
                    stop.wait(_PAUSE_S)
                batch = _Batch()

    def apply_records(self, records: Sequence[Record], end: int, topic_id: str | None = None) -> None:
        """Apply the records that no other process has applied yet, and save the position."""
        with self._working() as work:
            row = work.session.get(PositionRow, self._source.name)
            if row is None:
                row = PositionRow(name=self._source.name, offset=0, topic_id=topic_id)
                work.session.add(row)
            position = row.offset
            self._apply_all(work, self._arrange(work, [each for each in records if each.offset >= position]))
            row.offset = max(position, end)

    def _apply_all(self, work: UnitOfWork, records: Sequence[Record]) -> None:
        """Apply records together, because each savepoint writes all changes so far. If one record cannot be applied,
        apply each half in its own savepoint.
        """
        if len(records) == 1:
            self._apply(work, records[0])
            return
        try:
            with work.tentative():
                self._apply_together(work, records)
        except _UNFIT:
            half = len(records) // 2
            self._apply_all(work, records[:half])
            self._apply_all(work, records[half:])

    def _apply_each(self, work: UnitOfWork, records: Sequence[Record]) -> None:
        for record in records:
            self._apply_record(work, record)

    def _apply(self, work: UnitOfWork, record: Record) -> None:
        try:
            with work.tentative():
                self._apply_record(work, record)
        except _UNFIT as error:
            skip(self._source.topic, record, decode_reason(error))
            work.append_audit(self._rejection(record, error))

    def _rejection(self, record: Record, error: Exception) -> AuditRecord:
        """Build the row of the audit log about a skipped record."""
        name, item, reasons = self._source.name, NO_ITEM, [decode_reason(error)]
        if isinstance(error, RuleRejected):
            item = _rejected_item(error)
            reasons = list(map(str, error.reasons[:_SHOWN_REASONS]))
        about = f"offset {record.offset}"
        return AuditRecord(system_author(name), f"{name}.refused", about, None, {"reasons": reasons}, item)

    @contextmanager
    def _working(self) -> Iterator[UnitOfWork]:
        """Open a writer's transaction, and report its changes after the commit."""
        with self._store.unit_of_work() as work:
            yield work
        for changed in work.changed:
            self._report(changed)

    def _position(self) -> PositionRow | None:
        with self._database.reading() as session:
            return session.get(PositionRow, self._source.name)

    def _begin_again(self, topic_id: str, offset: int) -> PositionRow:
        with self._database.writing() as session:
            return session.merge(PositionRow(name=self._source.name, offset=offset, topic_id=topic_id))

    def _check(self, known: PositionRow | None, topic_id: str, end: int) -> None:
        if known is not None and _is_foreign(known, topic_id, end):
            fault = f"{self._source.topic} is not the topic this store knows, which had reached {known.offset}"
            raise RuleLogForeign(f"{fault}: see the runbook drift")


def _is_foreign(known: PositionRow | None, topic_id: str, end: int) -> bool:
    """Whether the store's position belongs to an earlier topic of this name."""
    return known is not None and (known.topic_id not in (None, topic_id) or known.offset > end)


def _rejected_item(error: RuleRejected) -> ItemName:
    if error.list_name is not None:
        return ItemName.of_list(error.list_name)
    if error.map_name is not None:
        return ItemName.of_map(error.map_name)
    known = error.rule_id is not None and 0 < error.rule_id < 2**63
    return ItemName.of_rule(error.rule_id) if known and error.rule_id is not None else NO_ITEM
