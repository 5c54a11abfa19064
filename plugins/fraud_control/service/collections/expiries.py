"""The times at which values leave their lists, and keys their maps. The last change of one decides when it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from fraud_control.domain.collection_types import item_of
from fraud_control.domain.item import LIST, MAP, ItemName
from fraud_control.service.ids import batches
from fraud_control.store.models import ExpiryRow
from fraud_rules.model.collection_history import CollectionChange
from fraud_rules.model.value_list import ListOperation, ListValue


def replace_expiries(session: Session, change: CollectionChange, expires_at_ms: int | None) -> None:
    """Update the expiries of a list or map for a change of it, which names its type unless it is a DELETE."""
    item = item_of(change)
    of_item = ExpiryRow.concerns(item)
    stored = session.scalar(select(ExpiryRow.value).where(of_item).limit(1)) is not None
    whole = change.operation in (ListOperation.SET, ListOperation.DELETE)
    if stored and whole:
        session.execute(delete(ExpiryRow).where(of_item))
    if (not stored or whole) and expires_at_ms is None:
        return
    values = [] if change.type is None else list(map(str, change.updates(change.type)))  # type: ignore[arg-type]
    if stored and not whole:
        for some in batches(values):
            session.execute(delete(ExpiryRow).where(of_item, ExpiryRow.value.in_(some)))
    if expires_at_ms is not None and change.operation in (ListOperation.SET, ListOperation.ADD) and values:
        row = {"kind": item.kind, "item_key": item.key, "at_ms": expires_at_ms}
        session.execute(insert(ExpiryRow), [{**row, "value": value} for value in values])


def expiries_of(session: Session, item: ItemName, values: Iterable[ListValue]) -> Mapping[str, int]:
    """The times at which some of these values leave a list, or keys a map, by their texts."""
    found: dict[str, int] = {}
    for some in batches(list(map(str, values))):
        wanted = ExpiryRow.concerns(item), ExpiryRow.value.in_(some)
        found |= {row.value: row.at_ms for row in session.scalars(select(ExpiryRow).where(*wanted))}
    return found


def expiry_counts(session: Session, kind: str) -> Mapping[str, tuple[int, int]]:
    """For each list or map with values that expire: their number, and the time of the first, by its name."""
    counted = select(ExpiryRow.item_key, func.count(), func.min(ExpiryRow.at_ms)).where(ExpiryRow.kind == kind)
    return {name: (count, first) for name, count, first in session.execute(counted.group_by(ExpiryRow.item_key))}


def due_values(session: Session, now_ms: int, most: int) -> Mapping[ItemName, Sequence[str]]:
    """At most `most` values or keys whose time has come, as texts, by their list or map."""
    columns = ExpiryRow.kind, ExpiryRow.item_key, ExpiryRow.value
    due = select(*columns).where(ExpiryRow.kind.in_((LIST, MAP)), ExpiryRow.at_ms <= now_ms)
    found: dict[ItemName, list[str]] = {}
    for kind, key, value in session.execute(due.order_by(ExpiryRow.at_ms).limit(most)):
        found.setdefault(ItemName(kind, key), []).append(value)
    return found
