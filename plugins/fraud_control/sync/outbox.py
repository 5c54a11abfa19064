"""Publishes the outbox to the rule log: each record once, in the order in which the changes were saved.

One process publishes at a time. If two processes try, Kafka decides: opening the transactional id fences the earlier
publisher. After that, no record of an earlier publisher can arrive. The new publisher reads the headers of the
unread records in the log to find which of its outbox records have arrived. It marks these as published and publishes
only the rest. If a process dies with an open transaction, readers of committed records wait until the next publisher
opens, or until the transaction times out after `_TRANSACTION_TIMEOUT_S`.

A publisher that is fenced while it leads its own store meets a control plane with another store and the same name. It
continues, but not for ever: the two would take over from each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sqlalchemy import func, select

from fraud_control.domain.errors import NameInUse
from fraud_control.domain.read_models import OutboxState, RuleChanged
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.database import Database
from fraud_control.store.facts import store_id
from fraud_control.store.leases import Leadership
from fraud_control.store.models import OutboxRow
from fraud_control.sync.mirror import SEQ_HEADER, STORE_HEADER, mark_arrived, mark_published
from fraud_control.sync.topic_consumer import TopicConsumer
from fraud_rules.errors import Fenced, FraudError, TransactionExpired
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.takeovers import MOST_TAKEOVERS, Takeovers
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.proof.audit import AUDIT_HEADER
from fraud_rules.runtime.retry import RepeatedWork

_MAX_RECORDS: Final = 200
_POLL_INTERVAL_S: Final = 0.1
_TRANSACTION_TIMEOUT_S: Final = 10.0


def outbox_state(database: Database) -> OutboxState:
    """Count the changes that wait for the rule log. Raises Unavailable."""
    unpublished = OutboxRow.log_version.is_(None)
    with database.reading() as session:
        found = session.execute(select(func.count(), func.min(OutboxRow.created_ms)).where(unpublished)).one()
    return OutboxState(found[0], found[1])


class Publisher:
    """Writes the outbox records to the rule log. One thread of the process executes `run`; each saved change calls
    `wake`.
    """

    def __init__(
        self,
        store: StoreAccess,
        kafka: KafkaConnection,
        topic: str,
        mirror: TopicConsumer,
        report: Callable[[RuleChanged], None] = lambda changed: None,
    ) -> None:
        """`mirror` consumes the same topic into the same database. `report` gets the changes that reached the log."""
        self._store = store
        self._database = store.database
        self._kafka = kafka
        self._topic = topic
        self._mirror = mirror
        self._report = report
        self._store_id = store_id(store.database).encode()
        self._woken = threading.Event()
        self._attempts = RepeatedWork("the outbox", ends_with=NameInUse)
        self._takeovers = Takeovers()

    @property
    def failure(self) -> str | None:
        """The reason why publishing fails at the moment; None while it succeeds."""
        return self._attempts.failure

    @property
    def ended_by(self) -> FraudError | None:
        """The error that ended the publisher for good; None while it works."""
        return self._attempts.ended_by

    def wake(self, changed: RuleChanged | None = None) -> None:
        """Wake the publisher, because the outbox has a new record."""
        self._woken.set()

    def run(self, stop: threading.Event) -> None:
        """Publish until `stop` is set, in one process at a time. After an error but NameInUse, try again."""
        self._attempts.run(partial(self._lead, stop), stop)

    def _lead(self, stop: threading.Event, attempt: RepeatedWork) -> None:
        with self._database.leadership("publisher") as lead:
            if not lead:
                attempt.record_standby()
                return
            try:
                self._publish(stop, attempt, lead)
            except TransactionExpired:
                raise
            except Fenced as error:
                lead.check()  # a process of the same store may have taken over
                if self._takeovers.count():
                    raise self._name_in_use() from error
                raise

    def _name_in_use(self) -> NameInUse:
        name = self._store.settings.name
        return NameInUse(
            f"another control plane with the name {name}, but with another database, has taken over {MOST_TAKEOVERS} "
            "times within a day, so this one publishes nothing more: stop one of them, or give one another name "
            "(FRAUD_CONTROL_NAME), and start this one again"
        )

    def _publish(self, stop: threading.Event, attempt: RepeatedWork, lead: Leadership) -> None:
        writer = BatchWriter(self._kafka, self._store.settings.name, timeout_s=_TRANSACTION_TIMEOUT_S)
        writer.open()
        self._mirror.each_unread(lambda work, record: mark_arrived(work, record, self._store_id))
        attempt.record_success()
        while not stop.is_set():
            lead.check()
            rows = self._unpublished()
            if rows:
                self._mark_published(rows, writer.append([self._record(row) for row in rows]))
            else:
                self._woken.wait(_POLL_INTERVAL_S)
                self._woken.clear()

    def _unpublished(self) -> Sequence[OutboxRow]:
        query = select(OutboxRow).where(OutboxRow.log_version.is_(None)).order_by(OutboxRow.seq).limit(_MAX_RECORDS)
        with self._database.reading() as session:
            return session.scalars(query).all()

    def _record(self, row: OutboxRow) -> OutRecord:
        headers = [
            (STORE_HEADER, self._store_id), (SEQ_HEADER, str(row.seq).encode()), (AUDIT_HEADER, row.audit.encode()),
        ]  # fmt: skip
        return OutRecord(self._topic, row.value, row.key, headers)

    def _mark_published(self, rows: Sequence[OutboxRow], offsets: Sequence[int]) -> None:
        with self._store.unit_of_work() as work:
            for row, offset in zip(rows, offsets, strict=True):
                mark_published(work, row.seq, offset)
        for changed in work.changed:
            self._report(changed)
