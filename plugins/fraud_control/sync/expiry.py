"""Removes expired values from their lists.

Each process may do this at any time, because one transaction saves the REMOVE and forgets the expiry. So the rule log
gets one REMOVE for each value, also if processes die or several processes run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from fraud_control.domain.read_models import RuleChanged
from fraud_control.service.collections.expiries import due_values
from fraud_control.service.collections.expiry import remove_expired
from fraud_control.service.store_access import StoreAccess
from fraud_rules.runtime.retry import RepeatedWork

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
