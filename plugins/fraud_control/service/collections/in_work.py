"""The lists in a writer's transaction. Each list is read once, so that a burst of its changes costs few queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.item import LIST, ItemName
from fraud_control.service.collections.values import CollectionContents
from fraud_control.service.items.heads import in_use
from fraud_control.store.models import ExpiryRow, RevisionRow
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ValueList

__all__ = ["CollectionsInWork"]


@dataclass(slots=True)
class _Known:
    """A list with all its changes. `version` is the highest offset of its records in the rule log, -1 without one."""

    current: ValueList | None
    version: int
    waits: bool


class CollectionsInWork:
    """The lists as the transaction sees them. Whoever changes rows of lists without `saved` must call `forget`."""

    def __init__(self, session: Session, contents: CollectionContents) -> None:
        self._session = session
        self._contents = contents
        self._lists: dict[str, _Known] = {}
        self._expiring: dict[str, bool] = {}
        self._count: int | None = None

    def current(self, name: str) -> ValueList | None:
        """A list with all its changes; None for a list that does not exist."""
        return self._known(name).current

    def type_before(self, name: str, version: int) -> ListType | None:
        """The type of a list in the rule log below offset `version`; None for a missing list."""
        known = self._known(name)
        if known.waits or version <= known.version:
            return self._stored_type(name, version)
        return None if known.current is None else known.current.type

    def count(self) -> int:
        """The number of lists with all their changes."""
        if self._count is None:
            counted = select(func.count()).where(in_use(LIST))
            self._count = self._session.scalar(counted) or 0
        return self._count

    def expires(self, name: str) -> bool:
        """Whether a list may have values that expire."""
        if name not in self._expiring:
            stored = select(ExpiryRow.value).where(ExpiryRow.concerns(ItemName.of_list(name))).limit(1)
            self._expiring[name] = self._session.scalar(stored) is not None
        return self._expiring[name]

    def saved_expiries(self, name: str) -> None:
        """Record that values of a list expire."""
        self._expiring[name] = True

    def saved(self, name: str, changes: Sequence[tuple[ListChange, int | None]]) -> None:
        """Apply the new records of a list, each with its offset; None for a record in the outbox."""
        known = self._known(name)
        existed = known.current is not None
        for change, version in changes:
            if version is not None and (known.waits or version <= known.version):
                self._lists.pop(name)  # the record is not the last one, so the list is read again
                known = self._known(name)
                break
            known.current = self._contents.applied(known.current, change, version)
            known.waits |= version is None
            known.version = known.version if version is None else version
        if self._count is not None:
            self._count += (known.current is not None) - existed

    def forget(self, name: str | None = None) -> None:
        """Read a list, or all lists, again."""
        if name is None:
            self._lists.clear()
            self._expiring.clear()
        self._lists.pop(name or "", None)
        self._count = None

    def _known(self, name: str) -> _Known:
        if name not in self._lists:
            rows = select(func.max(RevisionRow.log_version), func.count(), func.count(RevisionRow.log_version))
            of_list = RevisionRow.concerns(ItemName.of_list(name))
            version, count, arrived = self._session.execute(rows.where(of_list)).one()
            current = self._contents.current(self._session, name)
            self._lists[name] = _Known(current, -1 if version is None else version, count > arrived)
        return self._lists[name]

    def _stored_type(self, name: str, before: int) -> ListType | None:
        last = self._session.execute(
            select(RevisionRow.operation, RevisionRow.type)
            .where(
                RevisionRow.concerns(ItemName.of_list(name)),
                RevisionRow.log_version < before,
                RevisionRow.operation.in_([ListOperation.SET.value, ListOperation.DELETE.value]),
            )
            .order_by(RevisionRow.log_version.desc())
            .limit(1)
        ).one_or_none()
        return None if last is None or last.operation == ListOperation.DELETE.value else ListType(last.type)
