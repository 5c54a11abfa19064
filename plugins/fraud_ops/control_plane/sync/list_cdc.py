"""Applies the changes of an external table of list values, in Debezium's format.

A row has the columns `list_name` and `value`, and optionally `list_type` and `expires_at` (epoch ms); camelCase is
accepted too, and further columns do not count. An inserted row adds its value, and the first row of a list creates the
list with the type `list_type`, or else with the type of the value. A deleted row removes its value. An updated row
removes the value before and adds the value after; the table must send the row before an update (Postgres: REPLICA
IDENTITY FULL). The table changes only lists that came from it: a list that a user has edited in the control plane
belongs to the control plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fraud_ops.control_plane.domain.roles import system_author
from fraud_ops.control_plane.service.changes import UnitOfWork
from fraud_ops.control_plane.service.lists.changes import NewListChange, save_list
from fraud_ops.control_plane.service.lists.expiries import expiries_of
from fraud_ops.control_plane.sync.table_columns import UNCHANGED, members_in, plain_name
from fraud_rules.codec.rules.lists import encode_list_records, read_list_change
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.list_history import change_faults
from fraud_rules.model.value_list import ListChange, ListOperation, ListType

__all__ = ["apply_list_row", "is_list_row"]

_COLUMNS: Final = ("listName", "listType", "value", "expiresAt")
_LATEST_EXPIRY_MS: Final = 4_102_444_800_000
"""The start of 2100. A later time is a number of microseconds."""


def is_list_row(row: object) -> bool:
    """Whether a row belongs to a table of list values."""
    return isinstance(row, dict) and any(plain_name(column) == "listname" for column in row)


def apply_list_row(
    work: UnitOfWork, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, source: str, offset: int
) -> None:
    """Apply one change of the table. Raises RuleRejected for a row that cannot be applied."""
    old, new = _members(before), _members(after)
    same = old is not None and new is not None and all(old.get(name) == new.get(name) for name in ("listName", "value"))
    if old is not None and not same:
        _apply(work, ListOperation.REMOVE, old, source, offset)
    if new is not None:
        _apply(work, ListOperation.ADD, new, source, offset)


def _apply(work: UnitOfWork, operation: ListOperation, row: Mapping[str, Any], source: str, offset: int) -> None:
    change = _change(work, operation, row, source)
    head = work.lists.head(change.name)
    if head is not None and not head.deleted and head.source != source:
        raise RuleRejected([Reason("listName", f"belongs to {head.source}")], list_name=change.name)
    known = None if head is None or head.deleted else ListType(head.type)
    if operation is ListOperation.REMOVE and known is None:
        return  # a deleted list has no values
    current = work.lists.current(change.name)
    value, expires_at_ms = change.values()[0], _expiry(row, change)
    listed = current is not None and current.contains(value)
    if operation is ListOperation.REMOVE and not listed:
        return
    expiry_ms = expiries_of(work.session, change.name, [value]).get(str(value))
    if operation is ListOperation.ADD and listed and expiry_ms == expires_at_ms:
        return  # a table sends all its rows again at a snapshot
    faults = change_faults(change, known, work.lists.count(), ())
    limits = work.reader.limits
    if current is not None and operation is ListOperation.ADD and current.size >= limits.max_list_values:
        faults = [Reason("value", f"the list has {current.size} values, the highest number allowed")]
    if faults:
        raise RuleRejected(faults, list_name=change.name)
    records = encode_list_records(
        change.name, change.operation, change.type, [value], source, limits.max_list_record_bytes
    )
    save_list(
        work,
        NewListChange(
            change=change,
            source=source,
            who=system_author(source),
            author=system_author(source),
            action="cdc.list",
            records=records,
            comment="from the table of lists",
            expires_at_ms=expires_at_ms,
            detail={"offset": offset},
        ),
    )


def _change(work: UnitOfWork, operation: ListOperation, row: Mapping[str, Any], source: str) -> ListChange:
    """The change of one row: a SET for the first value of a list. Raises RuleRejected with all reasons."""
    if row.get("value") == UNCHANGED:
        raise RuleRejected([Reason("value", "is missing: the table sent a placeholder for it")])
    name = row.get("listName")
    head = work.lists.head(name) if isinstance(name, str) else None
    missing = head is None or head.deleted
    document: dict[str, Any] = {"listName": name, "listOperation": operation.value, "source": source}
    if operation is ListOperation.ADD and missing:
        document["listOperation"] = ListOperation.SET.value
        document["listType"] = ListType.STRING.value if isinstance(row.get("value"), str) else ListType.LONG.value
    if row.get("listType") is not None:
        document["listType"] = row["listType"]
    document["values"] = [row.get("value")]
    return read_list_change(msgspec.json.encode(document), work.reader.limits)


def _expiry(row: Mapping[str, Any], change: ListChange) -> int | None:
    expires_at_ms = row.get("expiresAt")
    if expires_at_ms is None or change.operation is ListOperation.REMOVE:
        return None
    if type(expires_at_ms) is not int or not 0 <= expires_at_ms <= _LATEST_EXPIRY_MS:
        reason = "must be epoch milliseconds before 2100 (Debezium: time.precision.mode: connect)"
        raise RuleRejected([Reason("expiresAt", reason)], list_name=change.name)
    return expires_at_ms


def _members(row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if row is None else members_in(row, _COLUMNS)
