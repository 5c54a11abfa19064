"""Saves requests for approval, in the writer's transaction."""

from __future__ import annotations

from fraud_ops.control_plane.domain.canonical import document_of
from fraud_ops.control_plane.domain.errors import RequestRefused
from fraud_ops.control_plane.domain.lifecycle import StateName
from fraud_ops.control_plane.domain.read_models import RuleChanged
from fraud_ops.control_plane.domain.roles import Actor, Permission, require
from fraud_ops.control_plane.service.audit import AuditRecord
from fraud_ops.control_plane.service.changes import UnitOfWork
from fraud_ops.control_plane.service.contributors import contributors_of, encode_contributors
from fraud_ops.control_plane.store.models import ApprovalRow, RuleHead

__all__ = ["check_request", "describe_request", "request_approval"]


def request_approval(
    work: UnitOfWork,
    actor: Actor,
    head: RuleHead,
    action: str,
    document: str,
    comment: str,
    *,
    author: str,
    contributors: frozenset[str],
    target: StateName | None = None,
) -> RuleHead:
    """Save a request for approval. `contributors` are the users who changed `document` since its last approval.

    Raises RequestRefused if the rule already has an open request.
    """
    check_request(actor, head)
    request = ApprovalRow(
        rule_id=head.rule_id,
        revision=head.revision,
        action=action,
        target=None if target is None else target.value,
        document=document,
        author=author,
        contributors=encode_contributors(contributors),
        requested_by=actor.user,
        requested_at_ms=work.now_ms,
        comment=comment,
    )
    work.session.add(request)
    work.session.flush()
    head.approval_id = request.id
    record = AuditRecord(
        actor.user, "approval.request", f"approval {request.id}", None, describe_request(request), head.rule_id
    )
    work.append_audit(record)
    work.changed.append(RuleChanged(head.rule_id, head.revision))
    return head


def check_request(actor: Actor, head: RuleHead) -> None:
    """Check whether the user can request a change of the rule. Raises RequestRefused."""
    require(actor, Permission.REQUEST)
    if head.approval_id is not None:
        raise RequestRefused(
            f"rule {head.rule_id} has the open approval {head.approval_id}, which must be decided first"
        )


def describe_request(row: ApprovalRow) -> dict[str, object]:
    """Describe a request for the audit log."""
    return {
        "action": row.action,
        "target": row.target,
        "revision": row.revision,
        "document": document_of(row.document),
        "requestedBy": row.requested_by,
        "contributors": sorted(contributors_of(row)),
        "comment": row.comment,
    }
