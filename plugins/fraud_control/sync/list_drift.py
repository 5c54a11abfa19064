"""Compares the lists of the store with the lists of the rule log: version, type and values.

The comparison keeps the lists of the store. So it finds a changed row of the database only after a restart, or when
`fraud store drift` runs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.read_models import DriftedList, ListDifference
from fraud_control.service.lists.values import ListContents
from fraud_control.store.models import ListHead
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.list_history import Lists
from fraud_rules.model.value_list import ValueList

__all__ = ["ListComparison"]


class ListComparison:
    """One instance per process: it compares the values of two lists once, because that takes 0.1 s per million."""

    def __init__(self, limits: RuleLimits) -> None:
        self._contents = ListContents(limits)
        self._compared: dict[str, tuple[ValueList, ValueList, bool]] = {}

    def stored(self, session: Session) -> Lists:
        """The lists of the store after all their records in the rule log, by name."""
        names = session.scalars(select(ListHead.name).where(~ListHead.deleted))
        found = {name: self._contents.published(session, name) for name in names}
        return {name: each for name, each in found.items() if each is not None}

    def differences(self, store: Lists, log: Lists, pending: Collection[object]) -> tuple[ListDifference, ...]:
        """The lists that differ, by name. The lists in `pending` do not count."""
        self._compared = {name: each for name, each in self._compared.items() if name in store and name in log}
        return tuple(
            ListDifference(list_name=name, store=_described(store, name), log=_described(log, name))
            for name in sorted(store.keys() | log.keys())
            if name not in pending and not self._same(store.get(name), log.get(name))
        )

    def _same(self, store: ValueList | None, log: ValueList | None) -> bool:
        if store is None or log is None or store.version != log.version:
            return False
        known = self._compared.get(store.name)
        if known is None or known[0] is not store or known[1] is not log:
            known = store, log, store.has_values_of(log)
            self._compared[store.name] = known
        return known[2]


def _described(lists: Mapping[str, ValueList], name: str) -> DriftedList | None:
    known = lists.get(name)
    if known is None:
        return None
    digest = hashlib.sha256(msgspec.json.encode(known.values())).hexdigest()
    return DriftedList(version=known.version, type=known.type, size=known.size, values_sha256=digest)
