"""Compares the rules and lists of the store with those of the rule log.

The comparison is at one offset of the log. It leaves out each rule or list with a record in the outbox or an unread
record in the log. Any other one that differs is a difference; its runbook is `drift`. The check also counts the unread
records: the store is in sync only if there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical, document_of
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import DriftDifference, DriftSide, ListDifference
from fraud_control.store.database import Database
from fraud_control.store.models import OutboxRow, PositionRow, RuleHead
from fraud_control.sync.list_drift import ListComparison
from fraud_control.sync.mirror import NAME
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Control, ControlType
from fraud_rules.model.ruleset import LogEntry, RuleSet
from fraud_rules.model.schema import TransactionSchema

__all__ = ["DriftCheck", "DriftReport", "StoreSide", "compare", "store_side"]


@dataclass(frozen=True, slots=True)
class StoreSide:
    """The rules in force by the store, and the store's progress in the log.

    `position` is the offset after the last applied record, `reached` the offset after the last own record, and `own`
    has the offsets of own records from `position` on. `waiting` has the ids of rules and the names of lists with a
    record in the outbox; `all_pending` says whether a record for all rules is there.
    """

    rules: Mapping[int, DriftSide]
    position: int
    reached: int
    own: frozenset[int]
    waiting: frozenset[int | str | None]
    all_pending: bool
    pending: int
    oldest_pending_ms: int | None


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The result of a check. Offsets are offsets of the log. `settled` is false while a change of all rules is pending.

    `behind` counts the unread records of other writers; `behind_since_ms` is the append time of the first of them. The
    comparison covers the log below those records.
    """

    differences: tuple[DriftDifference, ...]
    settled: bool
    log_end: int
    store_position: int
    pending: int
    oldest_pending_ms: int | None
    behind: int = 0
    behind_since_ms: int | None = None
    list_differences: tuple[ListDifference, ...] = ()

    @property
    def in_sync(self) -> bool:
        """Whether the store has read the whole log and has the same rules and lists."""
        return not self.differences and not self.list_differences and not self.behind


class DriftCheck:
    """One instance per process, because it keeps the log that it has read."""

    def __init__(
        self, database: Database, kafka: KafkaConnection, topic: str, schema: TransactionSchema, limits: RuleLimits
    ) -> None:
        self._database = database
        self._kafka = kafka
        self._topic = topic
        self._log = RuleLog(self._records, schema, limits)
        self._lists = ListComparison(limits)

    def read(self) -> DriftReport:
        """Compare store and log now. Raises BrokerUnavailable, Unavailable."""
        with self._database.reading() as session:
            store, lists = store_side(session), self._lists.stored(session)
        with TopicReader(self._kafka, self._topic) as reader:
            _, log_end = reader.ends()
        whole = self._log.up_to(log_end, {})
        following = [entry for entry in whole.entries if entry.version >= store.position]
        unread = [entry for entry in following if entry.version not in store.own]
        until = max(store.position, store.reached)
        later = any(entry.version >= until for entry in following)
        timeline = self._log.up_to(min(until, log_end), {}) if later else whole
        ahead = [entry for entry in following if entry.version < until]
        settled = not store.all_pending and not any(map(_is_wipe, ahead))
        differences = compare(store, timeline.latest, ahead) if settled else ()
        pending = store.waiting | {entry.list_name for entry in ahead}
        return DriftReport(
            differences,
            settled,
            log_end,
            store.position,
            store.pending,
            store.oldest_pending_ms,
            behind=len(unread),
            behind_since_ms=min((entry.append_ms for entry in unread), default=None),
            list_differences=self._lists.differences(lists, timeline.lists, pending) if settled else (),
        )

    def _records(self, start: int, end: int) -> list[Record]:
        with TopicReader(self._kafka, self._topic) as reader:
            return list(reader.read(start, end))


def store_side(session: Session) -> StoreSide:
    """Read the rules and the progress of the store in one transaction."""
    row = session.get(PositionRow, NAME)
    position = 0 if row is None else row.offset
    in_log = [state.value for state in StateName if state.in_log]
    heads = session.scalars(select(RuleHead).where(RuleHead.state.in_(in_log)))
    waiting = session.execute(
        select(OutboxRow.rule_id, OutboxRow.list_name, OutboxRow.wipes, OutboxRow.created_ms).where(
            OutboxRow.log_version.is_(None)
        )
    ).all()
    own = select(OutboxRow.log_version).where(OutboxRow.log_version >= position)
    return StoreSide(
        rules={head.rule_id: _side(head.log_version, document_of(head.document)) for head in heads},
        position=position,
        reached=(session.scalar(select(func.max(OutboxRow.log_version))) or -1) + 1,
        own=frozenset(version for version in session.scalars(own) if version is not None),
        waiting=frozenset(name for row in waiting for name in (row.rule_id, row.list_name)),
        all_pending=any(row.wipes for row in waiting),
        pending=len(waiting),
        oldest_pending_ms=min((row.created_ms for row in waiting), default=None),
    )


def compare(store: StoreSide, in_force: RuleSet, ahead: Iterable[LogEntry] = ()) -> tuple[DriftDifference, ...]:
    """List the rules that differ; `ahead` has the entries of the log that the store has not read yet."""
    pending = store.waiting | {entry.rule_id for entry in ahead}
    log = {rule_id: _side(each.version, each.rule.document) for rule_id, each in in_force.rules.items()}
    return tuple(
        DriftDifference(rule_id=rule_id, store=store.rules.get(rule_id), log=log.get(rule_id))
        for rule_id in sorted(store.rules.keys() | log.keys())
        if rule_id not in pending and not _same(store.rules.get(rule_id), log.get(rule_id))
    )


def _side(version: int | None, document: Mapping[str, Any]) -> DriftSide:
    return DriftSide(version=version, document=dict(document))


def _same(first: DriftSide | None, second: DriftSide | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.version == second.version and canonical(dict(first.document)) == canonical(dict(second.document))


def _is_wipe(entry: LogEntry) -> bool:
    return isinstance(entry.change, Control) and entry.change.type is ControlType.DELETE_RULES_ALL
