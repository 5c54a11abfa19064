"""The content of a list or map: its values or entries. A change of them is one or several records of the rule log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import msgspec
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of, encoded
from fraud_control.domain.collection_input import collection_change
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.collection_types import item_of, with_type
from fraud_control.domain.errors import RequestRefused
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import DriftedCollection
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.expiries import expiries_of, replace_expiries
from fraud_control.service.collections.faults import check_change, check_foreign_change
from fraud_control.service.collections.summary import CollectionSummary, summary_of, type_of_head
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.items.basis import collection_changed, encode_basis
from fraud_control.service.items.contributors import contributors_of
from fraud_control.service.items.heads import in_use
from fraud_control.service.items.kind import Foreign, NewRevision, Sent, Side
from fraud_control.service.items.saving import revision_row
from fraud_control.store.models import ApprovalRow, ItemHead
from fraud_rules.codec.rules.collections.lines import shown_entry
from fraud_rules.codec.rules.collections.plan import Entries, encode_change, plan_set, read_change
from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.model.collection_history import Collection, CollectionChange
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.value_list import CollectionKind, ListChange, ListOperation, ValueList
from fraud_rules.model.value_map import MapChange

_SHOWN_VALUES: Final = 100
_SHOWN_FACTS: Final = ("operation", "added", "removed", "expiresAt")
"""The facts of a change in its revision."""


@dataclass(frozen=True, slots=True)
class CollectionContent:
    """A change of a list or map. `planned` are its records, if others than all its values."""

    change: CollectionChange
    expires_at_ms: int | None = None
    planned: Sequence[bytes] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the list or map has no other values afterwards."""
        return self.change.operation is ListOperation.SET


def name_of(content: CollectionContent) -> ItemName:
    """The name of the list or map."""
    return item_of(content.change)


def log_key(head: ItemHead) -> bytes:
    """The key of the records of the list or map."""
    return collection_key(head.item.collection_kind, head.item_key)


def facts(head: ItemHead) -> dict[str, Any]:
    """The number of values or entries."""
    return {"size": summary_of(head).size, "deleted": head.deleted}


def inherited(head: ItemHead) -> frozenset[str]:
    """The contributors of a deleted list or map leave nothing to a new one with its name."""
    return frozenset() if head.deleted else contributors_of(head)


def described(work: UnitOfWork, content: CollectionContent) -> dict[str, Any]:
    """The counts of a change and the digest of its values, because the values may need megabytes."""
    change = content.change
    added, removed = _counts(work.collections.current(item_of(change)), change)
    found = {
        "operation": change.operation.value,
        "added": added,
        "removed": removed,
        "valuesSha256": hashlib.sha256(change.encoded).hexdigest(),
    }
    return found if content.expires_at_ms is None else found | {"expiresAt": content.expires_at_ms}


def requested(head: ItemHead, content: CollectionContent) -> dict[str, Any]:
    """The first values for an approver, and all of them for the change."""
    change = content.change
    entries = _entries(change)
    document: dict[str, object] = {
        f"{head.kind}Name": change.name,
        f"{head.kind}Operation": change.operation.value,
        "values": [shown_entry(*each) for each in islice(entries.items(), _SHOWN_VALUES)],
        "count": len(entries),
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
    payload: dict[str, str] | list[int | str] = msgspec.json.decode(request.payload or "[]")
    operation = ListOperation(document[f"{head.kind}Operation"])
    given = CollectionInput(operation, tuple(map(str, payload)))
    if isinstance(payload, dict):
        given = CollectionInput(operation, entries=tuple(payload.items()))
    change = collection_change(head.item, given, type_of_head(head), SOURCE, work.reader.limits)
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
    change = new.content.change
    return encode_change(
        change.kind, change.name, change.operation, change.type, _entries(change), new.source, work.reader.limits
    )


def apply(
    work: UnitOfWork,
    head: ItemHead,
    new: NewRevision[CollectionContent],
    sent: Sequence[Sent],
    facts: Mapping[str, Any],
) -> None:
    """Save the records of the change, the expiry of its values, and what follows for open requests."""
    waiting = head.outbox_seq is not None and head.log_version is None
    item, of_type = head.item, new.content.change.type or type_of_head(head)
    change = with_type(new.content.change, of_type)
    limits = work.reader.limits
    parts = [
        (change if part is None else with_type(read_change(change.kind, part, limits), of_type), place)
        for part, place in sent
    ]
    state = StateName.DELETE if change.operation is ListOperation.DELETE else StateName.ACTIVE
    document = encoded({member: facts[member] for member in _SHOWN_FACTS if member in facts})
    for number, (part, place) in enumerate(parts):
        record = {"operation": part.operation.value, "type": str(of_type), "payload": part.encoded}
        work.session.add(revision_row(head, new, place, part=number, state=state.value, document=document, **record))
    work.collections.saved(item, [(part, place.log_version) for part, place in parts])
    _replace_expiries(work, change, new.content.expires_at_ms)
    if new.keeps_request and head.approval_id is not None:
        kept = {"revision": head.revision, "basis": encode_basis({str(head): head.revision})}
        work.session.execute(update(ApprovalRow).where(ApprovalRow.id == head.approval_id).values(**kept))
    collection_changed(work, head, new.who, keeps_requests=new.keeps_request)
    after, (outbox_seq, log_version) = work.collections.current(item), parts[-1][1]
    head.state = (StateName.DELETE if after is None else StateName.ACTIVE).value
    head.document = CollectionSummary.of(of_type, after).document
    head.search, head.author = item.key, new.content_author
    if outbox_seq is not None or not waiting:
        newer = log_version is None or head.log_version is None or log_version > head.log_version
        head.outbox_seq, head.log_version = outbox_seq, log_version if newer else head.log_version
    work.add(head)


def foreign(work: UnitOfWork, entry: LogEntry) -> Foreign:
    """The change of the values."""
    change = entry.change
    assert isinstance(change, ListChange | MapChange)
    check_foreign_change(work, change, entry.version)
    return Foreign(CollectionContent(change), f"{change.kind}_{change.operation.value.lower()}")


def in_store(session: Session, contents: CollectionContents, kind: str) -> dict[str, Side]:
    """The lists or maps after all their records in the rule log."""
    names = session.scalars(select(ItemHead.item_key).where(in_use(kind)))
    found = {name: contents.published(session, ItemName(kind, name)) for name in names}
    return {name: Side(each.version, each) for name, each in found.items() if each is not None}


def in_log(timeline: RuleTimeline, kind: str) -> dict[str, Side]:
    """The lists or maps of the rule log."""
    known: Mapping[str, Collection] = timeline.lists if kind == CollectionKind.LIST else timeline.maps
    return {name: Side(each.version, each) for name, each in known.items()}


def equal(contents: CollectionContents, stored: Collection, logged: Collection) -> bool:
    """Whether two lists or maps have the same type and content."""
    return contents.equal(stored, logged)


def shown(side: Side) -> DriftedCollection:
    """The version, the type, and the number and digest of the values."""
    known: Collection = side.content
    values = known.values() if isinstance(known, ValueList) else list(known.entries().items())
    digest = hashlib.sha256(msgspec.json.encode(values)).hexdigest()
    return DriftedCollection(version=known.version, type=str(known.type), size=known.size, values_sha256=digest)


def _entries(change: CollectionChange) -> Entries:
    """The values or entries of a change, which names its type if it has any."""
    return {} if change.type is None else change.updates(change.type)  # type: ignore[arg-type]


def _replace_expiries(work: UnitOfWork, change: CollectionChange, expires_at_ms: int | None) -> None:
    item = item_of(change)
    if expires_at_ms is None and not work.collections.expires(item):
        return
    replace_expiries(work.session, change, expires_at_ms)
    if expires_at_ms is not None:
        work.collections.saved_expiries(item)


def _counts(before: Collection | None, change: CollectionChange) -> tuple[int, int]:
    """How many values or entries a change adds and removes. A key with another value counts twice."""
    size = 0 if before is None else before.size
    if change.operation is ListOperation.DELETE:
        return 0, size
    if before is not None and change.type is not None and change.type != before.type:
        before = None  # nothing stays
    of_type = change.type if before is None else before.type
    entries: Entries = {} if of_type is None else change.updates(of_type)  # type: ignore[arg-type]
    listed, same = _listed(before, entries)
    match change.operation:
        case ListOperation.SET:
            return len(entries) - same, size - same
        case ListOperation.ADD:
            return len(entries) - same, listed - same
        case _:
            return 0, listed


def _listed(before: Collection | None, entries: Entries) -> tuple[int, int]:
    """How many of the members a list or map has, and how many of them with the same value."""
    if before is None:
        return 0, 0
    members = list(entries)
    if isinstance(before, ValueList):
        listed = before.count_listed(members)
        return listed, listed
    found = before.values_of(members)
    return len(found), sum(entries[key] == value for key, value in found.items())


def _records(work: UnitOfWork, change: CollectionChange, expires_at_ms: int | None) -> list[bytes]:
    """The records of a change for the rule log; none for a change without effect.

    An ADD has also the values that are listed but expire at another time.
    """
    item, limits, operation = item_of(change), work.reader.limits, change.operation
    kind, name, of_type = change.kind, change.name, change.type
    known, entries = work.collections.current(item), _entries(change)
    if operation is ListOperation.DELETE:
        return encode_change(kind, name, operation, None, {}, SOURCE, limits)
    assert of_type is not None  # the type of the list or map
    if operation is ListOperation.SET:
        records = plan_set(known, name, of_type, entries, SOURCE, limits)
        if records or (expires_at_ms is None and not expiries_of(work.session, item, entries)):
            return records
        operation = ListOperation.ADD
    else:
        assert known is not None  # checked before
        entries = _changed(known, operation, entries, expiries_of(work.session, item, entries), expires_at_ms)
    return encode_change(kind, name, operation, of_type, entries, SOURCE, limits) if entries else []


def _changed(
    known: Collection,
    operation: ListOperation,
    entries: Entries,
    expiries: Mapping[str, int],
    expires_at_ms: int | None,
) -> Entries:
    """The entries of an ADD or REMOVE that change the list or map, or the time at which they leave it."""
    before: Entries = known.values_of(list(entries))
    if operation is ListOperation.REMOVE:
        return {key: value for key, value in entries.items() if key in before}
    return {
        key: value
        for key, value in entries.items()
        if key not in before or before[key] != value or expiries.get(str(key)) != expires_at_ms
    }
