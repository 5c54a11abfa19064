"""The values of lists and the entries of maps.

They follow from the stored records in the order of the rule log, with the records that wait for the log at the end. So
the store has the content that the detector has, whatever the order in which it saved the records.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.engine import Row
from sqlalchemy.orm import Session

from fraud_control.domain.collection_types import stored_change
from fraud_control.domain.item import ItemName
from fraud_control.store.models import RevisionRow
from fraud_rules.model.collection_history import Collection, CollectionChange
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListOperation, ListValue

_SORTED: Final = 4
_PENDING: Final = -1  # stands for the version of a record that waits for the rule log


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A list or map after the first `count` of its records in the rule log, of which `version` is the last."""

    version: int
    count: int
    known: Collection | None


_NOTHING: Final = _Prefix(-1, 0, None)


class CollectionContents:
    """The lists and maps. One instance per process, because it keeps them. Several threads may use it."""

    def __init__(self, limits: RuleLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._prefixes: dict[ItemName, _Prefix] = {}
        self._compared: dict[ItemName, tuple[Collection, Collection, bool]] = {}
        self._sorted: OrderedDict[ItemName, tuple[Collection, list[ListValue]]] = OrderedDict()

    def current(self, session: Session, item: ItemName) -> Collection | None:
        """A list or map with all its changes; None for a missing one."""
        known = self.published(session, item)
        waiting = _records(item, RevisionRow.log_version.is_(None)).order_by(RevisionRow.outbox_seq)
        return self._folded(item, known, session.execute(waiting).all())

    def published(self, session: Session, item: ItemName) -> Collection | None:
        """A list or map after all its records in the rule log; None for a missing one.

        Records that came late, or that were rolled back, change the number of records below a version. It is then
        computed again.
        """
        prefix = self._prefixes.get(item, _NOTHING)
        below = and_(_of(item), RevisionRow.log_version <= prefix.version)
        count = session.scalar(select(func.count()).select_from(RevisionRow).where(below)) or 0
        start = prefix.version + 1
        if count != prefix.count:
            prefix, start = _NOTHING, _last_set(session, item, RevisionRow.log_version.is_not(None))
            below = and_(_of(item), RevisionRow.log_version < start)
            count = session.scalar(select(func.count()).select_from(RevisionRow).where(below)) or 0
        new = session.execute(_records(item, RevisionRow.log_version >= start).order_by(RevisionRow.log_version)).all()
        if new:
            prefix = _Prefix(new[-1].log_version, count + len(new), self._folded(item, prefix.known, new))
            with self._lock:
                self._prefixes[item] = prefix
        return prefix.known

    def at(self, session: Session, item: ItemName, revision: int) -> Collection | None:
        """A list or map after one of its revisions, in the order of the rule log; None if it was missing."""
        last = session.execute(
            select(RevisionRow.log_version, RevisionRow.outbox_seq)
            .where(_of(item), RevisionRow.revision == revision)
            .order_by(RevisionRow.part.desc())
            .limit(1)
        ).one()
        until: ColumnElement[bool] = or_(
            RevisionRow.log_version.is_not(None), RevisionRow.outbox_seq <= last.outbox_seq
        )
        if last.log_version is not None:
            until = RevisionRow.log_version <= last.log_version
        start = _last_set(session, item, until)
        condition = _records(
            item, and_(until, or_(RevisionRow.log_version.is_(None), RevisionRow.log_version >= start))
        )
        ordered = condition.order_by(RevisionRow.log_version.is_(None), RevisionRow.log_version, RevisionRow.outbox_seq)
        return self._folded(item, None, session.execute(ordered).all())

    def applied(self, known: Collection | None, change: CollectionChange, version: int | None) -> Collection | None:
        """The list or map after one more record; `version` is None for a record that waits for the rule log."""
        return _applied(known, change, _PENDING if version is None else version)

    def equal(self, stored: Collection, logged: Collection) -> bool:
        """Whether two lists or maps have the same type and content. Two unchanged ones are compared only once, because
        that takes 0.1 s per million values.
        """
        known = self._compared.get(_name(stored))
        if known is None or known[0] is not stored or known[1] is not logged:
            if len(self._compared) >= self._limits.max_lists + self._limits.max_maps:
                self._compared.clear()  # deleted ones would stay
            known = stored, logged, stored.has_values_of(logged)  # type: ignore[arg-type]
            self._compared[_name(stored)] = known
        return known[2]

    def sorted_values(self, known: Collection) -> Sequence[ListValue]:
        """The values of a list, or the keys of a map, in order. The last ones stay sorted in memory."""
        with self._lock:
            found = self._sorted.get(_name(known))
            if found is not None and found[0] is known:
                return found[1]
        values = known.values()
        with self._lock:
            self._sorted[_name(known)] = known, values
            self._sorted.move_to_end(_name(known))
            while len(self._sorted) > _SORTED:
                self._sorted.popitem(last=False)
        return values

    def _folded(
        self, item: ItemName, known: Collection | None, records: Sequence[Row[str, str, bytes | None, int | None]]
    ) -> Collection | None:
        for operation, of_type, encoded, version in records:
            change = stored_change(item, operation, of_type, encoded or b"[]", self._limits)
            known = _applied(known, change, _PENDING if version is None else version)
        return known


def _applied(known: Collection | None, change: CollectionChange, version: int) -> Collection | None:
    """The list or map after a record. A record that the rule log rejects has no effect."""
    match change.operation:
        case ListOperation.DELETE:
            return None
        case ListOperation.SET if change.type is not None and (known is None or known.type != change.type):
            return change.begin(change.type, version)  # type: ignore[arg-type]
        case _ if known is None or known.type != change.type:
            return known
    changed = known.changed([(version, change)])  # type: ignore[list-item]
    return known if changed.size > max(change.most_members, known.size) else changed


def _name(known: Collection) -> ItemName:
    return ItemName.of_collection((known.kind, known.name))


def _of(item: ItemName) -> ColumnElement[bool]:
    return RevisionRow.concerns(item)


def _records(item: ItemName, condition: ColumnElement[bool]) -> Select[str, str, bytes | None, int | None]:
    return select(RevisionRow.operation, RevisionRow.type, RevisionRow.payload, RevisionRow.log_version).where(
        _of(item), condition
    )


def _last_set(session: Session, item: ItemName, until: ColumnElement[bool]) -> int:
    """The version of the last SET in the rule log. The records before it decide nothing."""
    sets = RevisionRow.operation == ListOperation.SET.value
    found = select(func.max(RevisionRow.log_version)).where(_of(item), until, sets)
    return session.scalar(found) or 0
