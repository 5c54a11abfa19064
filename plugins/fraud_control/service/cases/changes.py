"""Changes of cases: assignee, status and comments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import func, select, tuple_, update
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical
from fraud_control.domain.case_models import CaseAction, CaseOutcome, CaseStatus
from fraud_control.domain.errors import Conflict, Invalid, LimitReached
from fraud_control.domain.masking import Masking
from fraud_control.domain.roles import Actor, Permission, Role, require
from fraud_control.feed.place import Position
from fraud_control.service.audit import AuditRecord
from fraud_control.service.bindings import check_user, role_of
from fraud_control.service.cases.intake import CaseEntity, open_case
from fraud_control.service.cases.queries import case_of
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.notifications.announcements import notify_handover
from fraud_control.store.alert_models import AlertRow
from fraud_control.store.case_models import CaseEventRow, CaseRow
from fraud_rules.errors import Reason

_MOST_COMMENTS: Final = 1_000
_PLACE: Final = (AlertRow.append_ms, AlertRow.source, AlertRow.offset)


def assign(work: UnitOfWork, who: Actor, case_id: int, revision: int, assignee: str | None, comment: str = "") -> None:
    """Set the assignee of a case; None for no assignee. A user who assigns it to another one hands it over, with the
    comment as a note. Raises NotFound, Conflict, RequestRefused, Invalid.
    """
    require(who, Permission.WORK_CASES)
    case = _checked_case(work.session, case_id, revision)
    if assignee == case.assignee:
        return
    _check_assignee(work, assignee)
    before = _facts(case)
    case.assignee = assignee
    case.handed_by = None if assignee in (None, who.user) else who.user
    _save(work, who, case, before, CaseAction.ASSIGN, {"assignee": assignee}, comment.strip())
    if case.handed_by is not None:
        mask = Masking(work.reader.schema).document
        notify_handover(work.session, case, comment.strip(), mask, work.now_ms)


def change_status(
    work: UnitOfWork,
    who: Actor,
    case_id: int,
    revision: int,
    status: CaseStatus,
    outcome: CaseOutcome | None = None,
    through: Position | None = None,
    comment: str = "",
) -> None:
    """Set the status of a case. A closed case needs an outcome. IN_WORK assigns a case without an assignee to the user.

    If `through` is the position of the last alert that the user saw, later alerts leave the case when it closes, and
    open the next case of the entity. Raises NotFound, RequestRefused, Invalid, and Conflict if another user changed
    the case, or if it cannot be opened again because the entity has an open case.
    """
    require(who, Permission.WORK_CASES)
    if (status is CaseStatus.CLOSED) is not (outcome is not None):
        raise Invalid([Reason("outcome", "is required to close a case, and belongs to no other status")])
    if outcome is not None and not outcome.is_decision:
        raise Invalid([Reason("outcome", f"{outcome} is no decision of a person")])
    case = _checked_case(work.session, case_id, revision)
    if (case.status, case.outcome) == (status, outcome):
        return
    before = _facts(case)
    closes = status is CaseStatus.CLOSED
    if closes and not case.closed:
        _split(work.session, case, through)
    elif not closes and case.closed:
        _check_reopening(work.session, case)
    case.status, case.closed = status.value, closes
    case.outcome = None if outcome is None else outcome.value
    case.open_entity = None if closes else _entity(case).name
    if status is CaseStatus.IN_WORK and case.assignee is None:
        case.assignee = who.user
    _save(
        work, who, case, before, CaseAction.STATUS, {"status": status.value, "outcome": case.outcome}, comment.strip()
    )


def comment_on(work: UnitOfWork, who: Actor, case_id: int, comment: str) -> None:
    """Add a comment to a case, also to a closed one. Raises NotFound, RequestRefused, Invalid, LimitReached."""
    require(who, Permission.WORK_CASES)
    comment = comment.strip()
    if not comment:
        raise Invalid([Reason("comment", "must not be empty")])
    case = case_of(work.session, case_id)
    events = select(func.count()).where(
        CaseEventRow.case_id == case_id, CaseEventRow.action == CaseAction.COMMENT.value
    )
    if (work.session.scalar(events) or 0) >= _MOST_COMMENTS:
        raise LimitReached(f"case {case_id} has {_MOST_COMMENTS} comments, the most allowed")
    add_event(work, who, case, CaseAction.COMMENT, {}, comment)
    work.append_audit(AuditRecord(who.user, "case.comment", f"case {case_id}", None, _comment(work, case, comment)))


def add_event(
    work: UnitOfWork, who: Actor, case: CaseRow, action: CaseAction, detail: Mapping[str, object], comment: str
) -> None:
    """Add an event to the history of a case."""
    work.session.add(CaseEventRow(case_id=case.case_id, **event_members(work, who, action, detail, comment)))


def event_members(
    work: UnitOfWork, who: Actor, action: CaseAction, detail: Mapping[str, object], comment: str
) -> dict[str, Any]:
    """The members of an event, without its case."""
    return {
        "at_ms": work.now_ms,
        "who": who.user,
        "action": action.value,
        "detail": canonical(dict(detail)).decode(),
        "comment": comment,
    }


def _split(session: Session, case: CaseRow, through: Position | None) -> None:
    """Move the alerts after a position into a new case of the entity, before the case closes."""
    if through is None:
        return
    later = AlertRow.case_id == case.case_id, tuple_(*_PLACE) > tuple_(*through)
    figures = select(
        func.count(), func.max(AlertRow.severity_rank), func.min(AlertRow.append_ms), func.max(AlertRow.append_ms)
    )
    count, rank, first_ms, last_ms = session.execute(figures.where(*later)).one()
    if not count:
        return
    case.open_entity = None
    session.flush()  # the entity has at most one open case
    following = open_case(session, _entity(case), count, 4 - rank, first_ms, last_ms)
    session.flush()
    session.execute(
        update(AlertRow).where(*later).values(case_id=following.case_id),
        execution_options={"synchronize_session": False},
    )
    left = select(func.max(AlertRow.append_ms)).where(AlertRow.case_id == case.case_id)
    case.alerts -= count
    case.last_alert_ms = session.scalar(left) or case.first_alert_ms


def _check_reopening(session: Session, case: CaseRow) -> None:
    open_one = session.scalar(select(CaseRow.case_id).where(CaseRow.open_entity == _entity(case).name))
    if open_one is not None:
        raise Conflict(f"{case.entity_field} {case.entity_value} has the open case {open_one}: work on that case")


def _check_assignee(work: UnitOfWork, assignee: str | None) -> None:
    if assignee is None:
        return
    check_user(assignee)
    role = role_of(work.session, work.settings, assignee)
    if role is None or not role.includes(Role.ANALYST):
        raise Invalid([Reason("assignee", "must be a user with the role analyst or a higher one")])


def _checked_case(session: Session, case_id: int, revision: int) -> CaseRow:
    case = case_of(session, case_id)
    if case.revision != revision:
        newest = f"its revision is {case.revision}, not {revision}"
        by = "another user" if case.updated_by is None else ascii(case.updated_by)
        raise Conflict(f"{by} has changed case {case_id}: {newest}", case.revision)
    return case


def _entity(case: CaseRow) -> CaseEntity:
    return CaseEntity(case.entity_field, case.entity_value)


def _facts(case: CaseRow) -> dict[str, object]:
    return {"status": case.status, "outcome": case.outcome, "assignee": case.assignee}


def _comment(work: UnitOfWork, case: CaseRow, comment: str) -> dict[str, object]:
    """The comment for the audit log. About a person, it is a keyed hash: the text is in the history of the case."""
    if case.entity_field not in work.pseudonyms.fields:
        return {"comment": comment}
    return {"commentDigest": work.pseudonyms.digest(case.entity_value, comment)}


def _save(
    work: UnitOfWork,
    who: Actor,
    case: CaseRow,
    before: Mapping[str, object],
    action: CaseAction,
    detail: Mapping[str, object],
    comment: str,
) -> None:
    case.revision += 1
    case.updated_ms, case.updated_by = work.now_ms, who.user
    add_event(work, who, case, action, detail, comment)
    after = _facts(case) | (_comment(work, case, comment) if comment else {})
    work.append_audit(AuditRecord(who.user, f"case.{action}", f"case {case.case_id}", before, after))
