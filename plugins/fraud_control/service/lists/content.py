"""The content of a list: its values. A change of them is one or several records of the rule log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import update

from fraud_control.domain.canonical import encoded
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.basis import encode_basis, list_changed
from fraud_control.service.items.contributors import contributors_of
from fraud_control.service.items.kind import NewRevision, Place, Sent
from fraud_control.service.lists.expiries import replace_expiries
from fraud_control.store.models import ApprovalRow, ListChangeRow, ListHead
from fraud_rules.codec.rules.lists import encode_list_records, list_key, read_list_change
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ValueList

__all__ = ["ListContent", "apply", "described", "facts", "head_of", "inherited", "key_of", "records", "requested"]

_SHOWN_VALUES: Final = 100


@dataclass(frozen=True, slots=True)
class ListContent:
    """A change of a list, whose values may repeat. `planned` are its records, if others than all its values."""

    change: ListChange
    expires_at_ms: int | None = None
    planned: Sequence[bytes] | None = None


def head_of(content: ListContent) -> ListHead:
    """The head of a new list."""
    return ListHead(name=content.change.name, type=(content.change.type or ListType.LONG).value)


def key_of(head: ListHead) -> bytes:
    """The key of the list's records."""
    return list_key(head.name)


def facts(head: ListHead) -> dict[str, Any]:
    """The number of values."""
    return {"size": head.size, "deleted": head.deleted}


def inherited(head: ListHead) -> frozenset[str]:
    """The contributors of a deleted list leave nothing to a new one with its name."""
    return frozenset() if head.deleted else contributors_of(head)


def described(work: UnitOfWork, content: ListContent) -> dict[str, Any]:
    """The counts of a change and the digest of its values, because the values may need megabytes."""
    change = content.change
    added, removed = _counts(work.lists.current(change.name), change)
    found = {
        "operation": change.operation.value,
        "added": added,
        "removed": removed,
        "valuesSha256": hashlib.sha256(change.encoded).hexdigest(),
    }
    return found if content.expires_at_ms is None else found | {"expiresAt": content.expires_at_ms}


def requested(head: ListHead, content: ListContent) -> dict[str, Any]:
    """The first values for an approver, and all of them for the change."""
    change, values = content.change, content.change.values()
    document: dict[str, object] = {
        "listName": change.name,
        "listOperation": change.operation.value,
        "values": [str(value) for value in values[:_SHOWN_VALUES]],
        "count": len(values),
    }
    if content.expires_at_ms is not None:
        document["expiresAt"] = content.expires_at_ms
    return {"document": encoded(document), "payload": change.encoded.decode()}


def records(work: UnitOfWork, head: ListHead, new: NewRevision[ListContent]) -> Sequence[bytes]:
    """All parts of the change."""
    if new.content.planned is not None:
        return new.content.planned
    change, most = new.content.change, work.reader.limits.max_list_record_bytes
    return encode_list_records(change.name, change.operation, change.type, change.values(), new.source, most)


def apply(
    work: UnitOfWork, head: ListHead, new: NewRevision[ListContent], sent: Sequence[Sent], facts: Mapping[str, Any]
) -> None:
    """Save the records of the change, the expiry of its values, and what follows for open requests."""
    change, waiting = new.content.change, head.outbox_seq is not None and head.log_version is None
    head.type = head.type if change.type is None else change.type.value
    parts = [(change if part is None else read_list_change(part, work.reader.limits), place) for part, place in sent]
    for number, (part, place) in enumerate(parts):
        row = _row(head, new, part, place)
        row.part, row.added, row.removed = number, 0, 0
        work.session.add(row)
        if number == 0:
            row.added, row.removed = facts["added"], facts["removed"]
    value_type = ListType(head.type)
    work.lists.saved(head.name, [(replace(part, type=value_type), place.log_version) for part, place in parts])
    _replace_expiries(work, new.content)
    if new.keeps_request and head.approval_id is not None:
        kept = {"revision": head.revision, "basis": encode_basis({str(head): head.revision})}
        work.session.execute(update(ApprovalRow).where(ApprovalRow.id == head.approval_id).values(**kept))
    list_changed(work, head, new.who, keeps_requests=new.keeps_request)
    after, (outbox_seq, log_version) = work.lists.current(head.name), parts[-1][1]
    head.type = head.type if after is None else after.type.value
    head.deleted, head.size = after is None, 0 if after is None else after.size
    if outbox_seq is not None or not waiting:
        newer = log_version is None or head.log_version is None or log_version > head.log_version
        head.outbox_seq, head.log_version = outbox_seq, log_version if newer else head.log_version
    work.lists.add(head)


def _row(head: ListHead, new: NewRevision[ListContent], part: ListChange, place: Place) -> ListChangeRow:
    return ListChangeRow(
        name=head.name,
        revision=head.revision,
        operation=new.content.change.operation.value,
        record_operation=part.operation.value,
        type=head.type,
        encoded=part.encoded,
        expires_at_ms=new.content.expires_at_ms,
        source=new.source,
        author=new.who,
        content_author=new.content_author,
        at_ms=head.updated_at_ms,
        comment=new.comment,
        outbox_seq=place.outbox_seq,
        log_version=place.log_version,
    )


def _replace_expiries(work: UnitOfWork, content: ListContent) -> None:
    name = content.change.name
    if content.expires_at_ms is None and not work.lists.expires(name):
        return
    replace_expiries(work.session, content.change, content.expires_at_ms)
    if content.expires_at_ms is not None:
        work.lists.saved_expiries(name)


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
