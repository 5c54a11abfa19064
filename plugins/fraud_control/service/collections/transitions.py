"""The changes that users make to a list or map: create, set, add, remove, delete.

The states of the rules that name it decide who may change it, by the rules for an edit of such a rule. So a change of a
list or map that an ACTIVE rule names needs an approver and, with four eyes, a second person.
"""

from __future__ import annotations

from typing import Final

from fraud_control.domain.collection_input import check_expiry, check_size, collection_change
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.collection_types import item_of
from fraud_control.domain.errors import Conflict, Invalid
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import ChangeMode, mode_of_edit
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections import content as collections
from fraud_control.service.collections.content import CollectionContent, with_records
from fraud_control.service.collections.faults import check_change
from fraud_control.service.collections.summary import type_of_head
from fraud_control.service.collections.uses import strongest_state, uses_of
from fraud_control.service.items.heads import checked, collection_head
from fraud_control.service.items.kind import NewRevision
from fraud_control.service.items.requests import submit
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.models import ItemHead
from fraud_rules.errors import Reason
from fraud_rules.model.collection_history import CollectionChange, CollectionType
from fraud_rules.model.value_list import ListOperation

_WHOLE: Final = (ListOperation.SET, ListOperation.DELETE)


def parse_new(store: StoreAccess, actor: Actor, item: ItemName, collection_input: CollectionInput) -> CollectionContent:
    """Parse the content of a new list or map, before the writer's transaction, so that other changes do not wait for
    this work. Raises RequestRefused, Invalid.
    """
    require(actor, Permission.DRAFT)
    return _parsed(store, item, collection_input, collection_input.type)


def parse_change(
    store: StoreAccess, actor: Actor, item: ItemName, collection_input: CollectionInput
) -> CollectionContent:
    """Parse a change of a list or map, before the writer's transaction. Raises NotFound, RequestRefused, Invalid."""
    require(actor, Permission.DRAFT)
    with store.reading() as work:
        of_type = type_of_head(collection_head(work.session, item))
        uses_of(work.session, work.reader, item)  # parses new rules before other changes wait
    return _parsed(store, item, collection_input, of_type)


def _parsed(
    store: StoreAccess, item: ItemName, collection_input: CollectionInput, of_type: CollectionType | None
) -> CollectionContent:
    check_size(collection_input, store.settings.bounds.list_bytes)
    change = collection_change(item, collection_input, of_type, SOURCE, store.reader.limits)
    return CollectionContent(change, collection_input.expires_at_ms)


def create(work: UnitOfWork, actor: Actor, made: CollectionContent, comment: str = "") -> ItemHead:
    """Create a list or map with its content: `made` is a SET. Raises RequestRefused, Invalid, Conflict."""
    require(actor, Permission.DRAFT)
    known = work.head(item_of(made.change))
    if known is not None and not known.deleted:
        raise Conflict(f"the {known} already exists", known.revision)
    return put(work, actor, made, comment)


def change(
    work: UnitOfWork, actor: Actor, content: CollectionContent, revision: int | None = None, comment: str = ""
) -> ItemHead:
    """Change a list or map, delete it, or request the change. SET and DELETE need the newest revision that the user has
    read, because they concern values of others. Raises NotFound, Conflict, RequestRefused, Invalid.
    """
    head, operation = collection_head(work.session, item_of(content.change)), content.change.operation
    if revision is not None:
        checked(head, revision)
    if revision is None and operation in _WHOLE:
        raise Invalid([Reason("revision", f"is needed for {operation}")])
    return put(work, actor, content, comment)


def put(work: UnitOfWork, actor: Actor, content: CollectionContent, comment: str) -> ItemHead:
    """Save the change of a new or known list or map, or a request for it. A change without effect changes nothing.

    Raises RequestRefused, Invalid.
    """
    known, (mode, planned) = work.head(item_of(content.change)), plan(work, actor, content)
    if mode is None:
        assert known is not None  # a new one changes the store
        return known
    # An approval covers the change, not what others have changed before.
    contributors = frozenset({actor.user}) if mode is ChangeMode.REQUEST else None
    kind = content.change.kind.value
    new = NewRevision(planned, actor.user, f"{kind}.change", comment, contributors=contributors)
    return submit(work, collections, actor, known, mode, new, kind)


def plan(work: UnitOfWork, actor: Actor, content: CollectionContent) -> tuple[ChangeMode | None, CollectionContent]:
    """Decide how `put` proceeds, and plan the records; None for a change without effect.

    Raises RequestRefused, Invalid.
    """
    mode, change = ChangeMode.NOW, content.change
    if work.collections.current(item_of(change)) is None:
        require(actor, Permission.DRAFT)
    else:
        mode = _mode(work, actor, change)
    check_expiry(change.operation, content.expires_at_ms, work.now_ms)
    check_change(work, change)
    planned = with_records(work, content)
    return (None if planned is None else mode), planned or content


def _mode(work: UnitOfWork, actor: Actor, change: CollectionChange) -> ChangeMode:
    if change.operation is ListOperation.DELETE:
        require(actor, Permission.DELETE)
        return ChangeMode.NOW  # only a list or map that no rule in force names can be deleted
    uses = uses_of(work.session, work.reader, item_of(change))
    return mode_of_edit(strongest_state(uses), actor, four_eyes=work.settings.four_eyes)
