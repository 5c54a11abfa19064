"""Applies the changes of an external table of list values, in Debezium's format.

A row has the columns `list_name` and `value`, and optionally `list_type` and `expires_at` (epoch ms); camelCase is
accepted too, and further columns do not count. An inserted row adds its value, and the first row of a list creates the
list with the type `list_type`, or else with the type of the value. A deleted row removes its value. An updated row
removes the value before and adds the value after; the table must send the row before an update (Postgres: REPLICA
IDENTITY FULL). Consecutive rows that are read together share list records. The table changes only lists that came from
it: a list that a user has edited in the control plane belongs to the control plane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fraud_control.domain.collection_types import item_of
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
from fraud_rules.codec.rules.collections.lists import read_list_change
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ListValue

__all__ = ["TableRow", "apply_list_rows", "is_list_row"]

_COLUMNS: Final = ("listName", "listType", "value", "expiresAt")
_LATEST_EXPIRY_MS: Final = 4_102_444_800_000
"""The start of 2100. A later time is a number of microseconds."""


def is_list_row(row: object) -> bool:
    """Whether a row belongs to a table of list values."""
    return isinstance(row, dict) and any(plain_name(column) == "listname" for column in row)


@dataclass(frozen=True, slots=True)
class TableRow:
    """A change of the table: the row before and after it, and the offset of its record."""

    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    offset: int


@dataclass(frozen=True, slots=True)
class _Step:
    """A change of one value. `members` are those of its row."""

    operation: ListOperation
    members: Mapping[str, Any]
    expires_at_ms: int | None
    offset: int

    def follows(self, other: _Step) -> bool:
        """Whether one list record can have the values of both."""
        alike = all(self.members.get(name) == other.members.get(name) for name in ("listName", "listType"))
        return alike and (self.operation, self.expires_at_ms) == (other.operation, other.expires_at_ms)


def apply_list_rows(work: UnitOfWork, rows: Sequence[TableRow], source: str) -> None:
    """Apply consecutive changes of the table with few list records, because each record stays in the rule log for ever.

    Of several changes of a value, the last one counts. Raises RuleRejected for a row that cannot be applied.
    """
    pending: dict[tuple[str, type, ListValue], _Step] = {}
    for row in rows:
        for operation, members in _operations(row):
            change = _change(work, operation, [members.get("value")], members, source)
            expires_at_ms = None if operation is ListOperation.REMOVE else _expiry(members, change)
            step = _Step(operation, members, expires_at_ms, row.offset)
            if change.operation is ListOperation.SET:
                _apply(work, [step], source)  # the first value creates the list
                continue
            (value,) = change.values()
            key = change.name, type(value), value
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
    kind = str(step.members.get("listType") or "")
    return step.members["listName"], step.operation is ListOperation.ADD, step.expires_at_ms or 0, kind


def _operations(row: TableRow) -> Iterator[tuple[ListOperation, Mapping[str, Any]]]:
    old, new = _members(row.before), _members(row.after)
    same = old is not None and new is not None and all(old.get(name) == new.get(name) for name in ("listName", "value"))
    if old is not None and not same:
        yield ListOperation.REMOVE, old
    if new is not None:
        yield ListOperation.ADD, new


def _apply(work: UnitOfWork, steps: Sequence[_Step], source: str) -> None:
    """Apply steps that one record can have. Nothing is written for values that the list has, or lacks, already."""
    first = steps[0]
    change = _change(work, first.operation, [step.members.get("value") for step in steps], first.members, source)
    head = work.head(ItemName.of_list(change.name))
    if head is not None and not head.deleted and head.source != source:
        raise RuleRejected([Reason("listName", f"belongs to {head.source}")], list_name=change.name)
    if first.operation is ListOperation.REMOVE and (head is None or head.deleted):
        return  # a deleted list has no values
    values = _changed_values(work, change, first)
    if not values:
        return
    change = _change(work, first.operation, values, first.members, source)
    check_change(work, change)
    new = NewRevision(
        CollectionContent(change, first.expires_at_ms), system_author(source), "cdc.list", "from the table of lists",
        source=source, detail={"offset": first.offset},
    )  # fmt: skip
    save(work, collections, head, new)


def _changed_values(work: UnitOfWork, change: ListChange, step: _Step) -> list[ListValue]:
    """The values that the step changes: a table sends all its rows again at a snapshot."""
    current, values = work.collections.current(item_of(change)), change.values()
    if current is None:
        return values if step.operation is ListOperation.ADD else []
    if step.operation is ListOperation.REMOVE:
        return [value for value in values if current.contains(value)]
    expiries = expiries_of(work.session, item_of(change), values)
    return [
        value for value in values if not (current.contains(value) and expiries.get(str(value)) == step.expires_at_ms)
    ]


def _change(
    work: UnitOfWork, operation: ListOperation, values: Sequence[Any], row: Mapping[str, Any], source: str
) -> ListChange:
    """The change of some values: a SET for the first value of a list. Raises RuleRejected with all reasons."""
    if UNCHANGED in values:
        raise RuleRejected([Reason("value", "is missing: the table sent a placeholder for it")])
    name = row.get("listName")
    head = work.head(ItemName.of_list(name)) if isinstance(name, str) else None
    missing = head is None or head.deleted
    document: dict[str, Any] = {"listName": name, "listOperation": operation.value, "source": source}
    if operation is ListOperation.ADD and missing:
        document["listOperation"] = ListOperation.SET.value
        document["listType"] = ListType.STRING.value if isinstance(values[0], str) else ListType.LONG.value
    if row.get("listType") is not None:
        document["listType"] = row["listType"]
    document["values"] = values
    return read_list_change(msgspec.json.encode(document), work.reader.limits)


def _expiry(row: Mapping[str, Any], change: ListChange) -> int | None:
    expires_at_ms = row.get("expiresAt")
    if expires_at_ms is None:
        return None
    if type(expires_at_ms) is not int or not 0 <= expires_at_ms <= _LATEST_EXPIRY_MS:
        reason = "must be epoch milliseconds before 2100 (Debezium: time.precision.mode: connect)"
        raise RuleRejected([Reason("expiresAt", reason)], list_name=change.name)
    return expires_at_ms


def _members(row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if row is None else members_in(row, _COLUMNS)
