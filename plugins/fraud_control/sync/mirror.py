"""Copies the rule log into the store: marks our records as published, and applies the records of other writers.

The rule log determines the rules in force. A record of another writer (`seed`, `cli`, another tool) becomes a revision,
so that the store shows these rules. If a record of this store comes later in the log than that record, but was saved
before the mirror read it, the record of this store stays in force. The revision of the other writer is then saved only
in the history. The `source` of a record proves nothing, so the author of its revision is `log:SOURCE`, the name of no
user. A record that is not a valid change has no effect and becomes a row of the audit log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sqlalchemy import or_, select, update

from fraud_control.domain.canonical import decoded
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.roles import log_author
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.contributors import encode_contributors
from fraud_control.service.items.kind import NewRevision, Place
from fraud_control.service.items.kinds import KIND_OF_CHANGE, KINDS
from fraud_control.service.items.saving import revision_row, save
from fraud_control.service.rules import content as rules
from fraud_control.service.rules.content import RuleContent
from fraud_control.service.rules.transitions import delete_all
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.facts import store_id
from fraud_control.store.models import ItemHead, OutboxRow, RevisionRow
from fraud_control.sync.topic_consumer import ConsumedTopic, TopicConsumer
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.rules.collections.records import SOURCE_NAME
from fraud_rules.errors import RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.kafka.reader import Record
from fraud_rules.model.rule import Control, ControlType
from fraud_rules.model.ruleset import LogEntry

NAME: Final = "mirror"
STORE_HEADER: Final = "control-store"
SEQ_HEADER: Final = "control-seq"

_FROM_LOG: Final = "from the rule log"
_UNKNOWN_SOURCE: Final = "somebody"


def log_mirror(
    store: StoreAccess,
    kafka: KafkaConnection,
    topic: str,
    report: Callable[[RuleChanged], None] = lambda changed: None,
) -> TopicConsumer:
    """Create the consumer that copies the rule log into this store."""
    own_store = store_id(store.database).encode()

    def apply_record(work: UnitOfWork, record: Record) -> None:
        _apply_record(work, record, own_store)

    return TopicConsumer(store, ConsumedTopic(kafka, topic, NAME), apply_record, report)


def mark_published(work: UnitOfWork, seq: int, offset: int) -> None:
    """Mark an outbox record as published at this offset. A second call changes nothing."""
    marked = work.session.execute(
        update(OutboxRow)
        .where(OutboxRow.seq == seq, OutboxRow.log_version.is_(None))
        .values(log_version=offset, published_ms=work.now_ms)
        .returning(OutboxRow.kind, OutboxRow.item_key, OutboxRow.revision)
    ).one_or_none()
    if marked is None:
        return
    for table in (RevisionRow, ItemHead):
        work.session.execute(update(table).where(table.outbox_seq == seq).values(log_version=offset))
    item = ItemName(marked.kind, marked.item_key)
    work.collections.forget(item)
    work.changed.append(RuleChanged.of_item(item, marked.revision))


def mark_arrived(work: UnitOfWork, record: Record, own_store: bytes) -> bool:
    """Mark a record of this store's outbox as published. Return False for a record of another writer."""
    seq = _own_seq(work, record, own_store)
    if seq is not None:
        mark_published(work, seq, record.offset)
    return seq is not None


def _apply_record(work: UnitOfWork, record: Record, own_store: bytes) -> None:
    if mark_arrived(work, record, own_store):
        return
    entry = read_entry(record.offset, record.append_ms, record.value, work.reader.schema, work.reader.limits)
    if entry.change is None:
        raise RuleRejected(entry.reasons, entry.rejected_id, entry.list_name, entry.map_name)
    source = _source_of(record)
    if isinstance(entry.change, Control):
        _apply_foreign_control(work, entry, entry.change.type, source)
        return
    kind = KINDS[KIND_OF_CHANGE[type(entry.change)]]
    found = kind.foreign(work, entry)
    if found is None:
        return
    new = NewRevision(
        found.content, log_author(source), f"log.{found.action}", _FROM_LOG, found.author, source,
        {"logVersion": entry.version}, place=Place(None, entry.version), at_ms=entry.append_ms,
    )  # fmt: skip
    if isinstance(found.content, RuleContent):
        _save_in_log_order(work, entry, new)
    else:  # the values follow from all records in the order of the log
        save(work, kind, work.head(kind.name_of(found.content)), new)


def _own_seq(work: UnitOfWork, record: Record, own_store: bytes) -> int | None:
    """The outbox number of a record whose bytes equal its outbox row; None for other records.

    A store that was restored from a backup may use outbox numbers twice. A record with such a number and other bytes
    counts as another writer's.
    """
    headers = dict(record.headers)
    number = headers.get(SEQ_HEADER) or b""
    if headers.get(STORE_HEADER) != own_store or not (number.isdigit() and len(number) < 19):
        return None
    row = work.session.get(OutboxRow, int(number))
    return row.seq if row is not None and (row.key, row.value) == (record.key, record.value) else None


def _save_in_log_order(work: UnitOfWork, entry: LogEntry, new: NewRevision[RuleContent]) -> None:
    item = rules.name_of(new.content)
    later, head = _later_own_change(work, item, entry.version), work.head(item)
    if later is None:
        save(work, rules, head, new)
    elif head is None:
        head = save(work, rules, None, new)
        deleted = replace(new.content, state=StateName.DELETE)
        place = Place(later.seq, later.log_version)
        save(work, rules, head, NewRevision(deleted, new.who, "rule.delete_all", source=new.source, place=place))
    else:
        _save_to_history(work, head, new)


def _save_to_history(work: UnitOfWork, head: ItemHead, new: NewRevision[RuleContent]) -> None:
    head.last_revision += 1
    facts = {"revision": head.last_revision, **rules.described(work, new.content), **new.detail}
    work.append_audit(AuditRecord(new.who, "log.overtaken", str(head), None, facts, head.item))
    comment = f"{_FROM_LOG}; revision {head.revision} came after it"
    content = {"state": new.content.state.value, "document": new.content.document}
    contributors = encode_contributors({new.content_author})
    row = revision_row(head, replace(new, comment=comment), new.place or Place(), contributors=contributors, **content)
    work.session.add(row)


def _apply_foreign_control(work: UnitOfWork, entry: LogEntry, kind: ControlType, source: str) -> None:
    detail = {"logVersion": entry.version}
    work.append_audit(AuditRecord(log_author(source), "log.control", kind.value, None, detail))
    if kind is ControlType.DELETE_RULES_ALL:
        kept = _rules_changed_after(work, entry.version)
        delete_all(work, log_author(source), source, _FROM_LOG, Place(None, entry.version), kept)
    work.changed.append(RuleChanged(None, None))


def _later_own_change(work: UnitOfWork, rule: ItemName, version: int) -> OutboxRow | None:
    """This store's newest change to the rule, or to all rules, that the log has or will have after offset `version`."""
    later = or_(OutboxRow.log_version.is_(None), OutboxRow.log_version > version)
    concerned = or_(OutboxRow.concerns(rule), OutboxRow.wipes)
    return work.session.scalars(
        select(OutboxRow).where(concerned, later).order_by(OutboxRow.seq.desc()).limit(1)
    ).first()


def _rules_changed_after(work: UnitOfWork, version: int) -> frozenset[int]:
    """The ids of the rules with a change of this store that the log has or will have after offset `version`."""
    later = or_(OutboxRow.log_version.is_(None), OutboxRow.log_version > version)
    keys = work.session.scalars(select(OutboxRow.item_key).where(later, OutboxRow.kind == RULE).distinct())
    return frozenset(map(int, keys))


def _source_of(record: Record) -> str:
    """The record's member `source`, which names the writer; `somebody` if it has no valid one."""
    value = (record.value or b"").strip()
    try:
        members = decoded(value) if value.startswith(b"{") else {}
    except UNDECODABLE:
        members = {}
    source = members.get("source")
    return source if isinstance(source, str) and SOURCE_NAME.fullmatch(source) else _UNKNOWN_SOURCE
