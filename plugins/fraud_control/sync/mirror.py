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
from typing import Final, TypeVar

from sqlalchemy import or_, select, update

from fraud_control.domain.canonical import decoded
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.roles import log_author
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.kind import NewRevision, Place
from fraud_control.service.items.saving import save
from fraud_control.service.lists import content as lists
from fraud_control.service.lists.content import ListContent
from fraud_control.service.lists.faults import check_foreign_change
from fraud_control.service.rules import content as rules
from fraud_control.service.rules.content import RuleContent, revision_row
from fraud_control.service.rules.transitions import delete_all
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.facts import store_id
from fraud_control.store.models import ListChangeRow, ListHead, OutboxRow, RevisionRow, RuleHead
from fraud_control.sync.topic_consumer import ConsumedTopic, TopicConsumer
from fraud_rules.codec.rules.codec import encode_document, read_entry
from fraud_rules.codec.rules.lists import SOURCE_NAME
from fraud_rules.errors import RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.kafka.reader import Record
from fraud_rules.model.list_history import list_faults
from fraud_rules.model.rule import Control, ControlType, Rule, RuleDeletion
from fraud_rules.model.ruleset import LogEntry
from fraud_rules.model.value_list import ListChange

__all__ = ["AUDIT_HEADER", "NAME", "SEQ_HEADER", "STORE_HEADER", "log_mirror", "mark_arrived", "mark_published"]

NAME: Final = "mirror"
STORE_HEADER: Final = "control-store"
SEQ_HEADER: Final = "control-seq"
AUDIT_HEADER: Final = "control-audit"

Content = TypeVar("Content")

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
        .returning(OutboxRow.rule_id, OutboxRow.revision, OutboxRow.list_name)
    ).one_or_none()
    if marked is None:
        return
    tables = (RevisionRow, RuleHead) if marked.list_name is None else (ListChangeRow, ListHead)
    for table in tables:
        work.session.execute(update(table).where(table.outbox_seq == seq).values(log_version=offset))
    if marked.list_name is not None:
        work.lists.forget(marked.list_name)
    work.changed.append(RuleChanged(*marked))


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
        raise RuleRejected(entry.reasons, entry.rejected_id, entry.list_name)
    source = _source_of(record)
    match entry.change:
        case Rule() as rule:
            _check_lists(work, entry, rule)
            found = RuleContent(rule.rule_id, StateName(rule.state.value), encode_document(rule.document).decode())
            _save_in_log_order(work, entry, _revision(entry, found, source, "log.rule"))
        case ListChange() as change:
            check_foreign_change(work, change, entry.version)
            new = _revision(entry, ListContent(change), source, f"log.list_{change.operation.value.lower()}")
            save(work, lists, work.lists.head(change.name), new)
        case RuleDeletion(rule_id):
            _apply_foreign_deletion(work, entry, rule_id, source)
        case Control(kind):
            _apply_foreign_control(work, entry, kind, source)


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


def _check_lists(work: UnitOfWork, entry: LogEntry, rule: Rule) -> None:
    """Raise RuleRejected if the rule log rejects the rule, because of the lists that it has before the rule."""
    faults = list_faults(rule, lambda name: work.lists.type_before(name, entry.version)) if rule.lists else []
    if faults:
        raise RuleRejected(faults, rule.rule_id)


def _apply_foreign_deletion(work: UnitOfWork, entry: LogEntry, rule_id: int, source: str) -> None:
    head = work.session.get(RuleHead, rule_id)
    if head is None or not StateName(head.state).in_log:
        return
    deleted = RuleContent(rule_id, StateName.DELETE, head.document)
    _save_in_log_order(work, entry, _revision(entry, deleted, source, "log.delete", head.author))


def _revision(
    entry: LogEntry, changed: Content, source: str, action: str, author: str | None = None
) -> NewRevision[Content]:
    """The revision of an item by a record of another writer."""
    place, detail = Place(None, entry.version), {"logVersion": entry.version}
    return NewRevision(
        changed, log_author(source), action, _FROM_LOG, author, source, detail, place=place, at_ms=entry.append_ms
    )


def _save_in_log_order(work: UnitOfWork, entry: LogEntry, new: NewRevision[RuleContent]) -> None:
    rule_id = new.content.rule_id
    later, head = _later_own_change(work, rule_id, entry.version), work.session.get(RuleHead, rule_id)
    if later is None:
        save(work, rules, head, new)
    elif head is None:
        head = save(work, rules, None, new)
        deleted = RuleContent(rule_id, StateName.DELETE, new.content.document)
        place = Place(later.seq, later.log_version)
        save(work, rules, head, NewRevision(deleted, new.who, "rule.delete_all", source=new.source, place=place))
    else:
        _save_to_history(work, head, new)


def _save_to_history(work: UnitOfWork, head: RuleHead, new: NewRevision[RuleContent]) -> None:
    head.last_revision += 1
    facts = {"revision": head.last_revision, **rules.described(work, new.content), **new.detail}
    work.append_audit(AuditRecord(new.who, "log.overtaken", str(head), None, facts, **head.item))
    comment = f"{_FROM_LOG}; revision {head.revision} came after it"
    work.session.add(revision_row(head, replace(new, comment=comment), {new.content_author}))


def _apply_foreign_control(work: UnitOfWork, entry: LogEntry, kind: ControlType, source: str) -> None:
    detail = {"logVersion": entry.version}
    work.append_audit(AuditRecord(log_author(source), "log.control", kind.value, None, detail))
    if kind is ControlType.DELETE_RULES_ALL:
        kept = _rules_changed_after(work, entry.version)
        delete_all(work, log_author(source), source, _FROM_LOG, Place(None, entry.version), kept)
    work.changed.append(RuleChanged(None, None))


def _later_own_change(work: UnitOfWork, rule_id: int, version: int) -> OutboxRow | None:
    """This store's newest change to the rule, or to all rules, that the log has or will have after offset `version`."""
    later = or_(OutboxRow.log_version.is_(None), OutboxRow.log_version > version)
    concerned = or_(OutboxRow.rule_id == rule_id, OutboxRow.wipes)
    return work.session.scalars(
        select(OutboxRow).where(concerned, later).order_by(OutboxRow.seq.desc()).limit(1)
    ).first()


def _rules_changed_after(work: UnitOfWork, version: int) -> frozenset[int]:
    """The ids of the rules with a change of this store that the log has or will have after offset `version`."""
    later = or_(OutboxRow.log_version.is_(None), OutboxRow.log_version > version)
    found = work.session.scalars(select(OutboxRow.rule_id).where(later, OutboxRow.rule_id.is_not(None)).distinct())
    return frozenset(rule_id for rule_id in found if rule_id is not None)


def _source_of(record: Record) -> str:
    """The record's member `source`, which names the writer; `somebody` if it has no valid one."""
    value = (record.value or b"").strip()
    try:
        members = decoded(value) if value.startswith(b"{") else {}
    except UNDECODABLE:
        members = {}
    source = members.get("source")
    return source if isinstance(source, str) and SOURCE_NAME.fullmatch(source) else _UNKNOWN_SOURCE
