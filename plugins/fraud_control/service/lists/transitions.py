"""The changes that users make to a list: create, set, add, remove, delete.

The states of the rules that name a list decide who may change it, by the rules for an edit of such a rule. So a change
of a list that an ACTIVE rule names needs an approver and, with four eyes, a second person.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from fraud_control.domain.canonical import document_of
from fraud_control.domain.errors import Conflict, Invalid, RequestRefused
from fraud_control.domain.lifecycle import ChangeMode, is_second_person, mode_of_edit
from fraud_control.domain.list_input import check_expiry, check_size, list_change
from fraud_control.domain.list_models import ListInput
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.contributors import contributors_of
from fraud_control.service.items.heads import checked, list_head
from fraud_control.service.items.kind import NewRevision
from fraud_control.service.items.requests import decided_comment, detail_of, submit
from fraud_control.service.items.saving import save
from fraud_control.service.lists import content as lists
from fraud_control.service.lists.content import ListContent
from fraud_control.service.lists.expiries import expiries_of
from fraud_control.service.lists.faults import check_change
from fraud_control.service.lists.uses import strongest_state, uses_of
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.models import ApprovalRow, ListHead
from fraud_rules.codec.rules.list_plan import plan_set
from fraud_rules.codec.rules.lists import encode_list_records
from fraud_rules.errors import Reason
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ListValue

__all__ = ["carry_out", "change", "create", "parse_change", "parse_new", "plan", "put"]

_ACTION: Final = "list.change"
_WHOLE: Final = (ListOperation.SET, ListOperation.DELETE)


def parse_new(store: StoreAccess, actor: Actor, name: str, list_input: ListInput) -> ListContent:
    """Parse the values of a new list, before the writer's transaction, so that other changes do not wait for this work.
    Raises RequestRefused, Invalid.
    """
    require(actor, Permission.DRAFT)
    return _parsed(store, name, list_input, list_input.type)


def parse_change(store: StoreAccess, actor: Actor, name: str, list_input: ListInput) -> ListContent:
    """Parse a change of a list, before the writer's transaction. Raises NotFound, RequestRefused, Invalid."""
    require(actor, Permission.DRAFT)
    with store.reading() as work:
        value_type = ListType(list_head(work.session, name).type)
        uses_of(work.session, work.reader, name)  # parses new rules before other changes wait
    return _parsed(store, name, list_input, value_type)


def _parsed(store: StoreAccess, name: str, list_input: ListInput, value_type: ListType | None) -> ListContent:
    check_size(list_input, store.settings.bounds.list_bytes)
    change = list_change(name, list_input, value_type, SOURCE, store.reader.limits)
    return ListContent(change, list_input.expires_at_ms)


def create(work: UnitOfWork, actor: Actor, made: ListContent, comment: str = "") -> ListHead:
    """Create a list with its values: `made` is a SET. Raises RequestRefused, Invalid, Conflict."""
    require(actor, Permission.DRAFT)
    known = work.lists.head(made.change.name)
    if known is not None and not known.deleted:
        raise Conflict(f"the {known} already exists", known.revision)
    return put(work, actor, made, comment)


def change(
    work: UnitOfWork, actor: Actor, content: ListContent, revision: int | None = None, comment: str = ""
) -> ListHead:
    """Change the values of a list, delete the list, or request the change. SET and DELETE need the newest revision that
    the user has read, because they concern values of others. Raises NotFound, Conflict, RequestRefused, Invalid.
    """
    head, operation = list_head(work.session, content.change.name), content.change.operation
    if revision is not None:
        checked(head, revision)
    if revision is None and operation in _WHOLE:
        raise Invalid([Reason("revision", f"is needed for {operation}")])
    return put(work, actor, content, comment)


def put(work: UnitOfWork, actor: Actor, content: ListContent, comment: str) -> ListHead:
    """Save the change of a new or known list, or a request for it. A change without effect changes nothing.

    Raises RequestRefused, Invalid.
    """
    known, (mode, planned) = work.lists.head(content.change.name), plan(work, actor, content)
    if mode is None:
        assert known is not None  # a new list changes the store
        return known
    # An approval covers the change, not what others have changed before.
    contributors = frozenset({actor.user}) if mode is ChangeMode.REQUEST else None
    new = NewRevision(planned, actor.user, _ACTION, comment, contributors=contributors)
    return submit(work, lists, actor, known, mode, new, "list")


def plan(work: UnitOfWork, actor: Actor, content: ListContent) -> tuple[ChangeMode | None, ListContent]:
    """Decide how `put` proceeds, and plan the records; None for a change without effect.

    Raises RequestRefused, Invalid.
    """
    mode, change = ChangeMode.NOW, content.change
    if work.lists.current(change.name) is None:
        require(actor, Permission.DRAFT)
    else:
        mode = _mode(work, actor, change)
    check_expiry(change.operation, content.expires_at_ms, work.now_ms)
    check_change(work, change)
    records = _records(work, change, content.expires_at_ms)
    return mode if records else None, replace(content, planned=records)


def carry_out(work: UnitOfWork, request: ApprovalRow, head: ListHead, actor: Actor, comment: str) -> None:
    """Carry out an approved change. Raises Invalid, and RequestRefused if its values have expired since."""
    document = document_of(request.document)
    expires_at_ms = document.get("expiresAt")
    if expires_at_ms is not None and expires_at_ms <= work.now_ms:
        raise RequestRefused("the values of this request have expired: reject it")
    values: list[ListValue] = msgspec.json.decode(request.payload or "[]", type=list[int | str])
    operation = ListOperation(document["listOperation"])
    list_input = ListInput(operation, tuple(map(str, values)))
    change = list_change(head.name, list_input, ListType(head.type), SOURCE, work.reader.limits)
    check_change(work, change)
    records = _records(work, change, expires_at_ms)
    if records:
        approved = is_second_person(actor.user, request.requested_by, contributors_of(request))
        new = NewRevision(
            ListContent(change, expires_at_ms, records), actor.user, _ACTION,
            decided_comment(request, actor.user, comment), request.author,
            detail=detail_of(request) | {"decisionComment": comment},
            contributors=frozenset({request.author}) if approved and operation is ListOperation.SET else None,
        )  # fmt: skip
        save(work, lists, head, new)


def _mode(work: UnitOfWork, actor: Actor, change: ListChange) -> ChangeMode:
    if change.operation is ListOperation.DELETE:
        require(actor, Permission.DELETE)
        return ChangeMode.NOW  # only a list that no rule in force names can be deleted
    uses = uses_of(work.session, work.reader, change.name)
    return mode_of_edit(strongest_state(uses), actor, four_eyes=work.settings.four_eyes)


def _records(work: UnitOfWork, change: ListChange, expires_at_ms: int | None) -> list[bytes]:
    """The records of a change for the rule log; none for a change without effect.

    An ADD has also the values that are listed but expire at another time.
    """
    known = work.lists.current(change.name)
    limits = work.reader.limits
    values = change.values()
    if change.operation is ListOperation.DELETE:
        return encode_list_records(change.name, change.operation, None, [], SOURCE, limits.max_list_record_bytes)
    assert change.type is not None  # the type of the list
    if change.operation is ListOperation.SET:
        records = plan_set(known, change.name, change.type, values, SOURCE, limits)
        if records or (expires_at_ms is None and not expiries_of(work.session, change.name, values)):
            return records
        chosen, operation = values, ListOperation.ADD
    else:
        assert known is not None  # checked before
        expiries = expiries_of(work.session, change.name, values)
        adds, operation = change.operation is ListOperation.ADD, change.operation
        chosen = [
            value
            for value in values
            if known.contains(value) is not adds or (adds and expiries.get(str(value)) != expires_at_ms)
        ]
    if not chosen:
        return []
    return encode_list_records(change.name, operation, change.type, chosen, SOURCE, limits.max_list_record_bytes)
