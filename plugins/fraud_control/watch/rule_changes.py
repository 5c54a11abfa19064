"""Reports changes of rules, lists and maps, by any user in any process, to the event stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fraud_control.domain.item import NO_ITEM, ItemName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.feed.events import Event, FeedRuleChange
from fraud_control.service import audit
from fraud_control.service.store_access import StoreAccess
from fraud_control.watch.change_follower import ChangeFollower
from fraud_rules.runtime.retry import RepeatedWork

_POLL_INTERVAL_S = 0.5
_ROWS = 50
_NO_SUBJECT = (None, None, None)


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
        changes: list[Event] = [
            FeedRuleChange(newest, each.rule_id, each.revision, each.list_name, each.map_name) for each in accepted
        ]
        if before is not None:
            known = {(each.rule_id, each.list_name, each.map_name) for each in accepted}
            new = [row for row in rows if row.seq > before]
            others = {_subject_of(row.subject) for row in new} - known - {_NO_SUBJECT}
            changes += [FeedRuleChange(newest, each[0], None, *each[1:]) for each in sorted(others, key=str)]
            if len(new) == _ROWS:
                changes = [FeedRuleChange(newest, None, None)]
        if changes:
            self._report(changes)
        self._seen = newest


def _subject_of(subject: str) -> tuple[int | None, str | None, str | None]:
    """Read the rule id, or the name of the list or map, from the subject of an audit row; none for other subjects."""
    item = ItemName(*subject.split(" ", 1)) if " " in subject else NO_ITEM
    return item.rule_id, item.list_name, item.map_name
