"""The lists and maps in a writer's transaction. Each is read once, so that a burst of changes costs few queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.collection_types import type_of_text
from fraud_control.domain.item import MAP, ItemName
from fraud_control.service.collections.summary import summary_of
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.items.heads import in_use
from fraud_control.store.models import ExpiryRow, ItemHead, RevisionRow
from fraud_rules.model.collection_history import Collection, CollectionChange, CollectionType
from fraud_rules.model.value_list import ListOperation
from fraud_rules.model.value_map import ValueMap


@dataclass(slots=True)
class _Known:
    """A list or map with all its changes. `version` is the highest offset of its records in the log, -1 without one."""

    current: Collection | None
    version: int
    waits: bool


class CollectionsInWork:
    """The lists and maps as the transaction sees them. A change of their rows without `saved` must call `forget`."""

    def __init__(self, session: Session, contents: CollectionContents) -> None:
        self._session = session
        self._contents = contents
        self._collections: dict[ItemName, _Known] = {}
        self._expiring: dict[ItemName, bool] = {}
        self._counts: dict[str, int] = {}
        self._map_bytes: dict[ItemName, int] | None = None

    def current(self, item: ItemName) -> Collection | None:
        """A list or map with all its changes; None for a missing one."""
        return self._known(item).current

    def type_before(self, item: ItemName, version: int) -> CollectionType | None:
        """The type of a list or map in the rule log below offset `version`; None for a missing one."""
        known = self._known(item)
        if known.waits or version <= known.version:
            return self._stored_type(item, version)
        return None if known.current is None else known.current.type

    def count(self, kind: str) -> int:
        """The number of lists or maps with all their changes."""
        if kind not in self._counts:
            counted = select(func.count()).where(in_use(kind))
            self._counts[kind] = self._session.scalar(counted) or 0
        return self._counts[kind]

    def bytes_of_other_maps(self, item: ItemName) -> int:
        """The bytes of the entries of all maps but one, with all their changes."""
        if self._map_bytes is None:
            heads = self._session.scalars(select(ItemHead).where(in_use(MAP)))
            self._map_bytes = {each.item: summary_of(each).entry_bytes for each in heads}
        return sum(size for other, size in self._map_bytes.items() if other != item)

    def expires(self, item: ItemName) -> bool:
        """Whether a list or map may have values that expire."""
        if item not in self._expiring:
            stored = select(ExpiryRow.value).where(ExpiryRow.concerns(item)).limit(1)
            self._expiring[item] = self._session.scalar(stored) is not None
        return self._expiring[item]

    def saved_expiries(self, item: ItemName) -> None:
        """Record that values of a list or map expire."""
        self._expiring[item] = True

    def saved(self, item: ItemName, changes: Sequence[tuple[CollectionChange, int | None]]) -> None:
        """Apply the new records of a list or map, each with its offset; None for a record in the outbox."""
        known = self._known(item)
        existed = known.current is not None
        for change, version in changes:
            if version is not None and (known.waits or version <= known.version):
                self._collections.pop(item)  # the record is not the last one, so all are read again
                known = self._known(item)
                break
            known.current = self._contents.applied(known.current, change, version)
            known.waits |= version is None
            known.version = known.version if version is None else version
        if item.kind in self._counts:
            self._counts[item.kind] += (known.current is not None) - existed
        if self._map_bytes is not None and item.kind == MAP:
            self._map_bytes[item] = known.current.entry_bytes if isinstance(known.current, ValueMap) else 0

    def forget(self, item: ItemName | None = None) -> None:
        """Read a list or map, or all of them, again."""
        if item is None:
            self._collections.clear()
            self._expiring.clear()
        else:
            self._collections.pop(item, None)
        self._counts.clear()
        self._map_bytes = None

    def _known(self, item: ItemName) -> _Known:
        if item not in self._collections:
            rows = select(func.max(RevisionRow.log_version), func.count(), func.count(RevisionRow.log_version))
            version, count, arrived = self._session.execute(rows.where(RevisionRow.concerns(item))).one()
            current = self._contents.current(self._session, item)
            self._collections[item] = _Known(current, -1 if version is None else version, count > arrived)
        return self._collections[item]

    def _stored_type(self, item: ItemName, before: int) -> CollectionType | None:
        last = self._session.execute(
            select(RevisionRow.operation, RevisionRow.type)
            .where(
                RevisionRow.concerns(item),
                RevisionRow.log_version < before,
                RevisionRow.operation.in_([ListOperation.SET.value, ListOperation.DELETE.value]),
            )
            .order_by(RevisionRow.log_version.desc())
            .limit(1)
        ).one_or_none()
        if last is None or last.operation == ListOperation.DELETE.value:
            return None
        return type_of_text(item.collection_kind, last.type)
