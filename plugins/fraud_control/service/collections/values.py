"""The values of lists. They follow from the stored records in the order of the rule log, with the records that wait for
the log at the end. So the store has the values that the detector has, whatever the order in which it saved the records.
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

from fraud_control.domain.item import ItemName
from fraud_control.store.models import RevisionRow
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ListValue, ValueList

__all__ = ["CollectionContents"]

_SORTED_LISTS: Final = 4
_PENDING: Final = -1  # stands for the version of a record that waits for the rule log


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A list after the first `count` of its records in the rule log, of which `version` is the last."""

    version: int
    count: int
    known: ValueList | None


_NOTHING: Final = _Prefix(-1, 0, None)


class CollectionContents:
    """The values of lists. One instance per process, because it keeps them. Several threads may use it."""

    def __init__(self, limits: RuleLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._prefixes: dict[str, _Prefix] = {}
        self._compared: dict[str, tuple[ValueList, ValueList, bool]] = {}
        self._sorted: OrderedDict[str, tuple[ValueList, list[ListValue]]] = OrderedDict()

    def current(self, session: Session, name: str) -> ValueList | None:
        """A list with all its changes; None for a list that does not exist."""
        known = self.published(session, name)
        waiting = _records(name, RevisionRow.log_version.is_(None)).order_by(RevisionRow.outbox_seq)
        return self._folded(name, known, session.execute(waiting).all())

    def published(self, session: Session, name: str) -> ValueList | None:
        """A list after all its records in the rule log; None for a missing list.

        Records that came late, or that were rolled back, change the number of records below a version. The list is then
        computed again.
        """
        prefix = self._prefixes.get(name, _NOTHING)
        below = and_(_of(name), RevisionRow.log_version <= prefix.version)
        count = session.scalar(select(func.count()).select_from(RevisionRow).where(below)) or 0
        start = prefix.version + 1
        if count != prefix.count:
            prefix, start = _NOTHING, _last_set(session, name, RevisionRow.log_version.is_not(None))
            below = and_(_of(name), RevisionRow.log_version < start)
            count = session.scalar(select(func.count()).select_from(RevisionRow).where(below)) or 0
        new = session.execute(_records(name, RevisionRow.log_version >= start).order_by(RevisionRow.log_version)).all()
        if new:
            prefix = _Prefix(new[-1].log_version, count + len(new), self._folded(name, prefix.known, new))
            with self._lock:
                self._prefixes[name] = prefix
        return prefix.known

    def at(self, session: Session, name: str, revision: int) -> ValueList | None:
        """A list after one of its revisions, in the order of the rule log; None for a list that did not exist."""
        last = session.execute(
            select(RevisionRow.log_version, RevisionRow.outbox_seq)
            .where(_of(name), RevisionRow.revision == revision)
            .order_by(RevisionRow.part.desc())
            .limit(1)
        ).one()
        until: ColumnElement[bool] = or_(
            RevisionRow.log_version.is_not(None), RevisionRow.outbox_seq <= last.outbox_seq
        )
        if last.log_version is not None:
            until = RevisionRow.log_version <= last.log_version
        start = _last_set(session, name, until)
        condition = _records(
            name, and_(until, or_(RevisionRow.log_version.is_(None), RevisionRow.log_version >= start))
        )
        ordered = condition.order_by(RevisionRow.log_version.is_(None), RevisionRow.log_version, RevisionRow.outbox_seq)
        return self._folded(name, None, session.execute(ordered).all())

    def applied(self, known: ValueList | None, change: ListChange, version: int | None) -> ValueList | None:
        """The list after one more record at its end; `version` is None for a record that waits for the rule log."""
        return _applied(known, change, _PENDING if version is None else version, self._limits)

    def equal(self, stored: ValueList, logged: ValueList) -> bool:
        """Whether two lists have the same type and values. Two unchanged lists are compared only once, because that
        takes 0.1 s per million values.
        """
        known = self._compared.get(stored.name)
        if known is None or known[0] is not stored or known[1] is not logged:
            if len(self._compared) >= self._limits.max_lists:
                self._compared.clear()  # deleted lists would stay
            known = stored, logged, stored.has_values_of(logged)
            self._compared[stored.name] = known
        return known[2]

    def sorted_values(self, known: ValueList) -> Sequence[ListValue]:
        """The values of a list in order. The last lists stay sorted in memory."""
        with self._lock:
            found = self._sorted.get(known.name)
            if found is not None and found[0] is known:
                return found[1]
        values = known.values()
        with self._lock:
            self._sorted[known.name] = known, values
            self._sorted.move_to_end(known.name)
            while len(self._sorted) > _SORTED_LISTS:
                self._sorted.popitem(last=False)
        return values

    def _folded(
        self, name: str, known: ValueList | None, records: Sequence[Row[str, str, bytes | None, int | None]]
    ) -> ValueList | None:
        for operation, value_type, encoded, version in records:
            values = encoded or b"[]"
            change = ListChange(name, ListOperation(operation), ListType(value_type), values, limits=self._limits)
            known = _applied(known, change, _PENDING if version is None else version, self._limits)
        return known


def _applied(known: ValueList | None, change: ListChange, version: int, limits: RuleLimits) -> ValueList | None:
    """The list after a record. A record that the rule log rejects has no effect."""
    match change.operation:
        case ListOperation.DELETE:
            return None
        case ListOperation.SET if change.type is not None and (known is None or known.type is not change.type):
            return ValueList.of(change.name, change.type, version, change.values())
        case _ if known is None or known.type is not change.type:
            return known
    changed = known.changed([(version, change)])
    return known if changed.size > max(limits.max_list_values, known.size) else changed


def _of(name: str) -> ColumnElement[bool]:
    return RevisionRow.concerns(ItemName.of_list(name))


def _records(name: str, condition: ColumnElement[bool]) -> Select[str, str, bytes | None, int | None]:
    return select(RevisionRow.operation, RevisionRow.type, RevisionRow.payload, RevisionRow.log_version).where(
        _of(name), condition
    )


def _last_set(session: Session, name: str, until: ColumnElement[bool]) -> int:
    """The version of the last SET in the rule log. The records before it decide nothing."""
    sets = RevisionRow.operation == ListOperation.SET.value
    found = select(func.max(RevisionRow.log_version)).where(_of(name), until, sets)
    return session.scalar(found) or 0
