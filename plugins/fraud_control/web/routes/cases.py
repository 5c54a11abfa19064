"""Routes of the review queue: cases, and marks of several alerts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import Field

from fraud_control.composition import ControlPlane
from fraud_control.domain import case_models
from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.case_models import CaseSearch, CaseSort, CaseStatus
from fraud_control.service.cases import bulk, changes, marks, queries
from fraud_control.service.cases.overview import case_overview
from fraud_control.service.changes import UnitOfWork
from fraud_control.web.alert_query import AlertQuery, ReviewQuery, position_of
from fraud_control.web.answer import answer
from fraud_control.web.auth import CurrentActor
from fraud_control.web.dependencies import CurrentPlane, IfMatch, revision_read
from fraud_control.web.problems import WebError
from fraud_control.web.routes.decisions import decision_shown
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import cases as schemas
from fraud_control.web.schemas.base import MAX_ID
from fraud_control.web.schemas.decisions import PaymentDecision
from fraud_rules.model.schema import ID_FIELD
from fraud_rules.runtime.clock import now_ms

routes = router("cases")

MAX_CASE = 2**31 - 1
_NEWEST = 5
CaseId = Annotated[int, Path(ge=1, le=MAX_CASE)]


class CaseQuery(ReviewQuery):
    """The filters of the queue, and the page of it. `since` and `until` bound all alerts of a case."""

    status: Annotated[frozenset[CaseStatus], Field(max_length=3)] = frozenset()
    assignee: Annotated[str | None, Field(min_length=1, max_length=256)] = None
    unassigned: bool = False
    sort: CaseSort = CaseSort.SEVERITY
    only_rule: Annotated[bool, Field(description="No alerts of another rule than `ruleId`.")] = False
    handed: Annotated[bool, Field(description="Another user has assigned the case to its assignee.")] = False
    overdue: Annotated[bool, Field(description="The case should be closed by now.")] = False
    after: Annotated[int | None, Field(ge=1, le=MAX_CASE, description="List the cases after this one.")] = None
    before: Annotated[int | None, Field(ge=1, le=MAX_CASE, description="List the cases before this one.")] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50

    def search(self) -> CaseSearch:
        """Build the search. Raises WebError."""
        return CaseSearch(
            **self.common(now_ms()),
            statuses=self.status,
            assignee=self.assignee,
            unassigned=self.unassigned,
            only_rule=self.only_rule,
            handed=self.handed,
            overdue=self.overdue,
            sort=self.sort,
        )


@routes.get("/cases", response_model=schemas.Cases, openapi_extra=least("viewer"))
def list_cases(plane: CurrentPlane, query: Annotated[CaseQuery, Query()]) -> Response:
    """List cases in the order of the queue. `after` and `before` name a case of the list, also one that no longer
    matches the filters."""
    if query.after is not None and query.before is not None:
        raise WebError(422, "send after or before, not both")
    with plane.store.reading() as work:
        page = queries.case_page(work, query.search(), query.limit, after=query.after, before=query.before)
    following = page.cases[-1].case_id if page.more and query.before is None else None
    return answer(schemas.Cases(items=list(page.cases), next=following))


@routes.get("/cases/assignees", response_model=schemas.Assignees, openapi_extra=least("viewer"))
def list_assignees(plane: CurrentPlane) -> Response:
    """List the users to whom a case can be assigned."""
    with plane.store.reading() as work:
        return answer(schemas.Assignees(items=list(queries.assignees(work))))


@routes.get("/cases/matching", response_model=schemas.Matching, openapi_extra=least("viewer"))
def count_matching_cases(plane: CurrentPlane, query: Annotated[CaseQuery, Query()]) -> Response:
    """Count the cases of a filter that are not closed."""
    with plane.store.reading() as work:
        return answer(schemas.Matching(count=bulk.matching_cases(work, query.search()), more=False))


@routes.post("/cases/close", response_model=case_models.BulkChange, openapi_extra=least("analyst"))
def close_matching_cases(
    plane: CurrentPlane, actor: CurrentActor, query: Annotated[CaseQuery, Query()], body: schemas.BulkCloseRequest
) -> Response:
    """Close all cases of a filter that are not closed, at most 10,000, with one row in the audit log."""
    with plane.store.change(actor, body.comment) as work:
        done = bulk.close_matching(work, actor, query.search(), body.outcome, marks=body.marks, comment=body.comment)
    plane.forget_quality()
    return answer(done)


@routes.get("/alerts/matching", response_model=schemas.Matching, openapi_extra=least("viewer"))
def count_matching_alerts(plane: CurrentPlane, query: Annotated[AlertQuery, Query()]) -> Response:
    """Count the unreviewed alerts of a filter, up to 10,000."""
    found = len(_matching_alerts(plane, query.search(now_ms())))
    return answer(schemas.Matching(count=min(found, bulk.MOST_MARKS), more=found > bulk.MOST_MARKS))


@routes.post("/alerts/marks/matching", response_model=case_models.BulkChange, openapi_extra=least("analyst"))
def mark_matching_alerts(
    plane: CurrentPlane, actor: CurrentActor, query: Annotated[AlertQuery, Query()], body: schemas.BulkMarkRequest
) -> Response:
    """Mark all unreviewed alerts of a filter, at most 10,000, with one row in the audit log."""
    search = query.search(now_ms())
    matching = _matching_alerts(plane, search)  # before the change: it can examine the whole index
    with plane.store.change(actor, body.comment) as work:
        done = bulk.mark_matching(work, actor, search, matching, body.verdict, body.comment)
    plane.forget_quality()
    return answer(done)


@routes.post("/bulk-changes/{row}/undo", response_model=case_models.BulkChange, openapi_extra=least("analyst"))
def undo_bulk_change(plane: CurrentPlane, actor: CurrentActor, row: Annotated[int, Path(ge=1, le=MAX_ID)]) -> Response:
    """Undo a bulk change, named by its row in the audit log. Cases and marks that users changed since stay."""
    with plane.store.change(actor) as work:
        done = bulk.undo(work, actor, row)
    plane.forget_quality()
    return answer(done)


@routes.get("/cases/{case_id}", response_model=case_models.CaseDetail, openapi_extra=least("viewer"))
def get_case(plane: CurrentPlane, case_id: CaseId) -> Response:
    """Read a case with its newest events, with its revision as the ETag. Its alerts are at `/alerts?caseId=ID`."""
    with plane.store.reading() as work:
        return _detail(work, case_id)


@routes.get("/cases/{case_id}/overview", response_model=schemas.CaseOverviewShown, openapi_extra=least("viewer"))
def get_case_overview(plane: CurrentPlane, case_id: CaseId) -> Response:
    """Read the amount at stake, the newest payments with their decisions, the lists, and the cases of other ids."""
    with plane.store.reading() as work:
        found = case_overview(work, case_id)
    ids = [str(each[ID_FIELD]) for each in found.payments]
    decisions = {each.transaction_id: each for each in _decisions(plane, ids)}
    return answer(
        schemas.CaseOverviewShown(
            field=found.field,
            value=found.value,
            payments=len(ids),
            complete=found.complete,
            amount_field=found.amount_field,
            amount=None if found.amount is None else f"{found.amount:f}",
            newest=[dict(each) for each in found.payments[:_NEWEST]],
            decisions=[decisions[each] for each in ids[:_NEWEST] if each in decisions],
            decision=max(decisions.values(), key=_effective_score, default=None),
            lists=list(found.lists),
            related=list(found.related),
        )
    )


@routes.put("/cases/{case_id}/assignee", response_model=case_models.CaseDetail, openapi_extra=least("analyst"))
def assign_case(
    plane: CurrentPlane, actor: CurrentActor, case_id: CaseId, body: schemas.AssignRequest, if_match: IfMatch = None
) -> Response:
    """Assign a case to a user who can work on it, or remove its assignee. With another user than you, this hands the
    case over; the comment is the note for them."""
    revision = revision_read(if_match)
    with plane.store.change(actor, body.comment) as work:
        changes.assign(work, actor, case_id, revision, body.assignee, body.comment)
        return _detail(work, case_id)


@routes.put("/cases/{case_id}/status", response_model=case_models.CaseDetail, openapi_extra=least("analyst"))
def change_case_status(
    plane: CurrentPlane, actor: CurrentActor, case_id: CaseId, body: schemas.CaseStatusRequest, if_match: IfMatch = None
) -> Response:
    """Start, close or reopen a case. IN_WORK assigns a case without an assignee to you.

    Alerts after the position `through` leave a case that closes, and open the next case of the entity. A case cannot
    be reopened while its entity has another open case (409)."""
    revision, through = revision_read(if_match), position_of(body.through)
    with plane.store.change(actor, body.comment) as work:
        changes.change_status(work, actor, case_id, revision, body.status, body.outcome, through, body.comment)
        return _detail(work, case_id)


@routes.post("/cases/{case_id}/comments", response_model=case_models.CaseDetail, openapi_extra=least("analyst"))
def comment_on_case(
    plane: CurrentPlane, actor: CurrentActor, case_id: CaseId, body: schemas.CaseCommentRequest
) -> Response:
    """Add a comment to a case."""
    with plane.store.change(actor, body.comment) as work:
        changes.comment_on(work, actor, case_id, body.comment)
        return _detail(work, case_id)


@routes.post("/cases/{case_id}/marks", response_model=case_models.BulkMarks, openapi_extra=least("analyst"))
def mark_case(plane: CurrentPlane, actor: CurrentActor, case_id: CaseId, body: schemas.MarkCaseRequest) -> Response:
    """Mark the unreviewed alerts of a case up to the position `through`, at most 1,000 of them."""
    with plane.store.change(actor) as work:
        marked = marks.mark_case(work, actor, case_id, body.verdict, position_of(body.through))
    plane.forget_quality()
    return answer(marked)


@routes.post("/alerts/marks", response_model=case_models.BulkMarks, openapi_extra=least("analyst"))
def mark_alerts(plane: CurrentPlane, actor: CurrentActor, body: schemas.MarkAlertsRequest) -> Response:
    """Mark several alerts of the alert index, also those that have another mark."""
    with plane.store.change(actor) as work:
        marked = marks.mark_alerts(work, actor, body.alert_ids, body.verdict)
    plane.forget_quality()
    return answer(marked)


def _decisions(plane: ControlPlane, ids: Sequence[str]) -> list[PaymentDecision]:
    """The decisions in memory about some payments. Of two about one payment, the newest comes last."""
    return [decision_shown(*each) for each in reversed(plane.memory.decisions.of_transactions(set(ids)))]


def _effective_score(decision: PaymentDecision) -> int:
    return decision.score if decision.corrected is None else decision.corrected.score


def _matching_alerts(plane: ControlPlane, search: AlertSearch) -> Sequence[str]:
    with plane.store.reading() as work:
        return bulk.matching_alerts(work.session, search, plane.snoozing())


def _detail(work: UnitOfWork, case_id: int) -> Response:
    work.session.flush()
    found = queries.case_detail(work, case_id)
    return answer(found, 200, {"ETag": f'"{found.revision}"'})
