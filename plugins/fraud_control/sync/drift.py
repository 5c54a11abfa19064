"""Compares the rules, lists and maps of the store with those of the rule log.

The comparison is at one offset of the log. It leaves out each item with a record in the outbox or an unread record in
the log. Any other one that differs is a difference; its runbook is `drift`. The check also counts the unread
records: the store is in sync only if there are none.

The check keeps the lists and maps of the store. So it finds a changed row of one only after a restart, or when `fraud
store drift` runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.item import NO_ITEM, ItemName
from fraud_control.domain.read_models import DriftedCollection, DriftSide
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.items.kind import Kind, Side
from fraud_control.service.items.kinds import KINDS
from fraud_control.store.database import Database
from fraud_control.store.models import OutboxRow, PositionRow
from fraud_control.sync.mirror import NAME
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Control, ControlType
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import TransactionSchema


@dataclass(frozen=True, slots=True)
class StoreSide:
    """The items in force by the store, by kind and key, and the store's progress in the log.

    `position` is the offset after the last applied record, `reached` the offset after the last own record, and `own`
    has the offsets of own records from `position` on. `waiting` has the items with a record in the outbox;
    `all_pending` says whether a record for all rules is there.
    """

    items: Mapping[str, Mapping[str, Side]]
    contents: CollectionContents
    position: int
    reached: int
    own: frozenset[int]
    waiting: frozenset[ItemName]
    all_pending: bool
    pending: int
    oldest_pending_ms: int | None


@dataclass(frozen=True, slots=True)
class ItemDifference:
    """An item that differs between the store and the rule log; None where it is not in force."""

    item: ItemName
    store: DriftSide | DriftedCollection | None
    log: DriftSide | DriftedCollection | None


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The result of a check. Offsets are offsets of the log. `settled` is false while a change of all rules is pending.

    `behind` counts the unread records of other writers; `behind_since_ms` is the append time of the first of them. The
    comparison covers the log below those records.
    """

    differences: tuple[ItemDifference, ...]
    settled: bool
    log_end: int
    store_position: int
    pending: int
    oldest_pending_ms: int | None
    behind: int = 0
    behind_since_ms: int | None = None

    @property
    def in_sync(self) -> bool:
        """Whether the store has read the whole log and has the same items."""
        return not self.differences and not self.behind


class DriftCheck:
    """One instance per process, because it keeps the log that it has read."""

    def __init__(
        self, database: Database, kafka: KafkaConnection, topic: str, schema: TransactionSchema, limits: RuleLimits
    ) -> None:
        self._database = database
        self._kafka = kafka
        self._topic = topic
        self._log = RuleLog(self._records, schema, limits)
        self._contents = CollectionContents(limits)

    def read(self) -> DriftReport:
        """Compare store and log now. Raises BrokerUnavailable, Unavailable."""
        with self._database.reading() as session:
            store = store_side(session, self._contents)
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
        return DriftReport(
            compare(store, timeline, ahead) if settled else (),
            settled,
            log_end,
            store.position,
            store.pending,
            store.oldest_pending_ms,
            behind=len(unread),
            behind_since_ms=min((entry.append_ms for entry in unread), default=None),
        )

    def _records(self, start: int, end: int) -> list[Record]:
        with TopicReader(self._kafka, self._topic) as reader:
            return list(reader.read(start, end))


def store_side(session: Session, contents: CollectionContents) -> StoreSide:
    """Read the items and the progress of the store in one transaction."""
    row = session.get(PositionRow, NAME)
    position = 0 if row is None else row.offset
    waiting = session.execute(
        select(OutboxRow.kind, OutboxRow.item_key, OutboxRow.wipes, OutboxRow.created_ms).where(
            OutboxRow.log_version.is_(None)
        )
    ).all()
    own = select(OutboxRow.log_version).where(OutboxRow.log_version >= position)
    return StoreSide(
        items={name: kind.in_store(session, contents, name) for name, kind in KINDS.items()},
        contents=contents,
        position=position,
        reached=(session.scalar(select(func.max(OutboxRow.log_version))) or -1) + 1,
        own=frozenset(version for version in session.scalars(own) if version is not None),
        waiting=frozenset(ItemName(row.kind, row.item_key) for row in waiting),
        all_pending=any(row.wipes for row in waiting),
        pending=len(waiting),
        oldest_pending_ms=min((row.created_ms for row in waiting), default=None),
    )


def compare(store: StoreSide, timeline: RuleTimeline, ahead: Iterable[LogEntry] = ()) -> tuple[ItemDifference, ...]:
    """List the items that differ; `ahead` has the entries of the log that the store has not read yet."""
    pending = store.waiting | set(map(_item_of, ahead))
    return tuple(each for name in KINDS for each in _differences(name, store, timeline, pending))


def _differences(
    name: str, store: StoreSide, timeline: RuleTimeline, pending: Collection[ItemName]
) -> Iterator[ItemDifference]:
    kind, stored = KINDS[name], store.items[name]
    logged = kind.in_log(timeline, name)
    items = {ItemName(name, key) for key in stored.keys() | logged.keys()}.difference(pending)
    for item in sorted(items, key=lambda each: (each.rule_id or 0, each.key)):
        ours, theirs = stored.get(item.key), logged.get(item.key)
        if ours is None or theirs is None or not _equal(kind, store.contents, ours, theirs):
            yield ItemDifference(item, *(None if each is None else kind.shown(each) for each in (ours, theirs)))


def _equal(kind: Kind[Any], contents: CollectionContents, ours: Side, theirs: Side) -> bool:
    return ours.version == theirs.version and kind.equal(contents, ours.content, theirs.content)


def _item_of(entry: LogEntry) -> ItemName:
    if entry.list_name is not None:
        return ItemName.of_list(entry.list_name)
    if entry.map_name is not None:
        return ItemName.of_map(entry.map_name)
    return NO_ITEM if entry.rule_id is None else ItemName.of_rule(entry.rule_id)


def _is_wipe(entry: LogEntry) -> bool:
    return isinstance(entry.change, Control) and entry.change.type is ControlType.DELETE_RULES_ALL
