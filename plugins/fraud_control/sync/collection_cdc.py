"""Applies the changes of an external table of list values or map entries, in Debezium's format.

A row of a list has the columns `list_name` and `value`, and optionally `list_type` and `expires_at` (epoch ms); a row
of a map has `map_name`, `key` and `value`, and optionally `key_type`, `value_type` and `expires_at`. camelCase is
accepted too, and further columns do not count. An inserted row adds its value or entry, and the first row of a list or
map creates it with the types of the row, or else with those of its values. A deleted row removes its value or key. An
updated row removes the value before and adds the value after; the table must send the row before an update (Postgres:
REPLICA IDENTITY FULL). Consecutive rows that are read together share records. The table changes only lists and maps
that came from it: one that a user has edited in the control plane belongs to the control plane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fraud_control.domain.collection_types import item_of, with_type
from fraud_control.domain.item import ItemName
from fraud_control.domain.roles import system_author
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections import content as collections
from fraud_control.service.collections.content import CollectionContent
from fraud_control.service.collections.expiries import expiries_of
from fraud_control.service.collections.faults import check_change
from fraud_control.service.items.kind import NewRevision
from fraud_control.service.items.saving import save
from fraud_control.sync.table_columns import UNCHANGED, members_in, plain_name
from fraud_rules.codec.rules.collections.plan import Entries, read_change
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.collection_history import CollectionChange
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from fraud_rules.model.value_map import MapValueType

_COLUMNS: Final[Mapping[CollectionKind, tuple[str, ...]]] = {
    CollectionKind.LIST: ("listName", "listType", "value", "expiresAt"),
    CollectionKind.MAP: ("mapName", "keyType", "valueType", "key", "value", "expiresAt"),
}
_TYPES: Final[Mapping[CollectionKind, tuple[str, ...]]] = {
    CollectionKind.LIST: ("listType",),
    CollectionKind.MAP: ("keyType", "valueType"),
}
_LATEST_EXPIRY_MS: Final = 4_102_444_800_000
"""The start of 2100. A later time is a number of microseconds."""


def is_collection_row(row: object) -> bool:
    """Whether a row belongs to a table of list values or map entries."""
    return isinstance(row, dict) and any(plain_name(column) in ("listname", "mapname") for column in row)


@dataclass(frozen=True, slots=True)
class TableRow:
    """A change of the table: the row before and after it, and the offset of its record."""

    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    offset: int


@dataclass(frozen=True, slots=True)
class _Step:
    """A change of one value or entry. `members` are those of its row."""

    kind: CollectionKind
    operation: ListOperation
    members: Mapping[str, Any]
    expires_at_ms: int | None
    offset: int

    def follows(self, other: _Step) -> bool:
        """Whether one record can have the values of both."""
        names = (f"{self.kind}Name", *_TYPES[self.kind])
        alike = self.kind is other.kind and all(self.members.get(each) == other.members.get(each) for each in names)
        return alike and (self.operation, self.expires_at_ms) == (other.operation, other.expires_at_ms)


def apply_collection_rows(work: UnitOfWork, rows: Sequence[TableRow], source: str) -> None:
    """Apply consecutive changes of the table with few records, because each record stays in the rule log for ever.

    Of several changes of a value or key, the last one counts. Raises RuleRejected for a row that cannot be applied.
    """
    pending: dict[tuple[ItemName, type, object], _Step] = {}
    for row in rows:
        for kind, operation, members in _operations(row):
            change = _change(work, kind, operation, [members], source)
            expires_at_ms = None if operation is ListOperation.REMOVE else _expiry(members, change)
            step = _Step(kind, operation, members, expires_at_ms, row.offset)
            if change.operation is ListOperation.SET:
                _apply(work, [step], source)  # the first value creates the list or map
                continue
            member = members.get(_member_of(kind))
            member = member if kind is CollectionKind.LIST else _text_of(member)
            key = item_of(change), type(member), member
            pending.pop(key, None)
            pending[key] = step
    steps = sorted(pending.values(), key=_place)
    start = 0
    for end in range(1, len(steps) + 1):
        if end == len(steps) or not steps[end].follows(steps[start]):
            _apply(work, steps[start:end], source)
            start = end


def _place(step: _Step) -> tuple[object, ...]:
    """Removals come first, so that they make room. The sort is stable, so values stay in the order of the table."""
    types = [str(step.members.get(each) or "") for each in _TYPES[step.kind]]
    name = step.members[f"{step.kind}Name"]
    return step.kind, name, step.operation is ListOperation.ADD, step.expires_at_ms or 0, types


def _operations(row: TableRow) -> Iterator[tuple[CollectionKind, ListOperation, Mapping[str, Any]]]:
    columns = {plain_name(column) for column in row.after or row.before or ()}
    kind = CollectionKind.MAP if "mapname" in columns else CollectionKind.LIST
    old, new = (None if each is None else members_in(each, _COLUMNS[kind]) for each in (row.before, row.after))
    names = (f"{kind}Name", _member_of(kind))
    same = old is not None and new is not None and all(old.get(name) == new.get(name) for name in names)
    if old is not None and not same:
        yield kind, ListOperation.REMOVE, old
    if new is not None:
        yield kind, ListOperation.ADD, new


def _member_of(kind: CollectionKind) -> str:
    """The column with the value of a list, or the key of a map."""
    return "value" if kind is CollectionKind.LIST else "key"


def _apply(work: UnitOfWork, steps: Sequence[_Step], source: str) -> None:
    """Apply steps that one record can have. Nothing is written for values that are there, or missing, already."""
    first = steps[0]
    change = _change(work, first.kind, first.operation, [step.members for step in steps], source)
    item = item_of(change)
    head = work.head(item)
    if head is not None and not head.deleted and head.source != source:
        reasons = [Reason(f"{item.kind}Name", f"belongs to {head.source}")]
        raise RuleRejected(reasons, list_name=item.list_name, map_name=item.map_name)
    if first.operation is ListOperation.REMOVE and (head is None or head.deleted):
        return  # a deleted list or map has no values
    changed = _changed_steps(work, change, steps)
    if not changed:
        return
    change = _change(work, first.kind, first.operation, [step.members for step in changed], source)
    check_change(work, change)
    current = work.collections.current(item)
    if change.type is None and current is not None:  # the values fit several types
        change = with_type(change, current.type)
    new = NewRevision(
        CollectionContent(change, first.expires_at_ms), system_author(source), f"cdc.{item.kind}",
        f"from the table of {item.kind}s", source=source, detail={"offset": first.offset},
    )  # fmt: skip
    save(work, collections, head, new)


def _changed_steps(work: UnitOfWork, change: CollectionChange, steps: Sequence[_Step]) -> Sequence[_Step]:
    """The steps that change something: a table sends all its rows again at a snapshot."""
    item, removes = item_of(change), steps[0].operation is ListOperation.REMOVE
    current = work.collections.current(item)
    if current is None:
        return () if removes else steps
    if change.type_faults(current.type):  # type: ignore[arg-type]
        return steps  # the check of the change rejects them
    entries: Entries = change.updates(current.type)  # type: ignore[arg-type]
    before: Entries = current.values_of(list(entries))
    placed = zip(steps, entries.items(), strict=True)
    if removes:
        return [step for step, (member, _) in placed if member in before]
    expiries = expiries_of(work.session, item, entries)
    return [
        step
        for step, (member, value) in placed
        if member not in before or before[member] != value or expiries.get(str(member)) != step.expires_at_ms
    ]


def _change(
    work: UnitOfWork,
    kind: CollectionKind,
    operation: ListOperation,
    rows: Sequence[Mapping[str, Any]],
    source: str,
) -> CollectionChange:
    """The change of some rows: a SET for the first row of a list or map. Raises RuleRejected with all reasons."""
    first = rows[0]
    columns = {_member_of(kind)} if operation is ListOperation.REMOVE else {_member_of(kind), "value"}
    for column in sorted(columns):
        if UNCHANGED in [row.get(column) for row in rows]:
            raise RuleRejected([Reason(column, "is missing: the table sent a placeholder for it")])
    name = first.get(f"{kind}Name")
    head = work.head(ItemName(kind.value, name)) if isinstance(name, str) else None
    missing = head is None or head.deleted
    document: dict[str, Any] = {f"{kind}Name": name, f"{kind}Operation": operation.value, "source": source}
    if operation is ListOperation.ADD and missing:
        document[f"{kind}Operation"] = ListOperation.SET.value
        document |= _types_of(kind, first)
    document |= {each: first[each] for each in _TYPES[kind] if first.get(each) is not None}
    if kind is CollectionKind.LIST:
        document["values"] = [row.get("value") for row in rows]
    elif operation is ListOperation.REMOVE:
        document["keys"] = [row.get("key") for row in rows]
    else:
        document["entries"] = {_text_of(row.get("key")): row.get("value") for row in rows}
    return read_change(kind, msgspec.json.encode(document), work.reader.limits)


def _types_of(kind: CollectionKind, row: Mapping[str, Any]) -> dict[str, str]:
    """The types that the values of a row show."""
    member_type = (ListType.STRING if isinstance(row.get(_member_of(kind)), str) else ListType.LONG).value
    if kind is CollectionKind.LIST:
        return {"listType": member_type}
    value_type = MapValueType.STRING if isinstance(row.get("value"), str) else MapValueType.DECIMAL
    return {"keyType": member_type, "valueType": value_type.value}


def _text_of(key: object) -> str:
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()


def _expiry(row: Mapping[str, Any], change: CollectionChange) -> int | None:
    expires_at_ms = row.get("expiresAt")
    if expires_at_ms is None:
        return None
    if type(expires_at_ms) is not int or not 0 <= expires_at_ms <= _LATEST_EXPIRY_MS:
        reasons = [
            Reason("expiresAt", "must be epoch milliseconds before 2100 (Debezium: time.precision.mode: connect)")
        ]
        item = item_of(change)
        raise RuleRejected(reasons, list_name=item.list_name, map_name=item.map_name)
    return expires_at_ms
