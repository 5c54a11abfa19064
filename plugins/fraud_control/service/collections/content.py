"""The content of a list: its values. A change of them is one or several records of the rule log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of, encoded
from fraud_control.domain.collection_input import list_change
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.errors import RequestRefused
from fraud_control.domain.item import LIST, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import DriftedCollection
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.expiries import expiries_of, replace_expiries
from fraud_control.service.collections.faults import check_change, check_foreign_change
from fraud_control.service.collections.summary import CollectionSummary, summary_of
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.items.basis import collection_changed, encode_basis
from fraud_control.service.items.contributors import contributors_of
from fraud_control.service.items.heads import in_use
from fraud_control.service.items.kind import Foreign, NewRevision, Sent, Side
from fraud_control.service.items.saving import revision_row
from fraud_control.store.models import ApprovalRow, ItemHead
from fraud_rules.codec.rules.collections.lists import encode_list_records, read_list_change
from fraud_rules.codec.rules.collections.plan import plan_set
from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.value_list import CollectionKind, ListChange, ListOperation, ListValue, ValueList

__all__ = [
    "CollectionContent", "apply", "approved", "described", "equal", "facts", "foreign", "in_log", "in_store", "inherited",
    "log_key", "name_of", "records", "requested", "shown", "with_records",
]  # fmt: skip

_SHOWN_VALUES: Final = 100
_SHOWN_FACTS: Final = ("operation", "added", "removed", "expiresAt")
"""The facts of a change in its revision."""


@dataclass(frozen=True, slots=True)
class CollectionContent:
    """A change of a list, whose values may repeat. `planned` are its records, if others than all its values."""

    change: ListChange
    expires_at_ms: int | None = None
    planned: Sequence[bytes] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the list has no other values afterwards."""
        return self.change.operation is ListOperation.SET


def name_of(content: CollectionContent) -> ItemName:
    """The name of the list."""
    return ItemName.of_list(content.change.name)


def log_key(head: ItemHead) -> bytes:
    """The key of the list's records."""
    return collection_key(CollectionKind.LIST, head.item_key)


def facts(head: ItemHead) -> dict[str, Any]:
    """The number of values."""
    return {"size": summary_of(head).size, "deleted": head.deleted}


def inherited(head: ItemHead) -> frozenset[str]:
    """The contributors of a deleted list leave nothing to a new one with its name."""
    return frozenset() if head.deleted else contributors_of(head)


def described(work: UnitOfWork, content: CollectionContent) -> dict[str, Any]:
    """The counts of a change and the digest of its values, because the values may need megabytes."""
    change = content.change
    added, removed = _counts(work.collections.current(change.name), change)
    found = {
        "operation": change.operation.value,
        "added": added,
        "removed": removed,
        "valuesSha256": hashlib.sha256(change.encoded).hexdigest(),
    }
    return found if content.expires_at_ms is None else found | {"expiresAt": content.expires_at_ms}


def requested(head: ItemHead, content: CollectionContent) -> dict[str, Any]:
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


def approved(work: UnitOfWork, request: ApprovalRow, head: ItemHead) -> CollectionContent | None:
    """The requested change. Raises RequestRefused if its values have expired since."""
    document = document_of(request.document)
    expires_at_ms = document.get("expiresAt")
    if expires_at_ms is not None and expires_at_ms <= work.now_ms:
        raise RequestRefused("the values of this request have expired: reject it")
    values: list[ListValue] = msgspec.json.decode(request.payload or "[]", type=list[int | str])
    collection_input = CollectionInput(ListOperation(document["listOperation"]), tuple(map(str, values)))
    change = list_change(head.item_key, collection_input, summary_of(head).type, SOURCE, work.reader.limits)
    check_change(work, change)
    return with_records(work, CollectionContent(change, expires_at_ms))


def with_records(work: UnitOfWork, content: CollectionContent) -> CollectionContent | None:
    """A change with the records that it needs in the rule log; None for a change without effect."""
    planned = _records(work, content.change, content.expires_at_ms)
    return replace(content, planned=planned) if planned else None


def records(work: UnitOfWork, head: ItemHead, new: NewRevision[CollectionContent]) -> Sequence[bytes]:
    """All parts of the change."""
    if new.content.planned is not None:
        return new.content.planned
    change, most = new.content.change, work.reader.limits.max_list_record_bytes
    return encode_list_records(change.name, change.operation, change.type, change.values(), new.source, most)


def apply(
    work: UnitOfWork,
    head: ItemHead,
    new: NewRevision[CollectionContent],
    sent: Sequence[Sent],
    facts: Mapping[str, Any],
) -> None:
    """Save the records of the change, the expiry of its values, and what follows for open requests."""
    change, waiting = new.content.change, head.outbox_seq is not None and head.log_version is None
    name, value_type = change.name, change.type or summary_of(head).type
    parts = [(change if part is None else read_list_change(part, work.reader.limits), place) for part, place in sent]
    state = StateName.DELETE if change.operation is ListOperation.DELETE else StateName.ACTIVE
    document = encoded({member: facts[member] for member in _SHOWN_FACTS if member in facts})
    for number, (part, place) in enumerate(parts):
        record = {"operation": part.operation.value, "type": value_type.value, "payload": part.encoded}
        work.session.add(revision_row(head, new, place, part=number, state=state.value, document=document, **record))
    work.collections.saved(name, [(replace(part, type=value_type), place.log_version) for part, place in parts])
    _replace_expiries(work, new.content)
    if new.keeps_request and head.approval_id is not None:
        kept = {"revision": head.revision, "basis": encode_basis({str(head): head.revision})}
        work.session.execute(update(ApprovalRow).where(ApprovalRow.id == head.approval_id).values(**kept))
    collection_changed(work, head, new.who, keeps_requests=new.keeps_request)
    after, (outbox_seq, log_version) = work.collections.current(name), parts[-1][1]
    head.state = (StateName.DELETE if after is None else StateName.ACTIVE).value
    head.document = (
        CollectionSummary(value_type, 0) if after is None else CollectionSummary(after.type, after.size)
    ).document
    head.search, head.author = name, new.content_author
    if outbox_seq is not None or not waiting:
        newer = log_version is None or head.log_version is None or log_version > head.log_version
        head.outbox_seq, head.log_version = outbox_seq, log_version if newer else head.log_version
    work.add(head)


def foreign(work: UnitOfWork, entry: LogEntry) -> Foreign:
    """The change of the values."""
    change = entry.change
    assert isinstance(change, ListChange)
    check_foreign_change(work, change, entry.version)
    return Foreign(CollectionContent(change), f"list_{change.operation.value.lower()}")


def in_store(session: Session, contents: CollectionContents) -> dict[str, Side]:
    """The lists after all their records in the rule log."""
    names = session.scalars(select(ItemHead.item_key).where(in_use(LIST)))
    found = {name: contents.published(session, name) for name in names}
    return {name: Side(each.version, each) for name, each in found.items() if each is not None}


def in_log(timeline: RuleTimeline) -> dict[str, Side]:
    """The lists of the rule log."""
    return {name: Side(each.version, each) for name, each in timeline.lists.items()}


def equal(contents: CollectionContents, stored: ValueList, logged: ValueList) -> bool:
    """Whether two lists have the same type and values."""
    return contents.equal(stored, logged)


def shown(side: Side) -> DriftedCollection:
    """The version, the type, and the number and digest of the values."""
    known: ValueList = side.content
    digest = hashlib.sha256(msgspec.json.encode(known.values())).hexdigest()
    return DriftedCollection(version=known.version, type=known.type, size=known.size, values_sha256=digest)


def _replace_expiries(work: UnitOfWork, content: CollectionContent) -> None:
    name = content.change.name
    if content.expires_at_ms is None and not work.collections.expires(name):
        return
    replace_expiries(work.session, content.change, content.expires_at_ms)
    if content.expires_at_ms is not None:
        work.collections.saved_expiries(name)


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


def _records(work: UnitOfWork, change: ListChange, expires_at_ms: int | None) -> list[bytes]:
    """The records of a change for the rule log; none for a change without effect.

    An ADD has also the values that are listed but expire at another time.
    """
    known = work.collections.current(change.name)
    limits = work.reader.limits
    values = change.values()
    if change.operation is ListOperation.DELETE:
        return encode_list_records(change.name, change.operation, None, [], SOURCE, limits.max_list_record_bytes)
    assert change.type is not None  # the type of the list
    if change.operation is ListOperation.SET:
        records = plan_set(known, change.name, change.type, dict.fromkeys(values), SOURCE, limits)
        if records or (expires_at_ms is None and not expiries_of(work.session, change.name, values)):
            return records
        chosen, operation = values, ListOperation.ADD
    else:
        assert known is not None  # checked before
        expiries = expiries_of(work.session, change.name, values)
        adds, operation = change.operation is ListOperation.ADD, change.operation
        chosen = [
            value
            for value in values
            if known.contains(value) is not adds or (adds and expiries.get(str(value)) != expires_at_ms)
        ]
    if not chosen:
        return []
    return encode_list_records(change.name, operation, change.type, chosen, SOURCE, limits.max_list_record_bytes)
