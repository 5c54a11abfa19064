"""Decides requests for approval: carries out the approved change, or rejects the request."""

from __future__ import annotations

from collections.abc import Mapping

from fraud_control.domain.errors import Conflict, NotFound
from fraud_control.domain.lifecycle import check_decision, is_second_person
from fraud_control.domain.read_models import Approval
from fraud_control.domain.roles import Actor
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import storable_id
from fraud_control.service.items.basis import check_basis
from fraud_control.service.items.contributors import contributors_of, contributors_of_collections, record_approval
from fraud_control.service.items.heads import requested_head
from fraud_control.service.items.kind import NewRevision
from fraud_control.service.items.kinds import KINDS
from fraud_control.service.items.requests import decided_comment, detail_of, record_decision, record_rejection
from fraud_control.service.items.saving import save
from fraud_control.store.models import ApprovalRow, ItemHead


def decide(
    work: UnitOfWork,
    actor: Actor,
    approval_id: int,
    comment: str = "",
    *,
    approve: bool,
    shown: Mapping[str, int] | None = None,
) -> Approval:
    """Approve or reject a request. Users withdraw their own requests by rejecting them. `shown` is the basis that the
    approver saw; None for that of the request.

    Raises NotFound, RequestRefused, Invalid, and Conflict if the request has been decided, or the rule or a list that
    it names has changed since.
    """
    request = work.session.get(ApprovalRow, storable_id(approval_id))
    if request is None:
        raise NotFound(f"approval {approval_id} does not exist")
    if request.decision is not None:
        why = f": {request.decision_comment}" if request.decision == "withdrawn" and request.decision_comment else ""
        raise Conflict(f"approval {approval_id} has already been {request.decision} by {request.decided_by!a}{why}")
    head = requested_head(work.session, request)
    if not approve:
        record_rejection(work, request, head, actor, comment)
        return Approval.model_validate(request)
    check_basis(work, request, head, shown)
    # A list can change after the request of a rule that names it.
    contributors = contributors_of(request) | contributors_of_collections(work.session, work.reader, request.document)
    check_decision(actor, request.requested_by, contributors, four_eyes=work.settings.four_eyes)
    record_decision(work, request, head, "approved", actor, comment)
    _carry_out(work, request, head, actor, comment)
    if is_second_person(actor.user, request.requested_by, contributors):
        record_approval(work.session, work.reader, request.document)
    return Approval.model_validate(request)


def _carry_out(work: UnitOfWork, request: ApprovalRow, head: ItemHead, actor: Actor, comment: str) -> None:
    """Save the requested content. A change without effect changes nothing. Raises Invalid, RequestRefused."""
    kind = KINDS[head.kind]
    content = kind.approved(work, request, head)
    if content is None:
        return
    contributors = contributors_of(request)
    # Without four eyes, a contributor may approve.
    if content.is_whole and is_second_person(actor.user, request.requested_by, contributors):
        contributors = frozenset({request.author})
    else:
        contributors |= contributors_of(head)
    action = "change" if request.action == head.kind else request.action
    new = NewRevision(
        content, actor.user, f"{head.kind}.{action}", decided_comment(request, actor.user, comment), request.author,
        detail=detail_of(request), contributors=contributors,
    )  # fmt: skip
    save(work, kind, head, new)
