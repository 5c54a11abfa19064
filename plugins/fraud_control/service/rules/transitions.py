"""The changes that users make to a rule: create, edit, change the state, roll back.

Each function works in the writer's transaction.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import func, select

from fraud_control.domain.canonical import document_of
from fraud_control.domain.errors import Conflict, Invalid, RequestRefused
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import (
    ChangeMode,
    StateName,
    mode_of_edit,
    mode_of_transition,
)
from fraud_control.domain.read_models import ControlName, ControlResult, RuleChanged, RuleInput
from fraud_control.domain.roles import LEAST_ROLE, Actor, Permission, Role, require
from fraud_control.domain.rule_input import MAX_RULE_ID, SOURCE, ManagedMembers
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.uses import check_collections
from fraud_control.service.items.contributors import contributors_of, contributors_of_collections
from fraud_control.service.items.heads import checked, rule_head
from fraud_control.service.items.kind import NewRevision, Place
from fraud_control.service.items.requests import check_request, submit
from fraud_control.service.items.saving import save
from fraud_control.service.rules import content as rules
from fraud_control.service.rules.approved_content import approved_contents
from fraud_control.service.rules.content import RuleContent, document_in, same, stored_document_in, validated_rule
from fraud_control.service.rules.queries import revision_of
from fraud_control.store.models import ItemHead
from fraud_rules.codec.rules.apply import control_record
from fraud_rules.errors import Reason
from fraud_rules.model.rule import ControlType, Rule

_CONTROL_KEY: Final = b"control"
_NEEDS_CONFIRMATION: Final = frozenset(ControlType) - {ControlType.EXPORT_RULES_CURRENT}


def create(work: UnitOfWork, actor: Actor, rule_input: RuleInput, comment: str = "") -> ItemHead:
    """Create a rule as a draft. The state of the input is ignored. A rule without a ruleId gets a free id.

    Raises Invalid, RequestRefused, and Conflict if a rule with this id exists and is not deleted.
    """
    require(actor, Permission.DRAFT)
    rule = work.reader.rule(rule_input, ManagedMembers(None, StateName.DRAFT, free_id=free_id(work)), strict=False)
    known = work.head(ItemName.of_rule(rule.rule_id))
    if known is not None and not known.deleted:
        raise Conflict(f"rule {rule.rule_id} already exists; omit ruleId to get a free id", known.revision)
    return put(work, actor, rule, known, comment, "rule.create")


def edit(
    work: UnitOfWork, actor: Actor, rule_id: int, revision: int, rule_input: RuleInput, comment: str = ""
) -> ItemHead:
    """Replace the document of a rule and keep its state. If the change needs approval, save a request.

    Raises NotFound, Conflict, RequestRefused, Invalid.
    """
    head = checked(rule_head(work.session, rule_id), revision)
    mode_of_edit(StateName(head.state), actor, four_eyes=work.settings.four_eyes)
    rule = work.reader.rule(
        rule_input, ManagedMembers(rule_id, StateName(head.state), known=document_of(head.document))
    )
    return put(work, actor, rule, head, comment, "rule.edit")


def put(work: UnitOfWork, actor: Actor, rule: Rule, known: ItemHead | None, comment: str, action: str) -> ItemHead:
    """Create a draft of a parsed rule, or replace the document of a known rule. An equal document changes nothing.

    `known` is the stored rule with the same id, which may be deleted. Raises RequestRefused, Invalid.
    """
    mode = mode_of(work, actor, rule, known)
    if mode is None:
        assert known is not None  # a new rule changes the store
        return known
    state, contributors = _state(known), None
    if state is StateName.DELETE:
        state, contributors = StateName.DRAFT, frozenset({actor.user})  # a deleted rule leaves nothing to the new one
    changed = RuleContent(rule.rule_id, state, document_in(state, rule))
    new = NewRevision(changed, actor.user, action, comment, contributors=contributors)
    return submit(work, rules, actor, known, mode, new, "edit")


def mode_of(work: UnitOfWork, actor: Actor, rule: Rule, known: ItemHead | None) -> ChangeMode | None:
    """Decide how `put` proceeds; None if the document would not change. Raises RequestRefused, Invalid."""
    state, mode, maximum = _state(known), ChangeMode.NOW, work.settings.bounds.rules
    if known is None or state is StateName.DELETE:
        if work.rules_in_use() >= maximum:
            raise RequestRefused(f"there are already {work.rules_in_use()} rules; at most {maximum} are allowed")
        _check_force(actor, rule, None)
    else:
        mode = mode_of_edit(state, actor, four_eyes=work.settings.four_eyes)
        _check_force(actor, rule, known)
        if same(document_in(state, rule), known.document):
            return None
    check_collections(work.session, rule)
    work.names.check(rule, StateName.DRAFT if state is StateName.DELETE else state)
    if mode is ChangeMode.REQUEST and known is not None:
        check_request(actor, known)
    return mode


def _state(known: ItemHead | None) -> StateName:
    return StateName.DELETE if known is None else StateName(known.state)


def change_state(
    work: UnitOfWork, actor: Actor, rule_id: int, revision: int, state: StateName, comment: str = ""
) -> ItemHead:
    """Change the state of a rule, or request the change. Raises NotFound, Conflict, RequestRefused."""
    head = checked(rule_head(work.session, rule_id), revision)
    own = head.author == actor.user
    mode = mode_of_transition(StateName(head.state), state, actor, four_eyes=work.settings.four_eyes, own=own)
    work.names.check_state(rule_id, state, head.document)
    document = head.document if mode is ChangeMode.REQUEST else stored_document_in(work, state, rule_id, head.document)
    new = NewRevision(RuleContent(rule_id, state, document), actor.user, "rule.state", comment, head.author)
    return submit(work, rules, actor, head, mode, new, "state")


def rollback(work: UnitOfWork, actor: Actor, rule_id: int, revision: int, to: int, comment: str = "") -> ItemHead:
    """Save the document of an earlier revision as a new revision, or request it. The state stays. Content that was
    approved before needs no other approval.

    Raises NotFound, Conflict, RequestRefused, and Invalid if schema or limits have made the old document invalid.
    """
    head = checked(rule_head(work.session, rule_id), revision)
    state = StateName(head.state)
    mode = mode_of_edit(state, actor, four_eyes=work.settings.four_eyes)
    old = revision_of(work.session, rule_id, to)
    rule = validated_rule(work, state, document_of(old.document), rule_id)
    _check_force(actor, rule, head)
    document = document_in(state, rule)
    if same(document, head.document):
        return head
    contributors = contributors_of(head) | contributors_of(old) | {actor.user}
    detail: dict[str, object] = {"to": to}
    approval = _approval_of(work, actor, rule_id, document) if mode is ChangeMode.REQUEST else None
    if approval is not None:
        mode, contributors = ChangeMode.NOW, frozenset({old.content_author})
        detail["approvedBefore"] = approval
    new = NewRevision(
        RuleContent(rule_id, state, document), actor.user, "rule.rollback", comment, old.content_author,
        detail=detail, contributors=contributors,
    )  # fmt: skip
    return submit(work, rules, actor, head, mode, new, "rollback")


def _approval_of(work: UnitOfWork, actor: Actor, rule_id: int, document: str) -> str | None:
    """The earlier approval that lets an approver roll back at once. None if there is none, or if a list that the rule
    names has changed since its approval.
    """
    if not actor.role.includes(LEAST_ROLE[Permission.EDIT_LIVE]):
        return None
    if contributors_of_collections(work.session, work.reader, document):
        return None
    return approved_contents(work.session, rule_id, work.seeds).approval_of(document)


def control(work: UnitOfWork, actor: Actor, name: str, confirm: str = "", comment: str = "") -> ControlResult:
    """Send a control to the rule log. For all but EXPORT_RULES_CURRENT, `confirm` must repeat the control's name.

    Raises RequestRefused, Invalid.
    """
    require(actor, Permission.CONTROL)
    if name not in tuple(ControlType):
        raise Invalid([Reason("control", f"must be one of {', '.join(ControlType)}")])
    kind = ControlType(name)
    if kind in _NEEDS_CONFIRMATION and confirm != kind.value:
        raise Invalid([Reason("confirm", f"type {kind.value} to confirm: this control cannot be undone")])
    entry = work.append_audit(AuditRecord(actor.user, "control", kind.value, None, {"comment": comment}))
    wipes = kind is ControlType.DELETE_RULES_ALL
    seq = work.send(_CONTROL_KEY, control_record(kind.value, SOURCE), entry, wipes=wipes)
    if wipes:
        delete_all(work, actor.user, SOURCE, comment, Place(seq))
    work.changed.append(RuleChanged(None, None))
    return ControlResult(control=ControlName(kind.value), seq=seq)


def delete_all(
    work: UnitOfWork, who: str, source: str, comment: str, place: Place, keep: frozenset[int] = frozenset()
) -> None:
    """Delete all rules of the rule log except `keep`, as the effect of the DELETE_RULES_ALL at a place."""
    in_log = [state.value for state in StateName if state.in_log]
    rules_in_log = select(ItemHead).where(ItemHead.kind == RULE, ItemHead.state.in_(in_log)).order_by(ItemHead.number)
    for head in work.session.scalars(rules_in_log):
        rule_id = int(head.item_key)
        if rule_id in keep:
            continue
        deleted = RuleContent(rule_id, StateName.DELETE, head.document)
        new = NewRevision(deleted, who, "rule.delete_all", comment, head.author, source, place=place)
        save(work, rules, head, new)


def _check_force(actor: Actor, rule: Rule, head: ItemHead | None) -> None:
    """Refuse `force`, which overrides the budgets, if a user below the role approver adds it."""
    before = head is not None and document_of(head.document).get("force") is True
    if rule.force and not before and not actor.role.includes(Role.APPROVER):
        raise RequestRefused(f"`force` needs the role {Role.APPROVER}; your role is {actor.role}", forbidden=True)


def free_id(work: UnitOfWork) -> int:
    """Choose the id after the highest one; if that is out of bounds, the lowest free id."""
    highest = work.session.scalar(select(func.max(ItemHead.number)).where(ItemHead.kind == RULE)) or 0
    if highest < MAX_RULE_ID:
        return highest + 1
    used = set(work.session.scalars(select(ItemHead.number).where(ItemHead.kind == RULE)))
    return next(rule_id for rule_id in range(1, MAX_RULE_ID) if rule_id not in used)
