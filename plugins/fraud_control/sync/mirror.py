"""Copies the rule log into the store: marks our records as published, and applies the records of other writers.

The rule log determines the rules in force. A record of another writer (`seed`, `cli`, another tool) becomes a revision,
so that the store shows these rules. If a record of this store comes later in the log than that record, but was saved
before the mirror read it, the record of this store stays in force. The revision of the other writer is then saved only
in the history. The `source` of a record proves nothing, so the author of its revision is `log:SOURCE`, the name of no
user. A record that is not a valid change has no effect and becomes a row of the audit log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import or_, select, update

from fraud_control.domain.canonical import decoded, document_of
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.roles import log_author
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import NewRevision, UnitOfWork, save
from fraud_control.service.items.contributors import encode_contributors
from fraud_control.service.store_access import StoreAccess
from fraud_control.service.transitions import delete_all
from fraud_control.store.facts import store_id
from fraud_control.store.models import ListChangeRow, ListHead, OutboxRow, RevisionRow, RuleHead
from fraud_control.sync.list_mirror import apply_foreign_list
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

_UNKNOWN_SOURCE: Final = "somebody"
_FROM_LOG: Final = "from the rule log"


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
            _apply_foreign_rule(work, entry, rule, source)
        case ListChange() as change:
            apply_foreign_list(work, entry, change, source)
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


def _apply_foreign_rule(work: UnitOfWork, entry: LogEntry, rule: Rule, source: str) -> None:
    new = NewRevision(
        state=StateName(rule.state.value),
        document=encode_document(rule.document).decode(),
        source=source,
        who=log_author(source),
        author=log_author(source),
        action="log.rule",
        comment=_FROM_LOG,
        publish=False,
        detail={"logVersion": entry.version},
        at_ms=entry.append_ms,
    )
    _save_in_log_order(work, entry, rule.rule_id, new)


def _check_lists(work: UnitOfWork, entry: LogEntry, rule: Rule) -> None:
    """Raise RuleRejected if the rule log rejects the rule, because of the lists that it has before the rule."""
    faults = list_faults(rule, lambda name: work.lists.type_before(name, entry.version)) if rule.lists else []
    if faults:
        raise RuleRejected(faults, rule.rule_id)


def _apply_foreign_deletion(work: UnitOfWork, entry: LogEntry, rule_id: int, source: str) -> None:
    head = work.session.get(RuleHead, rule_id)
    if head is None or not StateName(head.state).in_log:
        return
    new = NewRevision(
        state=StateName.DELETE,
        document=head.document,
        source=source,
        who=log_author(source),
        author=head.author,
        action="log.delete",
        comment=_FROM_LOG,
        publish=False,
        detail={"logVersion": entry.version},
        at_ms=entry.append_ms,
    )
    _save_in_log_order(work, entry, rule_id, new)


def _save_in_log_order(work: UnitOfWork, entry: LogEntry, rule_id: int, new: NewRevision) -> None:
    later = _later_own_change(work, rule_id, entry.version)
    head = work.session.get(RuleHead, rule_id)
    if later is None:
        save(work, head, rule_id, new, log_version=entry.version)
    elif head is None:
        head = save(work, None, rule_id, new, log_version=entry.version)
        deleted = NewRevision(
            StateName.DELETE, new.document, new.source, new.who, new.author, "rule.delete_all", publish=False
        )
        save(work, head, rule_id, deleted, outbox_seq=later.seq, log_version=later.log_version)
    else:
        _save_to_history(work, entry, head, new)


def _save_to_history(work: UnitOfWork, entry: LogEntry, head: RuleHead, new: NewRevision) -> None:
    head.last_revision += 1
    facts = {"revision": head.last_revision, "state": new.state.value, "document": document_of(new.document)}
    overtaken = AuditRecord(new.who, "log.overtaken", f"rule {head.rule_id}", None, facts | new.detail, head.rule_id)
    work.append_audit(overtaken)
    work.session.add(
        RevisionRow(
            rule_id=head.rule_id,
            revision=head.last_revision,
            state=new.state.value,
            document=new.document,
            source=new.source,
            author=new.who,
            content_author=new.author,
            contributors=encode_contributors({new.author}),
            at_ms=entry.append_ms,
            comment=f"{_FROM_LOG}; revision {head.revision} came after it",
            outbox_seq=None,
            log_version=entry.version,
        )
    )


def _apply_foreign_control(work: UnitOfWork, entry: LogEntry, kind: ControlType, source: str) -> None:
    detail = {"logVersion": entry.version}
    work.append_audit(AuditRecord(log_author(source), "log.control", kind.value, None, detail))
    if kind is ControlType.DELETE_RULES_ALL:
        kept = _rules_changed_after(work, entry.version)
        delete_all(work, log_author(source), source, _FROM_LOG, log_version=entry.version, keep=kept)
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
