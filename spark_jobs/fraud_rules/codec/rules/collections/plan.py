"""Reads, plans and encodes the records that change a list or map. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from fraud_rules.codec.rules.collections.lists import encode_list_records, read_list_change
from fraud_rules.codec.rules.collections.maps import encode_map_records, read_map_change
from fraud_rules.model.collection_history import Collection, CollectionChange, CollectionType
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind, ListOperation

Entries: TypeAlias = Mapping[Any, Any]
"""The members of a list or map with their values, which are None in a list."""


def read_change(kind: CollectionKind, value: bytes, limits: RuleLimits) -> CollectionChange:
    """Decode a record about a list or map. Raises `RuleRejected` with every reason, and no other error."""
    return (read_list_change if kind is CollectionKind.LIST else read_map_change)(value, limits)


def plan_set(
    known: Collection | None,
    name: str,
    of_type: CollectionType,
    entries: Entries,
    source: str,
    limits: RuleLimits,
) -> list[bytes]:
    """The records that give a list or map these entries. Nothing if it has them.

    A collection in force gets ADDs and REMOVEs if they are shorter than the collection, so that it is never incomplete
    in between.
    """
    kind = kind_of(of_type)
    if known is None or known.type != of_type:
        return encode_change(kind, name, ListOperation.SET, of_type, entries, source, limits)
    before: Entries = known.entries()
    added = {key: value for key, value in entries.items() if key not in before or before[key] != value}
    removed = {key: value for key, value in before.items() if key not in entries}
    if len(added) + len(removed) > len(entries):
        return encode_change(kind, name, ListOperation.SET, of_type, entries, source, limits)
    return [
        record
        for operation, part in ((ListOperation.ADD, added), (ListOperation.REMOVE, removed))
        if part
        for record in encode_change(kind, name, operation, of_type, part, source, limits)
    ]


def encode_change(
    kind: CollectionKind,
    name: str,
    operation: ListOperation,
    of_type: CollectionType | None,
    entries: Entries,
    source: str,
    limits: RuleLimits,
) -> list[bytes]:
    """The records of a change of any length. A DELETE has neither a type nor entries."""
    most_bytes = limits.max_list_record_bytes
    if kind is CollectionKind.LIST:
        assert not isinstance(of_type, tuple)
        return encode_list_records(name, operation, of_type, list(entries), source, most_bytes)
    assert of_type is None or isinstance(of_type, tuple)
    return encode_map_records(name, operation, of_type, entries, source, most_bytes)


def kind_of(of_type: CollectionType) -> CollectionKind:
    """The kind of the collections of a type."""
    return CollectionKind.MAP if isinstance(of_type, tuple) else CollectionKind.LIST
