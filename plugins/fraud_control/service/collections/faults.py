"""The reasons for which the rule log rejects a change of a list or map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from fraud_control.domain.collection_types import item_of
from fraud_control.domain.errors import Invalid
from fraud_control.domain.item import MAP
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.summary import summary_of
from fraud_control.service.collections.uses import in_force
from fraud_control.store.models import ItemHead
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.collection_history import Collection, CollectionChange, CollectionType, change_faults
from fraud_rules.model.value_list import ListOperation
from fraud_rules.model.value_map import MapChange, MapType, ValueMap


def check_change(work: UnitOfWork, change: CollectionChange) -> None:
    """Check a change that follows all others. Raises Invalid."""
    item = item_of(change)
    known = work.collections.current(item)
    of_type = None if known is None else known.type
    faults = _faults(work, change, of_type)
    faults = faults or _size_faults(change, of_type, known, lambda: work.collections.bytes_of_other_maps(item))
    if faults:
        raise Invalid(faults, list_name=item.list_name, map_name=item.map_name)


def check_foreign_change(work: UnitOfWork, change: CollectionChange, version: int) -> None:
    """Check a change of another writer, at offset `version` of the rule log. Raises RuleRejected.

    The store decides from its own copy of the log before the change: the published changes of lists and maps, and the
    rules in force.
    """
    item = item_of(change)
    of_type = work.collections.type_before(item, version)
    faults = _faults(work, change, of_type)
    if not faults and _may_be_too_large(work, change):
        known = work.contents.published(work.session, item)
        faults = _size_faults(change, of_type, known, lambda: _published_bytes_of_other_maps(work, change.name))
    if faults:
        raise RuleRejected(faults, list_name=item.list_name, map_name=item.map_name)


def _may_be_too_large(work: UnitOfWork, change: CollectionChange) -> bool:
    """Whether a bound on the size after a change is above a limit, so that the content must be read."""
    item = item_of(change)
    head = work.head(item)
    known = None if head is None else summary_of(head)
    if change.count_bound() + (0 if known is None else known.size) > change.most_members:
        return True
    if not isinstance(change, MapChange):
        return False
    before = work.collections.bytes_of_other_maps(item) + (0 if known is None else known.entry_bytes)
    return before + change.bytes_bound() > change.limits.max_map_bytes


def _published_bytes_of_other_maps(work: UnitOfWork, name: str) -> int:
    heads = work.session.scalars(select(ItemHead).where(ItemHead.kind == MAP, ItemHead.item_key != name)).all()
    maps = (work.contents.published(work.session, head.item) for head in heads)
    return sum(each.entry_bytes for each in maps if isinstance(each, ValueMap))


def _faults(work: UnitOfWork, change: CollectionChange, known: CollectionType | None) -> list[Reason]:
    users = in_force(work.session, work.reader, change, known)
    return change_faults(change, known, work.collections.count(change.kind.value), users)


def _size_faults(
    change: CollectionChange,
    known_type: CollectionType | None,
    known: Collection | None,
    bytes_of_others: Callable[[], int],
) -> list[Reason]:
    """The reason why the list or map, or all maps together, would be too large after a SET or ADD."""
    is_set = change.operation is ListOperation.SET
    of_type, before = (change.type, None) if is_set else (known_type, known)
    if of_type is None or change.operation not in (ListOperation.SET, ListOperation.ADD):
        return []
    return _length_faults(change, of_type, before) or _byte_faults(change, of_type, before, bytes_of_others)


def _length_faults(change: CollectionChange, of_type: CollectionType, before: Collection | None) -> list[Reason]:
    size, most = 0 if before is None else before.size, change.most_members
    if size + change.count_bound() <= most:
        return []
    members: list[Any] = list(change.updates(of_type))  # type: ignore[arg-type]
    size += len(members) - (0 if before is None else before.count_listed(members))
    member = change.content_member
    said = f"the {change.kind} would have {size} {member}, at most {most} are allowed"
    return [Reason(member, said)] if size > most else []


def _byte_faults(
    change: CollectionChange, of_type: CollectionType, before: Collection | None, bytes_of_others: Callable[[], int]
) -> list[Reason]:
    if not isinstance(change, MapChange) or not isinstance(of_type, MapType):
        return []
    assert before is None or isinstance(before, ValueMap)
    others, most = bytes_of_others(), change.limits.max_map_bytes
    if others + (0 if before is None else before.entry_bytes) + change.bytes_bound() <= most:
        return []
    after = change.begin(of_type, 0) if before is None else before.changed([(0, change)])
    size = after.entry_bytes + others
    said = f"all maps would have {size} bytes, at most {most} are allowed"
    return [Reason(change.content_member, said)] if size > most else []
