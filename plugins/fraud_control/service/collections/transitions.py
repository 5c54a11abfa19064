"""The changes that users make to a list: create, set, add, remove, delete.

The states of the rules that name a list decide who may change it, by the rules for an edit of such a rule. So a change
of a list that an ACTIVE rule names needs an approver and, with four eyes, a second person.
"""

from __future__ import annotations

from typing import Final

from fraud_control.domain.collection_input import check_expiry, check_size, list_change
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.errors import Conflict, Invalid
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import ChangeMode, mode_of_edit
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections import content as lists
from fraud_control.service.collections.content import CollectionContent, with_records
from fraud_control.service.collections.faults import check_change
from fraud_control.service.collections.summary import summary_of
from fraud_control.service.collections.uses import strongest_state, uses_of
from fraud_control.service.items.heads import checked, list_head
from fraud_control.service.items.kind import NewRevision
from fraud_control.service.items.requests import submit
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.models import ItemHead
from fraud_rules.errors import Reason
from fraud_rules.model.value_list import ListChange, ListOperation, ListType

__all__ = ["change", "create", "parse_change", "parse_new", "plan", "put"]

_ACTION: Final = "list.change"
_WHOLE: Final = (ListOperation.SET, ListOperation.DELETE)


def parse_new(store: StoreAccess, actor: Actor, name: str, collection_input: CollectionInput) -> CollectionContent:
    """Parse the values of a new list, before the writer's transaction, so that other changes do not wait for this work.
    Raises RequestRefused, Invalid.
    """
    require(actor, Permission.DRAFT)
    return _parsed(store, name, collection_input, collection_input.type)


def parse_change(store: StoreAccess, actor: Actor, name: str, collection_input: CollectionInput) -> CollectionContent:
    """Parse a change of a list, before the writer's transaction. Raises NotFound, RequestRefused, Invalid."""
    require(actor, Permission.DRAFT)
    with store.reading() as work:
        value_type = summary_of(list_head(work.session, name)).type
        uses_of(work.session, work.reader, name)  # parses new rules before other changes wait
    return _parsed(store, name, collection_input, value_type)


def _parsed(
    store: StoreAccess, name: str, collection_input: CollectionInput, value_type: ListType | None
) -> CollectionContent:
    check_size(collection_input, store.settings.bounds.list_bytes)
    change = list_change(name, collection_input, value_type, SOURCE, store.reader.limits)
    return CollectionContent(change, collection_input.expires_at_ms)


def create(work: UnitOfWork, actor: Actor, made: CollectionContent, comment: str = "") -> ItemHead:
    """Create a list with its values: `made` is a SET. Raises RequestRefused, Invalid, Conflict."""
    require(actor, Permission.DRAFT)
    known = work.head(ItemName.of_list(made.change.name))
    if known is not None and not known.deleted:
        raise Conflict(f"the {known} already exists", known.revision)
    return put(work, actor, made, comment)


def change(
    work: UnitOfWork, actor: Actor, content: CollectionContent, revision: int | None = None, comment: str = ""
) -> ItemHead:
    """Change the values of a list, delete the list, or request the change. SET and DELETE need the newest revision that
    the user has read, because they concern values of others. Raises NotFound, Conflict, RequestRefused, Invalid.
    """
    head, operation = list_head(work.session, content.change.name), content.change.operation
    if revision is not None:
        checked(head, revision)
    if revision is None and operation in _WHOLE:
        raise Invalid([Reason("revision", f"is needed for {operation}")])
    return put(work, actor, content, comment)


def put(work: UnitOfWork, actor: Actor, content: CollectionContent, comment: str) -> ItemHead:
    """Save the change of a new or known list, or a request for it. A change without effect changes nothing.

    Raises RequestRefused, Invalid.
    """
    known, (mode, planned) = work.head(ItemName.of_list(content.change.name)), plan(work, actor, content)
    if mode is None:
        assert known is not None  # a new list changes the store
        return known
    # An approval covers the change, not what others have changed before.
    contributors = frozenset({actor.user}) if mode is ChangeMode.REQUEST else None
    new = NewRevision(planned, actor.user, _ACTION, comment, contributors=contributors)
    return submit(work, lists, actor, known, mode, new, "list")


def plan(work: UnitOfWork, actor: Actor, content: CollectionContent) -> tuple[ChangeMode | None, CollectionContent]:
    """Decide how `put` proceeds, and plan the records; None for a change without effect.

    Raises RequestRefused, Invalid.
    """
    mode, change = ChangeMode.NOW, content.change
    if work.collections.current(change.name) is None:
        require(actor, Permission.DRAFT)
    else:
        mode = _mode(work, actor, change)
    check_expiry(change.operation, content.expires_at_ms, work.now_ms)
    check_change(work, change)
    planned = with_records(work, content)
    return (None if planned is None else mode), planned or content


def _mode(work: UnitOfWork, actor: Actor, change: ListChange) -> ChangeMode:
    if change.operation is ListOperation.DELETE:
        require(actor, Permission.DELETE)
        return ChangeMode.NOW  # only a list that no rule in force names can be deleted
    uses = uses_of(work.session, work.reader, change.name)
    return mode_of_edit(strongest_state(uses), actor, four_eyes=work.settings.four_eyes)
