"""The times at which values leave their lists. The last change of a value decides whether it expires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from fraud_control.domain.item import LIST, ItemName
from fraud_control.service.ids import batches
from fraud_control.store.models import ExpiryRow
from fraud_rules.model.value_list import ListChange, ListOperation, ListValue

__all__ = ["due_values", "expiries_of", "expiry_counts", "replace_expiries"]


def replace_expiries(session: Session, change: ListChange, expires_at_ms: int | None) -> None:
    """Update the expiries of a list for a change of its values."""
    of_list = ExpiryRow.concerns(ItemName.of_list(change.name))
    stored = session.scalar(select(ExpiryRow.value).where(of_list).limit(1)) is not None
    whole = change.operation in (ListOperation.SET, ListOperation.DELETE)
    if stored and whole:
        session.execute(delete(ExpiryRow).where(of_list))
    if (not stored or whole) and expires_at_ms is None:
        return
    values = list(dict.fromkeys(map(str, change.values())))
    if stored and not whole:
        for some in batches(values):
            session.execute(delete(ExpiryRow).where(of_list, ExpiryRow.value.in_(some)))
    if expires_at_ms is not None and change.operation in (ListOperation.SET, ListOperation.ADD) and values:
        row = {"kind": LIST, "item_key": change.name, "at_ms": expires_at_ms}
        session.execute(insert(ExpiryRow), [{**row, "value": value} for value in values])


def expiries_of(session: Session, name: str, values: Iterable[ListValue]) -> Mapping[str, int]:
    """The times at which some of these values leave a list, by the value's text."""
    found: dict[str, int] = {}
    for some in batches(list(map(str, values))):
        wanted = ExpiryRow.concerns(ItemName.of_list(name)), ExpiryRow.value.in_(some)
        found |= {row.value: row.at_ms for row in session.scalars(select(ExpiryRow).where(*wanted))}
    return found


def expiry_counts(session: Session) -> Mapping[str, tuple[int, int]]:
    """For each list with values that expire: their number, and the time of the first, by the list's name."""
    counted = select(ExpiryRow.item_key, func.count(), func.min(ExpiryRow.at_ms)).where(ExpiryRow.kind == LIST)
    return {name: (count, first) for name, count, first in session.execute(counted.group_by(ExpiryRow.item_key))}


def due_values(session: Session, now_ms: int, most: int) -> Mapping[str, Sequence[str]]:
    """At most `most` values whose time has come, as texts, by the list's name."""
    due = select(ExpiryRow.item_key, ExpiryRow.value).where(ExpiryRow.kind == LIST, ExpiryRow.at_ms <= now_ms)
    found: dict[str, list[str]] = {}
    for name, value in session.execute(due.order_by(ExpiryRow.at_ms).limit(most)):
        found.setdefault(name, []).append(value)
    return found
