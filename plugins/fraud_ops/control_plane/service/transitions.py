"""The changes that users make to a rule: create, edit, change the state, roll back, approve and reject.

Each function works in the writer's transaction and returns the rule after the change.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import func, select

from fraud_ops.control_plane.domain.canonical import document_of
from fraud_ops.control_plane.domain.errors import Conflict, Invalid, NotFound, RequestRefused
from fraud_ops.control_plane.domain.lifecycle import (
    ChangeMode,
    StateName,
    check_decision,
    mode_of_edit,
    mode_of_transition,
)
from fraud_ops.control_plane.domain.roles import Actor, Permission, Role, require
from fraud_ops.control_plane.domain.rule_input import MAX_RULE_ID, SOURCE, ManagedMembers
from fraud_ops.control_plane.domain.views import RuleChanged, RuleInput
from fraud_ops.control_plane.service.audit import AuditRecord
from fraud_ops.control_plane.service.changes import (
    NewRevision,
    UnitOfWork,
    checked_head,
    document_in,
    same,
    save,
    send_control,
)
from fraud_ops.control_plane.service.rule_book import revision_of
from fraud_ops.control_plane.store.models import ApprovalRow, RuleHead
from fraud_rules.codec.rules.apply import control_record
from fraud_rules.errors import Reason
from fraud_rules.model.rule import ControlType, Rule

__all__ = ["add_draft", "change_state", "control", "create", "decide", "edit", "end_all", "new_document", "rollback"]

_CONFIRMED: Final = frozenset(ControlType) - {ControlType.EXPORT_RULES_CURRENT}


def create(work: UnitOfWork, who: Actor, given: RuleInput, comment: str) -> RuleHead:
    """Create a draft. Raises Refused, Invalid, Conflict."""
    require(who, Permission.DRAFT)
    rule = work.reader.rule(given, ManagedMembers(None, StateName.DRAFT, free_id=_free_id(work)), strict=False)
    return add_draft(work, who, rule, work.session.get(RuleHead, rule.rule_id), comment, "rule.create")


def add_draft(work: UnitOfWork, who: Actor, rule: Rule, known: RuleHead | None, comment: str, action: str) -> RuleHead:
    """Create a draft of a parsed rule; `known` is the store's rule with the same id. Raises Refused, Conflict."""
    if known is not None and known.state != StateName.DELETE.value:
        raise Conflict(f"rule {rule.rule_id} already exists; omit ruleId to get a free id", known.revision)
    most = work.settings.bounds.rules
    if work.rules_in_use() >= most:
        raise RequestRefused(f"there are already {work.rules_in_use()} rules; at most {most} are allowed")
    _check_force(who, rule, None)
    document = document_in(StateName.DRAFT, rule)
    new = NewRevision(StateName.DRAFT, document, SOURCE, who.user, who.user, action, comment)
    return save(work, known, rule.rule_id, new)


def edit(work: UnitOfWork, who: Actor, rule_id: int, revision: int, given: RuleInput, comment: str) -> RuleHead:
    """Replace the document of a rule. Raises NotFound, Conflict, Refused, Invalid."""
    head = checked_head(work.session, rule_id, revision)
    mode_of_edit(StateName(head.state), who, four_eyes=work.settings.four_eyes)
    rule = work.reader.rule(given, ManagedMembers(rule_id, StateName(head.state), known=document_of(head.document)))
    return new_document(work, who, head, rule, comment, "rule.edit")


def new_document(work: UnitOfWork, who: Actor, head: RuleHead, rule: Rule, comment: str, action: str) -> RuleHead:
    """Replace the document by a parsed rule. An equal document changes nothing. Raises Refused."""
    state = StateName(head.state)
    course = mode_of_edit(state, who, four_eyes=work.settings.four_eyes)
    _check_force(who, rule, head)
    document = document_in(state, rule)
    if same(document, head.document):
        return head
    if course is ChangeMode.REQUEST:
        return _ask(work, who, head, "edit", document, comment, author=who.user)
    return save(work, head, head.rule_id, NewRevision(state, document, SOURCE, who.user, who.user, action, comment))


def change_state(work: UnitOfWork, who: Actor, rule_id: int, revision: int, state: StateName, comment: str) -> RuleHead:
    """Change the state of a rule. Raises NotFound, Conflict, Refused."""
    head = checked_head(work.session, rule_id, revision)
    own = head.author == who.user
    course = mode_of_transition(StateName(head.state), state, who, four_eyes=work.settings.four_eyes, own=own)
    if course is ChangeMode.REQUEST:
        return _ask(work, who, head, "state", head.document, comment, author=head.author, target=state)
    return _move(work, head, state, who.user, comment, {})


def rollback(work: UnitOfWork, who: Actor, rule_id: int, revision: int, to: int, comment: str) -> RuleHead:
    """Save an old document as a new revision. Raises NotFound, Conflict, Refused, Invalid."""
    head = checked_head(work.session, rule_id, revision)
    state = StateName(head.state)
    course = mode_of_edit(state, who, four_eyes=work.settings.four_eyes)
    old = revision_of(work.session, rule_id, to)
    document = _valid_in(work, state, document_of(old.document), rule_id)
    if same(document, head.document):
        return head
    if course is ChangeMode.REQUEST:
        return _ask(work, who, head, "rollback", document, comment, author=old.content_author)
    new = NewRevision(
        state, document, SOURCE, who.user, old.content_author, "rule.rollback", comment, detail={"to": to}
    )
    return save(work, head, rule_id, new)


def decide(work: UnitOfWork, who: Actor, approval_id: int, comment: str, *, approve: bool) -> ApprovalRow:
    """Approve or reject a request. Raises NotFound, Refused, Conflict, Invalid."""
    asked = work.session.get(ApprovalRow, approval_id)
    if asked is None:
        raise NotFound(f"approval {approval_id} does not exist")
    if asked.decision is not None:
        raise Conflict(f"approval {approval_id} has already been {asked.decision} by {asked.decided_by!a}")
    head = checked_head(work.session, asked.rule_id, asked.revision)
    if approve:
        check_decision(who, asked.requested_by, asked.author, four_eyes=work.settings.four_eyes)
        _settle(work, asked, head, "approved", who, comment)
        _carry_out(work, asked, head, who, comment)
        return asked
    own = asked.requested_by == who.user
    if not own:
        require(who, Permission.DECIDE)
    _settle(work, asked, head, "withdrawn" if own else "rejected", who, comment)
    deed = AuditRecord(
        who.user, "approval.reject", f"approval {asked.id}", _asked(asked), {"comment": comment}, asked.rule_id
    )
    work.append_audit(deed)
    work.changed.append(RuleChanged(asked.rule_id, head.revision))
    return asked


def control(work: UnitOfWork, who: Actor, named: str, confirm: str, comment: str) -> int:
    """Put a control for the rule log into the outbox; return its number there. Raises Refused, Invalid."""
    require(who, Permission.CONTROL)
    if named not in tuple(ControlType):
        raise Invalid([Reason("control", f"must be one of {', '.join(ControlType)}")])
    kind = ControlType(named)
    if kind in _CONFIRMED and confirm != kind.value:
        raise Invalid([Reason("confirm", f"type {kind.value} to confirm: this control cannot be undone")])
    entry = work.append_audit(AuditRecord(who.user, "control", kind.value, None, {"comment": comment}))
    wipes = kind is ControlType.DELETE_RULES_ALL
    seq = send_control(work, control_record(kind.value, SOURCE), entry, wipes=wipes)
    if wipes:
        end_all(work, who.user, SOURCE, comment, outbox_seq=seq)
    work.changed.append(RuleChanged(None, None))
    return seq


def end_all(
    work: UnitOfWork, who: str, source: str, comment: str, *,
    outbox_seq: int | None = None, log_version: int | None = None, keep: frozenset[int] = frozenset(),
) -> None:  # fmt: skip
    """End all rules of the log except those to `keep`, because one record of the log ends them. `outbox_seq` is the
    number of that record if it is ours.
    """
    in_log = [state.value for state in StateName if state.in_log]
    for head in work.session.scalars(select(RuleHead).where(RuleHead.state.in_(in_log)).order_by(RuleHead.rule_id)):
        if head.rule_id in keep:
            continue
        new = NewRevision(
            StateName.DELETE, head.document, source, who, head.author, "rule.delete_all", comment, publish=False
        )
        save(work, head, head.rule_id, new, outbox_seq=outbox_seq, log_version=log_version)


def _move(
    work: UnitOfWork, head: RuleHead, state: StateName, who: str, comment: str, detail: dict[str, object]
) -> RuleHead:
    document = document_of(head.document)
    moved = _valid_in(work, state, document, head.rule_id) if state.in_log else head.document
    new = NewRevision(state, moved, SOURCE, who, head.author, "rule.state", comment, detail=detail)
    return save(work, head, head.rule_id, new)


def _valid_in(work: UnitOfWork, state: StateName, document: dict[str, object], rule_id: int) -> str:
    """Validate a stored document for a state, because schema and limits may have changed. Raises Invalid."""
    return document_in(
        state, work.reader.rule(RuleInput(document=document), ManagedMembers(rule_id, state), strict=False)
    )


def _ask(
    work: UnitOfWork,
    who: Actor,
    head: RuleHead,
    action: str,
    document: str,
    comment: str,
    *,
    author: str,
    target: StateName | None = None,
) -> RuleHead:
    """Save a request for approval. Raises Refused if the rule already has an open request."""
    require(who, Permission.REQUEST)
    if head.approval_id is not None:
        raise RequestRefused(
            f"rule {head.rule_id} has the open approval {head.approval_id}, which must be decided first"
        )
    asked = ApprovalRow(
        rule_id=head.rule_id,
        revision=head.revision,
        action=action,
        target=None if target is None else target.value,
        document=document,
        author=author,
        requested_by=who.user,
        requested_at_ms=work.now_ms,
        comment=comment,
    )
    work.session.add(asked)
    work.session.flush()
    head.approval_id = asked.id
    deed = AuditRecord(who.user, "approval.request", f"approval {asked.id}", None, _asked(asked), head.rule_id)
    work.append_audit(deed)
    work.changed.append(RuleChanged(head.rule_id, head.revision))
    return head


def _carry_out(work: UnitOfWork, asked: ApprovalRow, head: RuleHead, who: Actor, comment: str) -> None:
    detail = {"approval": asked.id, "requestedBy": asked.requested_by, "requestComment": asked.comment}
    if asked.target is not None:
        _move(work, head, StateName(asked.target), who.user, comment, detail)
        return
    state = StateName(head.state)
    document = _valid_in(work, state, document_of(asked.document), head.rule_id)
    new = NewRevision(state, document, SOURCE, who.user, asked.author, f"rule.{asked.action}", comment, detail=detail)
    save(work, head, head.rule_id, new)


def _settle(work: UnitOfWork, asked: ApprovalRow, head: RuleHead, decision: str, who: Actor, comment: str) -> None:
    asked.decision, asked.decided_by = decision, who.user
    asked.decided_at_ms, asked.decision_comment = work.now_ms, comment
    head.approval_id = None
    work.session.flush()


def _asked(row: ApprovalRow) -> dict[str, object]:
    return {
        "action": row.action,
        "target": row.target,
        "revision": row.revision,
        "document": document_of(row.document),
        "requestedBy": row.requested_by,
        "comment": row.comment,
    }


def _check_force(who: Actor, rule: Rule, head: RuleHead | None) -> None:
    """Raise Refused if a user without the role approver adds `force`, which overrides the detector's state budget."""
    before = head is not None and document_of(head.document).get("force") is True
    if rule.force and not before and not who.role.includes(Role.APPROVER):
        raise RequestRefused(f"`force` needs the role {Role.APPROVER}; your role is {who.role}", forbidden=True)


def _free_id(work: UnitOfWork) -> int:
    """Choose the id after the highest one; if that is out of bounds, the lowest free id."""
    highest = work.session.scalar(select(func.max(RuleHead.rule_id))) or 0
    if highest < MAX_RULE_ID:
        return highest + 1
    used = set(work.session.scalars(select(RuleHead.rule_id)))
    return next(rule_id for rule_id in range(1, MAX_RULE_ID) if rule_id not in used)
