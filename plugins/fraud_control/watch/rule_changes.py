"""Reports changes of rules, lists and maps, by any user in any process, to the event stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from fraud_control.domain.item import NO_ITEM, ItemName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.feed.events import Event, FeedRuleChange
from fraud_control.service import audit
from fraud_control.service.store_access import StoreAccess
from fraud_control.watch.change_follower import ChangeFollower
from fraud_rules.runtime.retry import RepeatedWork

_POLL_INTERVAL_S = 0.5
_ROWS = 50
_ANY: Final = RuleChanged(None, None)


class ChangesWatch(ChangeFollower):
    """Reads the end of the audit log: at once after a change in this process, else twice a second."""

    def __init__(self, store: StoreAccess, report: Callable[[Sequence[Event]], None]) -> None:
        super().__init__("fraud-control-changes", store)
        self._report = report
        self._accepted: list[RuleChanged] = []
        self._seen: int | None = None

    def _note(self, changed: RuleChanged) -> None:
        self._accepted.append(changed)

    def _work(self, attempt: RepeatedWork) -> None:
        while not self._stop.is_set():
            self._poll()
            attempt.record_success()
            self._await_change(_POLL_INTERVAL_S)

    def _poll(self) -> None:
        with self._lock:
            accepted, self._accepted = self._accepted, []
        with self._store.reading() as work:
            rows = audit.rows(work.session, limit=_ROWS).items
        newest = rows[0].seq if rows else 0
        before = self._seen
        changes = list(accepted)
        if before is not None:
            known = {replace(each, revision=None) for each in accepted}
            new = [row for row in rows if row.seq > before]
            others = {_change_of(row.subject) for row in new} - known - {_ANY}
            changes += sorted(others, key=str)
            if len(new) == _ROWS:
                changes = [_ANY]
        if changes:
            self._report([FeedRuleChange(newest, each) for each in changes])
        self._seen = newest


def _change_of(subject: str) -> RuleChanged:
    """The change of the rule, list or map that an audit row has as its subject; `_ANY` for other subjects."""
    return RuleChanged.of_item(ItemName(*subject.split(" ", 1)) if " " in subject else NO_ITEM, None)
