"""Removes expired values from their lists.

Each process may do this at any time, because one transaction saves the REMOVE and forgets the expiry. So the rule log
gets one REMOVE for each value, also if processes die or several processes run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from fraud_control.domain.collection_input import collection_change
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.roles import system_author
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections import content as collections
from fraud_control.service.collections.content import CollectionContent
from fraud_control.service.collections.expiries import due_values
from fraud_control.service.collections.summary import type_of
from fraud_control.service.items.kind import NewRevision
from fraud_control.service.items.saving import save
from fraud_control.service.store_access import StoreAccess
from fraud_rules.model.value_list import ListOperation
from fraud_rules.runtime.retry import RepeatedWork

EXPIRY_AUTHOR: Final = system_author("expiry")
"""The author of the changes that remove expired values."""

MOST_VALUES: Final = 10_000
"""The most values that one transaction removes."""


def remove_expired(work: UnitOfWork) -> int:
    """Remove the values whose time has come, at most `MOST_VALUES`; return their number.

    The transaction saves the REMOVE and forgets the expiry. So each value is removed once, whatever process dies.
    Raises Unavailable if too many records wait in the outbox.
    """
    removed = 0
    for item, values in due_values(work.session, work.now_ms, MOST_VALUES).items():
        known = type_of(work.session, item)
        assert known is not None  # a deleted list or map has no expiries
        given = CollectionInput(ListOperation.REMOVE, tuple(values))
        content = CollectionContent(collection_change(item, given, known, SOURCE, work.reader.limits))
        comment = f"the {content.change.content_member} have expired"
        new = NewRevision(content, EXPIRY_AUTHOR, f"{item.kind}.expire", comment, keeps_request=True)
        save(work, collections, work.head(item), new)
        removed += len(values)
    return removed


_POLL_INTERVAL_S: Final = 0.5


class Expiry:
    """Polls for expired values. One thread of the process executes `run`. `report` gets the saved changes."""

    def __init__(self, store: StoreAccess, report: Callable[[RuleChanged], None] = lambda changed: None) -> None:
        self._store = store
        self._report = report
        self._attempts = RepeatedWork("the expiry of values")

    @property
    def failure(self) -> str | None:
        """The reason why the removal fails at the moment; None while it succeeds."""
        return self._attempts.failure

    def run(self, stop: threading.Event) -> None:
        """Remove expired values until `stop` is set. After an error, try again."""
        self._attempts.run(partial(self._poll, stop), stop)

    def remove_due(self) -> int:
        """Remove the values that have expired, up to a limit; return their number. Raises Unavailable."""
        with self._store.database.reading() as session:
            if not due_values(session, self._store.clock_ms(), 1):
                return 0
        with self._store.unit_of_work() as work:
            removed = remove_expired(work)
        for changed in work.changed:
            self._report(changed)
        return removed

    def _poll(self, stop: threading.Event, attempt: RepeatedWork) -> None:
        while not stop.is_set():
            removed = self.remove_due()
            attempt.record_success()
            if not removed:
                stop.wait(_POLL_INTERVAL_S)
