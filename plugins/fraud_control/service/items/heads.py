"""Governed items, rules, lists and maps, at their newest effective revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from fraud_control.domain.errors import Conflict, NotFound
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import Approval
from fraud_control.service.ids import batches, storable_id
from fraud_control.store.models import ApprovalRow, ItemHead


def in_use(kind: str) -> ColumnElement[bool]:
    """Whether an item is of this kind and not deleted, as a condition."""
    return and_(ItemHead.kind == kind, ItemHead.state != StateName.DELETE.value)


def rule_head(session: Session, rule_id: int) -> ItemHead:
    """Read a rule, which may be deleted. Raises NotFound."""
    head = session.get(ItemHead, ItemName.of_rule(storable_id(rule_id)))
    if head is None:
        raise NotFound(f"rule {rule_id} does not exist")
    return head


def collection_head(session: Session, item: ItemName) -> ItemHead:
    """Read a list or map. Raises NotFound, also for a deleted one."""
    head = session.get(ItemHead, item)
    if head is None or head.deleted:
        raise NotFound(f"there is no {item.kind} {item.key!a}")
    return head


def requested_head(session: Session, request: ApprovalRow) -> ItemHead:
    """Read the item of a request for approval. Raises Conflict if it has changed since."""
    return checked(session.get_one(ItemHead, request.item), request.revision)


def checked(head: ItemHead, revision: int) -> ItemHead:
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
