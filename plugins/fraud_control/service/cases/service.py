"""Reads and changes of cases."""

from __future__ import annotations

from collections.abc import Sequence

from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.case_models import (
    BulkChange,
    BulkMarks,
    CaseDetail,
    CaseOutcome,
    CaseSearch,
    CaseStatus,
)
from fraud_control.domain.read_models import MarkVerdict
from fraud_control.domain.roles import Actor, Role
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.place import Position
from fraud_control.service.bindings import bindings
from fraud_control.service.cases import bulk, changes, marks, queries
from fraud_control.service.cases.queries import CasePage
from fraud_control.service.ids import storable_id
from fraud_control.service.store_access import StoreAccess

__all__ = ["CaseService"]


class CaseService:
    """Several threads may use it. `revision` is the revision of a case that the client has read (the ETag)."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store
        self._kept_ms = store.settings.bounds.alert_days * 86_400_000

    def page(self, search: CaseSearch, limit: int, *, after: int | None = None, before: int | None = None) -> CasePage:
        """List cases after or before a case. Raises Invalid if there is no such case."""
        with self._store.database.reading() as session:
            return queries.case_page(session, search, limit, self._kept_ms, after=after, before=before)

    def detail(self, case_id: int) -> CaseDetail:
        """Read a case with its events and other cases. Raises NotFound."""
        with self._store.database.reading() as session:
            return queries.case_detail(session, case_id, self._kept_ms)

    def assignees(self) -> tuple[str, ...]:
        """List the users to whom a case can be assigned, by name."""
        with self._store.database.reading() as session:
            found = bindings(session, self._store.settings)
        return tuple(each.user for each in found if each.role.includes(Role.ANALYST))

    def assign(self, actor: Actor, case_id: int, revision: int, assignee: str | None) -> CaseDetail:
        """Set or remove the assignee. Raises NotFound, Conflict, RequestRefused, Invalid."""
        with self._store.change(actor) as work:
            changes.assign(work, actor, case_id, revision, assignee)
            work.session.flush()
            return queries.case_detail(work.session, case_id, self._kept_ms)

    def change_status(
        self,
        actor: Actor,
        case_id: int,
        revision: int,
        status: CaseStatus,
        outcome: CaseOutcome | None = None,
        through: Position | None = None,
        comment: str = "",
    ) -> CaseDetail:
        """Open, start, close or reopen a case. Raises NotFound, Conflict, RequestRefused, Invalid."""
        with self._store.change(actor, comment) as work:
            changes.change_status(work, actor, case_id, revision, status, outcome, through, comment.strip())
            work.session.flush()
            return queries.case_detail(work.session, case_id, self._kept_ms)

    def comment(self, actor: Actor, case_id: int, comment: str) -> CaseDetail:
        """Add a comment. Raises NotFound, RequestRefused, Invalid, LimitReached."""
        with self._store.change(actor, comment) as work:
            changes.comment_on(work, actor, case_id, comment.strip())
            work.session.flush()
            return queries.case_detail(work.session, case_id, self._kept_ms)

    def mark_case(self, actor: Actor, case_id: int, verdict: MarkVerdict, through: Position | None = None) -> BulkMarks:
        """Mark the unreviewed alerts of a case, up to a position. Raises NotFound, RequestRefused."""
        with self._store.change(actor) as work:
            return marks.mark_case(work, actor, case_id, verdict, through)

    def mark_alerts(self, actor: Actor, alert_ids: Sequence[str], verdict: MarkVerdict | None) -> BulkMarks:
        """Mark a selection of alerts; None removes their marks. Raises RequestRefused, Invalid."""
        with self._store.change(actor) as work:
            return marks.mark_alerts(work, actor, alert_ids, verdict)

    def count_open(self, search: CaseSearch) -> int:
        """Count the cases of a filter that are not closed: those that `close_matching` would close."""
        with self._store.database.reading() as session:
            return bulk.matching_cases(session, search)

    def count_unreviewed(self, search: AlertSearch, snoozing: Snoozing) -> int:
        """Count the alerts that `mark_matching` would mark, up to one more than a request marks."""
        with self._store.database.reading() as session:
            return len(bulk.matching_alerts(session, search, snoozing))

    def close_matching(
        self, actor: Actor, search: CaseSearch, outcome: CaseOutcome, *, marks: bool, comment: str = ""
    ) -> BulkChange:
        """Close the cases of a filter, with one audit row. Raises RequestRefused, Invalid."""
        with self._store.change(actor, comment) as work:
            return bulk.close_matching(work, actor, search, outcome, marks=marks, comment=comment.strip())

    def mark_matching(
        self, actor: Actor, search: AlertSearch, snoozing: Snoozing, verdict: MarkVerdict, comment: str = ""
    ) -> BulkChange:
        """Mark the unreviewed alerts of a filter, with one audit row. Raises RequestRefused."""
        with self._store.database.reading() as session:  # before the lock: it can examine the whole index
            matching = bulk.matching_alerts(session, search, snoozing)
        with self._store.change(actor, comment) as work:
            return bulk.mark_matching(work, actor, search, matching, verdict, comment.strip())

    def undo(self, actor: Actor, audit_row: int) -> BulkChange:
        """Undo a bulk change. Raises RequestRefused, NotFound."""
        with self._store.change(actor) as work:
            return bulk.undo(work, actor, storable_id(audit_row))
