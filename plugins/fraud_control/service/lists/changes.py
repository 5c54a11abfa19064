"""Saves a change of a list: its records, its audit row and the expiry of its values, in the writer's transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import update

from fraud_control.domain.read_models import RuleChanged
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork, send_list_record, withdraw
from fraud_control.service.items.basis import encode_basis, list_changed
from fraud_control.service.items.contributors import contributors_of, encode_contributors
from fraud_control.service.lists.expiries import replace_expiries
from fraud_control.store.models import ApprovalRow, AuditEntry, ListChangeRow, ListHead
from fraud_rules.codec.rules.lists import read_list_change
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ValueList

__all__ = ["NewListChange", "save_list"]


@dataclass(frozen=True, slots=True)
class NewListChange:
    """The next change of a list. `change` is the whole change, whose values may repeat.

    `records` are the records for the rule log. A change that is already in the log has none, and has its `log_version`.
    `who` makes the change, and `author` wrote the values. `at_ms` is the time of the change; None stands for the
    present. `action` and `detail` go into the audit row. With `keeps_request`, an open request stays open. `approved`:
    a second person has approved the change.
    """

    change: ListChange
    source: str
    who: str
    author: str
    action: str
    records: Sequence[bytes] = ()
    log_version: int | None = None
    comment: str = ""
    expires_at_ms: int | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    at_ms: int | None = None
    keeps_request: bool = False
    approved: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """One record of a change, with its place in the outbox or in the rule log."""

    change: ListChange
    outbox_seq: int | None
    log_version: int | None


def save_list(work: UnitOfWork, new: NewListChange) -> ListHead:
    """Save the next change of a list, or the first change of a new list. Raises Unavailable if too many records wait in
    the outbox.
    """
    name = new.change.name
    head = work.lists.head(name)
    before = work.lists.current(name)
    revision = 1 if head is None else head.revision + 1
    added, removed = _counts(before, new.change)
    entry = work.append_audit(_audit_record(head, revision, new, added, removed))
    parts = _parts(work, revision, new, entry)
    value_type = new.change.type or ListType(head.type if head is not None else ListType.LONG)
    for number, part in enumerate(parts):
        row = _row(work, revision, number, part, new, value_type)
        row.added, row.removed = (added, removed) if number == 0 else (0, 0)
        work.session.add(row)
    work.lists.saved(name, [(replace(part.change, type=value_type), part.log_version) for part in parts])
    _update_request(work, head, revision, new)
    _replace_expiries(work, new)
    head = _updated_head(work, head, revision, new, parts[-1], value_type)
    work.changed.append(RuleChanged(None, revision, name))
    return head


def _replace_expiries(work: UnitOfWork, new: NewListChange) -> None:
    name = new.change.name
    if new.expires_at_ms is None and not work.lists.expires(name):
        return
    replace_expiries(work.session, new.change, new.expires_at_ms)
    if new.expires_at_ms is not None:
        work.lists.saved_expiries(name)


def _update_request(work: UnitOfWork, head: ListHead | None, revision: int, new: NewListChange) -> None:
    """Withdraw the open requests about a list, or let them concern the new revision."""
    if not new.keeps_request:
        withdraw(work, head, new.who)
    elif head is not None and head.approval_id is not None:
        basis = encode_basis({f"list {head.name}": revision})
        changed = {"revision": revision, "basis": basis}
        work.session.execute(update(ApprovalRow).where(ApprovalRow.id == head.approval_id).values(**changed))
    list_changed(work, new.change.name, revision, new.who, keeps_requests=new.keeps_request)


def _parts(work: UnitOfWork, revision: int, new: NewListChange, entry: AuditEntry) -> list[_Part]:
    if new.log_version is not None:
        return [_Part(new.change, None, new.log_version)]
    limits = work.reader.limits
    return [
        _Part(read_list_change(record, limits), send_list_record(work, new.change.name, revision, record, entry), None)
        for record in new.records
    ]


def _row(
    work: UnitOfWork, revision: int, number: int, part: _Part, new: NewListChange, value_type: ListType
) -> ListChangeRow:
    return ListChangeRow(
        name=new.change.name,
        revision=revision,
        part=number,
        operation=new.change.operation.value,
        record_operation=part.change.operation.value,
        type=value_type.value,
        encoded=part.change.encoded,
        expires_at_ms=new.expires_at_ms,
        source=new.source,
        author=new.who,
        content_author=new.author,
        at_ms=work.now_ms if new.at_ms is None else new.at_ms,
        comment=new.comment,
        outbox_seq=part.outbox_seq,
        log_version=part.log_version,
    )


def _updated_head(
    work: UnitOfWork, head: ListHead | None, revision: int, new: NewListChange, last: _Part, value_type: ListType
) -> ListHead:
    after = work.lists.current(new.change.name)
    waiting = head is not None and head.outbox_seq is not None and head.log_version is None
    contributors = _contributors(head, new)
    if head is None:
        head = work.lists.add(new.change.name)
    head.type = (value_type if after is None else after.type).value
    head.deleted, head.size = after is None, 0 if after is None else after.size
    head.revision, head.source, head.updated_by = revision, new.source, new.who
    head.contributors = encode_contributors(contributors)
    head.updated_at_ms = work.now_ms if new.at_ms is None else new.at_ms
    if last.outbox_seq is not None or not waiting:
        newer = last.log_version is None or head.log_version is None or last.log_version > head.log_version
        head.outbox_seq, head.log_version = last.outbox_seq, last.log_version if newer else head.log_version
    return head


def _contributors(head: ListHead | None, new: NewListChange) -> frozenset[str]:
    """The contributors after a change. Like the author of a rule, the author of approved values stays one of them."""
    whole = head is None or head.deleted or (new.approved and new.change.operation is ListOperation.SET)
    return frozenset({new.author}) | (frozenset() if whole or head is None else contributors_of(head))


def _counts(before: ValueList | None, change: ListChange) -> tuple[int, int]:
    """How many values a change adds and removes."""
    size = 0 if before is None else before.size
    if change.operation is ListOperation.DELETE:
        return 0, size
    values = list(set(change.values()))
    same_type = before is not None and before.type is change.type
    listed = before.count_listed(values) if before is not None and (same_type or change.type is None) else 0
    match change.operation:
        case ListOperation.SET:
            return len(values) - listed, size - listed
        case ListOperation.ADD:
            return len(values) - listed, 0
        case _:
            return 0, listed


def _audit_record(head: ListHead | None, revision: int, new: NewListChange, added: int, removed: int) -> AuditRecord:
    """Describe the change by its counts and the digest of its values, because the values may need megabytes."""
    before = None if head is None else {"revision": head.revision, "size": head.size, "deleted": head.deleted}
    after: dict[str, Any] = {
        "revision": revision,
        "operation": new.change.operation.value,
        "added": added,
        "removed": removed,
        "valuesSha256": hashlib.sha256(new.change.encoded).hexdigest(),
    }
    if new.expires_at_ms is not None:
        after["expiresAt"] = new.expires_at_ms
    comment = {"comment": new.comment} if new.comment else {}
    name = new.change.name
    return AuditRecord(new.who, new.action, f"list {name}", before, after | comment | new.detail, list_name=name)
