"""Saves a change of an item: its revision, its audit row and its records in the outbox, in the writer's transaction."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import update

from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.contributors import encode_contributors
from fraud_control.service.items.kind import Kind, NewRevision, Place, Sent
from fraud_control.store.models import ApprovalRow, ItemHead, RevisionRow

Content = TypeVar("Content")


def save(work: UnitOfWork, kind: Kind[Content], known: ItemHead | None, new: NewRevision[Content]) -> ItemHead:
    """Save the next revision of an item, or the first one of a new item (`known` is None). Return the item.

    The change withdraws an open request of the item. Raises Unavailable if too many records already wait in the outbox.
    """
    head = _new_head(kind.name_of(new.content)) if known is None else known
    before = None if known is None else {"revision": known.revision, **kind.facts(known)}
    revision = 1 if known is None else known.last_revision + 1
    facts = kind.described(work, new.content)
    after = {"revision": revision, **facts, **({"comment": new.comment} if new.comment else {}), **new.detail}
    entry = work.append_audit(AuditRecord(new.who, new.action, str(head), before, after, head.item))
    sent: list[Sent] = [(None, new.place)] if new.place is not None else [
        (record, Place(work.send(kind.log_key(head), record, entry, revision)))
        for record in kind.records(work, head, new)
    ]  # fmt: skip
    if not new.keeps_request:
        withdraw(work, known, new.who)
    head.revision = head.last_revision = revision
    head.source, head.updated_by = new.source, new.who
    head.updated_at_ms = work.now_ms if new.at_ms is None else new.at_ms
    head.contributors = encode_contributors(contributors_after(kind, known, new))
    kind.apply(work, head, new, sent, facts)
    work.report(head)
    return head


def revision_row(head: ItemHead, new: NewRevision[Any], place: Place, **content: Any) -> RevisionRow:
    """The row of a revision with the highest number of the item. `content` has the columns of its content."""
    return RevisionRow(
        kind=head.kind,
        item_key=head.item_key,
        revision=head.last_revision,
        source=new.source,
        author=new.who,
        content_author=new.content_author,
        at_ms=head.updated_at_ms if new.at_ms is None else new.at_ms,
        comment=new.comment,
        outbox_seq=place.outbox_seq,
        log_version=place.log_version,
        **{"part": 0, "contributors": head.contributors, "operation": "", "type": "", **content},
    )


def contributors_after(kind: Kind[Content], known: ItemHead | None, new: NewRevision[Content]) -> frozenset[str]:
    """The users who changed the content, with this change, since the last approval."""
    if new.contributors is not None:
        return new.contributors
    return frozenset({new.content_author, *(() if known is None else kind.inherited(known))})


def withdraw(work: UnitOfWork, head: ItemHead | None, who: str, reason: str = "") -> None:
    """Withdraw the open request of an item, because the item changes, or for another reason."""
    if head is None or head.approval_id is None:
        return
    work.session.execute(
        update(ApprovalRow)
        .where(ApprovalRow.id == head.approval_id, ApprovalRow.decision.is_(None))
        .values(
            decision="withdrawn",
            decided_by=who,
            decided_at_ms=work.now_ms,
            decision_comment=reason or f"the {head.kind} has changed",
        )
    )
    head.approval_id = None
    if reason:  # no other change reports the item
        work.report(head)


def _new_head(item: ItemName) -> ItemHead:
    """The head of a new item, not yet in the session."""
    number, state = item.rule_id, StateName.DELETE.value
    return ItemHead(kind=item.kind, item_key=item.key, number=number, state=state, last_revision=0)
