"""Lists and maps as the store has them: their types and changes as texts and bytes. Pure."""

from __future__ import annotations

from dataclasses import replace

from fraud_control.domain.item import ItemName
from fraud_rules.model.collection_history import CollectionChange, CollectionType
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind, ListChange, ListOperation, ListType
from fraud_rules.model.value_map import MapChange, MapType, MapValueType


def item_of(change: CollectionChange) -> ItemName:
    """The list or map of a change."""
    return ItemName.of_collection((change.kind, change.name))


def type_of_text(kind: CollectionKind, text: str) -> CollectionType:
    """The type that `str` wrote: `long`, or `long to decimal` for a map."""
    if kind is CollectionKind.LIST:
        return ListType(text)
    key, _, value = text.partition(" to ")
    return MapType(ListType(key), MapValueType(value))


def stored_change(item: ItemName, operation: str, of_type: str, payload: bytes, limits: RuleLimits) -> CollectionChange:
    """The change of a stored record, whose columns these are."""
    known = type_of_text(item.collection_kind, of_type)
    if isinstance(known, ListType):
        return ListChange(item.key, ListOperation(operation), known, payload, limits=limits)
    return MapChange(item.key, ListOperation(operation), *known, payload, limits=limits)


def with_type(change: CollectionChange, of_type: CollectionType) -> CollectionChange:
    """The change of a list or map of this type, whether or not its record names the type."""
    if isinstance(change, ListChange):
        assert isinstance(of_type, ListType)
        return replace(change, type=of_type)
    assert isinstance(of_type, MapType)
    return replace(change, key_type=of_type.key, value_type=of_type.value)
