"""Governed items, rules and lists, at their newest effective revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.errors import Conflict, NotFound
from fraud_control.domain.read_models import Approval
from fraud_control.service.ids import batches, storable_id
from fraud_control.store.models import ApprovalRow, ItemHead, ListHead, RuleHead

__all__ = ["checked", "is_published", "list_head", "pending", "requested_head", "rule_head"]

_Head = TypeVar("_Head", bound=ItemHead)


def rule_head(session: Session, rule_id: int) -> RuleHead:
    """Read a rule, which may be deleted. Raises NotFound."""
    head = session.get(RuleHead, storable_id(rule_id))
    if head is None:
        raise NotFound(f"rule {rule_id} does not exist")
    return head


def list_head(session: Session, name: str) -> ListHead:
    """Read a list. Raises NotFound, also for a deleted list."""
    head = session.get(ListHead, name)
    if head is None or head.deleted:
        raise NotFound(f"there is no list {name!a}")
    return head


def requested_head(session: Session, request: ApprovalRow) -> RuleHead | ListHead:
    """Read the rule or list of a request for approval. Raises NotFound, and Conflict if it has changed since."""
    if request.rule_id is not None:
        return checked(rule_head(session, request.rule_id), request.revision)
    return checked(list_head(session, request.list_name or ""), request.revision)


def checked(head: _Head, revision: int) -> _Head:
    """Check that `revision` is the newest revision of an item. Raises Conflict."""
    if head.revision != revision:
        newest = f"its revision is {head.revision}, not {revision}"
        raise Conflict(f"{head.updated_by!a} has changed {head}: {newest}", head.revision)
    return head


def pending(session: Session, heads: Iterable[ItemHead]) -> Mapping[int | None, Approval]:
    """The open requests of items, by `approval_id`."""
    ids = [head.approval_id for head in heads if head.approval_id is not None]
    requests = (session.scalars(select(ApprovalRow).where(ApprovalRow.id.in_(some))) for some in batches(ids))
    return {row.id: Approval.model_validate(row) for some in requests for row in some}


def is_published(head: ItemHead) -> bool:
    """Whether the rule log has the newest revision of an item, or needs no record of it."""
    return head.outbox_seq is None or head.log_version is not None
