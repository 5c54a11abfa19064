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
    work: UnitOfWork, actor: Actor, wanted: ListContent, revision: int | None = None, comment: str = ""
) -> ListHead:
    """Change the values of a list, delete the list, or request the change. SET and DELETE need the newest revision that
    the user has read, because they concern values of others. Raises NotFound, Conflict, RequestRefused, Invalid.
    """
    head, operation = list_head(work.session, wanted.change.name), wanted.change.operation
    if revision is not None:
        checked(head, revision)
    if revision is None and operation in _WHOLE:
        raise Invalid([Reason("revision", f"is needed for {operation}")])
    return put(work, actor, wanted, comment)


def put(work: UnitOfWork, actor: Actor, wanted: ListContent, comment: str) -> ListHead:
    """Save the change of a new or known list, or a request for it. A change without effect changes nothing.

    Raises RequestRefused, Invalid.
    """
    known, (mode, planned) = work.lists.head(wanted.change.name), plan(work, actor, wanted)
    if mode is None:
        assert known is not None  # a new list changes the store
        return known
    # An approval covers the change, not what others have changed before.
    contributors = frozenset({actor.user}) if mode is ChangeMode.REQUEST else None
    new = NewRevision(planned, actor.user, _ACTION, comment, contributors=contributors)
    return submit(work, lists, actor, known, mode, new, "list")


def plan(work: UnitOfWork, actor: Actor, wanted: ListContent) -> tuple[ChangeMode | None, ListContent]:
    """Decide how `put` proceeds, and plan the records; None for a change without effect.

    Raises RequestRefused, Invalid.
    """
    mode, change = ChangeMode.NOW, wanted.change
    if work.lists.current(change.name) is None:
        require(actor, Permission.DRAFT)
    else:
        mode = _mode(work, actor, change)
    check_expiry(change.operation, wanted.expires_at_ms, work.now_ms)
    check_change(work, change)
    records = _records(work, change, wanted.expires_at_ms)
    return mode if records else None, replace(wanted, planned=records)


def carry_out(work: UnitOfWork, request: ApprovalRow, head: ListHead, actor: Actor, comment: str) -> None:
    """Carry out an approved change. Raises Invalid, and RequestRefused if its values have expired since."""
    document = document_of(request.document)
    expires_at_ms = document.get("expiresAt")
    if expires_at_ms is not None and expires_at_ms <= work.now_ms:
        raise RequestRefused("the values of this request have expired: reject it")
    values: list[ListValue] = msgspec.json.decode(request.payload or "[]", type=list[int | str])
    operation = ListOperation(document["listOperation"])
    list_input = ListInput(operation, tuple(map(str, values)))
    wanted = list_change(head.name, list_input, ListType(head.type), SOURCE, work.reader.limits)
    check_change(work, wanted)
    records = _records(work, wanted, expires_at_ms)
    if records:
        approved = is_second_person(actor.user, request.requested_by, contributors_of(request))
        new = NewRevision(
            ListContent(wanted, expires_at_ms, records), actor.user, _ACTION,
            decided_comment(request, actor.user, comment), request.author,
            detail=detail_of(request) | {"decisionComment": comment},
            contributors=frozenset({request.author}) if approved and operation is ListOperation.SET else None,
        )  # fmt: skip
        save(work, lists, head, new)


def _mode(work: UnitOfWork, actor: Actor, wanted: ListChange) -> ChangeMode:
    if wanted.operation is ListOperation.DELETE:
        require(actor, Permission.DELETE)
        return ChangeMode.NOW  # only a list that no rule in force names can be deleted
    uses = uses_of(work.session, work.reader, wanted.name)
    return mode_of_edit(strongest_state(uses), actor, four_eyes=work.settings.four_eyes)


def _records(work: UnitOfWork, wanted: ListChange, expires_at_ms: int | None) -> list[bytes]:
    """The records of a change for the rule log; none for a change without effect.

    An ADD has also the values that are listed but expire at another time.
    """
    known = work.lists.current(wanted.name)
    limits = work.reader.limits
    values = wanted.values()
    if wanted.operation is ListOperation.DELETE:
        return encode_list_records(wanted.name, wanted.operation, None, [], SOURCE, limits.max_list_record_bytes)
    assert wanted.type is not None  # the type of the list
    if wanted.operation is ListOperation.SET:
        records = plan_set(known, wanted.name, wanted.type, values, SOURCE, limits)
        if records or (expires_at_ms is None and not expiries_of(work.session, wanted.name, values)):
            return records
        chosen, operation = values, ListOperation.ADD
    else:
        assert known is not None  # checked before
        expiries = expiries_of(work.session, wanted.name, values)
        adds, operation = wanted.operation is ListOperation.ADD, wanted.operation
        chosen = [
            value
            for value in values
            if known.contains(value) is not adds or (adds and expiries.get(str(value)) != expires_at_ms)
        ]
    if not chosen:
        return []
    return encode_list_records(wanted.name, operation, wanted.type, chosen, SOURCE, limits.max_list_record_bytes)
