"""Requests for approval: a change of a rule or list that waits for a second person."""

from __future__ import annotations

from typing import Final, TypeVar

from fraud_control.domain.canonical import decoded, document_of
from fraud_control.domain.errors import Invalid, RequestRefused
from fraud_control.domain.lifecycle import ChangeMode
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.basis import current_basis, encode_basis
from fraud_control.service.items.contributors import contributors_of, contributors_of_collections, encode_contributors
from fraud_control.service.items.kind import Kind, NewRevision
from fraud_control.service.items.saving import contributors_after, save
from fraud_control.store.models import ApprovalRow, ItemHead
from fraud_rules.errors import Reason

Content = TypeVar("Content")
_NO_REASON: Final = Reason("comment", "state the reason: this change needs an approval, and the approver decides by it")


def submit(
    work: UnitOfWork,
    kind: Kind[Content],
    actor: Actor,
    known: ItemHead | None,
    mode: ChangeMode,
    new: NewRevision[Content],
    action: str,
) -> ItemHead:
    """Save the change of a user, or a request for it. The comment of a request is the reason, by which the approver
    decides. The contributors of the lists that a requested rule names join those of the change.

    Raises RequestRefused if the item already has an open request, and Invalid for a request without a comment.
    """
    if mode is ChangeMode.NOW:
        return save(work, kind, known, new)
    assert known is not None  # a new item needs no request
    head = known
    check_request(actor, head)
    if not new.comment.strip():
        raise Invalid([_NO_REASON])
    request = ApprovalRow(
        kind=head.kind,
        item_key=head.item_key,
        **kind.requested(head, new.content),
        revision=head.revision,
        action=action,
        author=new.content_author,
        requested_by=actor.user,
        requested_at_ms=work.now_ms,
        comment=new.comment,
    )
    of_lists = contributors_of_collections(work.session, work.reader, request.document)
    request.contributors = encode_contributors(contributors_after(kind, head, new) | of_lists)
    request.basis = encode_basis(current_basis(work, request, head))
    work.session.add(request)
    work.session.flush()
    work.requested_parts = None
    head.approval_id = request.id
    _audit(work, actor, request, "approval.request", None, _describe(request))
    work.report(head)
    return head


def check_request(actor: Actor, head: ItemHead) -> None:
    """Check whether the user can request a change of the rule or list. Raises RequestRefused."""
    require(actor, Permission.REQUEST)
    if head.approval_id is not None:
        raise RequestRefused(f"{head} has the open approval {head.approval_id}, which must be decided first")


def record_decision(
    work: UnitOfWork, request: ApprovalRow, head: ItemHead, decision: str, actor: Actor, comment: str
) -> None:
    """Record the decision about a request, which closes it."""
    request.decision, request.decided_by = decision, actor.user
    request.decided_at_ms, request.decision_comment = work.now_ms, comment
    head.approval_id = None
    work.session.flush()


def record_rejection(work: UnitOfWork, request: ApprovalRow, head: ItemHead, actor: Actor, comment: str) -> None:
    """Close a request without a change, in the audit log too. Users withdraw their own requests; the rejection of
    another user's request raises RequestRefused for a low role.
    """
    own = request.requested_by == actor.user
    if not own:
        require(actor, Permission.DECIDE)
    record_decision(work, request, head, "withdrawn" if own else "rejected", actor, comment)
    _audit(work, actor, request, "approval.reject", _describe(request), {"comment": comment})
    work.report(head)


def decided_comment(request: ApprovalRow, approver: str, comment: str) -> str:
    """The comment of the revision that an approval creates: both reasons, each with its user."""
    asked = f"requested by {request.requested_by}: {request.comment}"
    return f"{asked}; approved by {approver}" + (f": {comment}" if comment else "")


def detail_of(request: ApprovalRow) -> dict[str, object]:
    """The members of the audit row about a change that an approver carries out."""
    return {"approval": request.id, "requestedBy": request.requested_by, "requestComment": request.comment}


def _audit(
    work: UnitOfWork,
    actor: Actor,
    request: ApprovalRow,
    action: str,
    before: dict[str, object] | None,
    after: dict[str, object],
) -> None:
    about = f"approval {request.id}"
    work.append_audit(AuditRecord(actor.user, action, about, before, after, request.item))


def _describe(row: ApprovalRow) -> dict[str, object]:
    return {
        "action": row.action,
        "target": row.target,
        "revision": row.revision,
        "basis": None if row.basis is None else decoded(row.basis),
        "document": document_of(row.document),
        "requestedBy": row.requested_by,
        "contributors": sorted(contributors_of(row)),
        "comment": row.comment,
    }
