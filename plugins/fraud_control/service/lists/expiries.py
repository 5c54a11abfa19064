"""The times at which values leave their lists. The last change of a value decides whether it expires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from fraud_control.service.ids import batches
from fraud_control.store.models import ListExpiry
from fraud_rules.model.value_list import ListChange, ListOperation, ListValue

__all__ = ["due_values", "expiries_of", "expiry_counts", "replace_expiries"]


def replace_expiries(session: Session, change: ListChange, expires_at_ms: int | None) -> None:
    """Update the expiries of a list for a change of its values."""
    stored = session.scalar(select(ListExpiry.name).where(ListExpiry.name == change.name).limit(1)) is not None
    whole = change.operation in (ListOperation.SET, ListOperation.DELETE)
    if stored and whole:
        session.execute(delete(ListExpiry).where(ListExpiry.name == change.name))
    if (not stored or whole) and expires_at_ms is None:
        return
    values = list(dict.fromkeys(map(str, change.values())))
    if stored and not whole:
        for some in batches(values):
            session.execute(delete(ListExpiry).where(ListExpiry.name == change.name, ListExpiry.value.in_(some)))
    if expires_at_ms is not None and change.operation in (ListOperation.SET, ListOperation.ADD) and values:
        rows = [{"name": change.name, "value": value, "at_ms": expires_at_ms} for value in values]
        session.execute(insert(ListExpiry), rows)


def expiries_of(session: Session, name: str, values: Iterable[ListValue]) -> Mapping[str, int]:
    """The times at which some of these values leave a list, by the value's text."""
    found: dict[str, int] = {}
    for some in batches(list(map(str, values))):
        wanted = ListExpiry.name == name, ListExpiry.value.in_(some)
        found |= {row.value: row.at_ms for row in session.scalars(select(ListExpiry).where(*wanted))}
    return found


def expiry_counts(session: Session) -> Mapping[str, tuple[int, int]]:
    """For each list with values that expire: their number, and the time of the first, by the list's name."""
    counted = select(ListExpiry.name, func.count(), func.min(ListExpiry.at_ms)).group_by(ListExpiry.name)
    return {name: (count, first_ms) for name, count, first_ms in session.execute(counted)}


def due_values(session: Session, now_ms: int, most: int) -> Mapping[str, Sequence[str]]:
    """At most `most` values whose time has come, as texts, by the list's name."""
    due = select(ListExpiry.name, ListExpiry.value).where(ListExpiry.at_ms <= now_ms).order_by(ListExpiry.at_ms)
    found: dict[str, list[str]] = {}
    for name, value in session.execute(due.limit(most)):
        found.setdefault(name, []).append(value)
    return found
