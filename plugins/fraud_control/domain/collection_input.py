"""Turns the texts of a user into a change of a list or map, or rejects them with all reasons by field. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.errors import Invalid
from fraud_control.domain.item import ItemName
from fraud_rules.codec.rules.collections.files import SeedCollection
from fraud_rules.codec.rules.collections.lines import (
    as_value,
    content_lines,
    fields_of,
    line_reasons,
    read_entry_fields,
)
from fraud_rules.codec.rules.collections.maps import key_fault
from fraud_rules.codec.rules.collections.plan import kind_of, read_change
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.collection_history import CollectionChange, CollectionType
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from fraud_rules.model.value_map import MapType, entry_text
from fraud_rules.runtime.safe_text import quote

_MOST_BYTES: Final = 1 << 30
_MOST_EXPIRY_MS: Final = 2**53
_CONTENT: Final = frozenset({"values", "entries", "keys"})


def input_of_lines(
    kind: CollectionKind,
    operation: ListOperation,
    content: str,
    of_type: CollectionType | None = None,
    expires_at_ms: int | None = None,
) -> CollectionInput:
    """The change of an uploaded or pasted text: one value per line, or `key,value` as in CSV for a map. Of the lines of
    a REMOVE of keys, only the key counts. Blank lines and lines from `#` on do not count.

    Raises Invalid with the lines of a map that have another form, or a key again.
    """
    found = list(content_lines(content.removeprefix("\ufeff")))
    lines, texts = tuple(line for line, _ in found), tuple(text for _, text in found)
    if kind is CollectionKind.LIST:
        return CollectionInput(operation, texts, of_type, expires_at_ms, lines)
    fields = [fields_of(text) for text in texts]
    faults = list(_faults_of_lines(operation, lines, fields))
    if faults:
        raise Invalid(line_reasons(faults))
    if operation is ListOperation.REMOVE:
        return CollectionInput(operation, tuple(each[0] for each in fields), of_type, expires_at_ms, lines)
    entries = tuple((key, value) for key, value in fields)
    return CollectionInput(operation, (), of_type, expires_at_ms, lines, entries)


def check_size(entered: CollectionInput, most_bytes: int) -> None:
    """Raise Invalid if the values of a change have too many bytes."""
    size = sum(len(text) + 1 for text in (*entered.values, *(text for entry in entered.entries for text in entry)))
    if size > most_bytes:
        member = "entries" if entered.entries else "values"
        raise Invalid([Reason(member, f"have {size} bytes, at most {most_bytes} are allowed: send several changes")])


def collection_change(
    item: ItemName, entered: CollectionInput, of_type: CollectionType | None, source: str, limits: RuleLimits
) -> CollectionChange:
    """Build a change of any length from texts. Repeated values count once. Raises Invalid with all reasons."""
    content: dict[str, Any] = {}
    if entered.operation is not ListOperation.DELETE:
        if item.collection_kind is CollectionKind.LIST:
            assert not isinstance(of_type, MapType)
            content = {"values": list(dict.fromkeys(as_value(text, of_type) for text in entered.values))}
        elif entered.operation is ListOperation.REMOVE:
            content = {"keys": list(dict.fromkeys(entered.values))}
        else:
            content = {"entries": dict(entered.entries)}
    try:
        return _change(item, entered.operation, of_type, content, source, limits)
    except RuleRejected as rejected:
        raise Invalid(_by_line(rejected.reasons, entered, of_type, limits)) from rejected


def change_of_seed(seed: SeedCollection, source: str, limits: RuleLimits) -> CollectionChange:
    """The SET of a list or map of a file."""
    kind = kind_of(seed.type)
    content: dict[str, Any] = {"values": seed.values}
    if kind is CollectionKind.MAP:
        content = {"entries": {str(key): entry_text(value) for key, value in seed.entries.items()}}
    return _change(ItemName.of_collection((kind, seed.name)), ListOperation.SET, seed.type, content, source, limits)


def check_expiry(operation: ListOperation, expires_at_ms: int | None, now_ms: int) -> None:
    """Raise Invalid if the values would expire in the past, or if the operation adds no values."""
    if expires_at_ms is None:
        return
    if operation not in (ListOperation.SET, ListOperation.ADD):
        raise Invalid([Reason("expiresAt", "is for SET and ADD only")])
    if not now_ms < expires_at_ms <= _MOST_EXPIRY_MS:
        raise Invalid([Reason("expiresAt", "must be in the future")])


def _faults_of_lines(
    operation: ListOperation, lines: Sequence[int], fields: Sequence[Sequence[str]]
) -> Iterator[tuple[int, str]]:
    seen: set[str] = set()
    for line, each in zip(lines, fields, strict=True):
        if operation is ListOperation.REMOVE:
            if not each:
                yield line, "must have the form key"
        elif len(each) != 2:
            yield line, "must have the form key,value"
        elif each[0] in seen:
            yield line, f"has the key {quote(each[0])} again"
        else:
            seen.add(each[0])


def _by_line(
    reasons: Sequence[Reason], entered: CollectionInput, of_type: CollectionType | None, limits: RuleLimits
) -> Sequence[Reason]:
    """Name the faults of values by their lines, if the values are from a text."""
    if not entered.lines or of_type is None:
        return reasons
    members: Sequence[Sequence[str]] = entered.entries or [(text,) for text in entered.values]
    placed = zip(entered.lines, members, strict=True)
    faults = [(line, fault) for line, fields in placed if (fault := _fault(fields, of_type, limits))]
    return [*(each for each in reasons if each.field not in _CONTENT), *line_reasons(faults)] if faults else reasons


def _fault(fields: Sequence[str], of_type: CollectionType, limits: RuleLimits) -> str | None:
    if isinstance(of_type, MapType) and len(fields) == 1:
        return key_fault(fields[0], of_type.key, limits)
    return read_entry_fields(of_type, fields, limits)[2]


def _change(
    item: ItemName,
    operation: ListOperation,
    of_type: CollectionType | None,
    content: Mapping[str, Any],
    source: str,
    limits: RuleLimits,
) -> CollectionChange:
    """Build a change. Raises RuleRejected with all reasons."""
    members: dict[str, Any] = {f"{item.kind}Name": item.key, f"{item.kind}Operation": operation.value, "source": source}
    if isinstance(of_type, ListType):
        members["listType"] = of_type.value
    elif of_type is not None:
        members |= {"keyType": of_type.key.value, "valueType": of_type.value.value}
    # The bound on a record does not concern a change, which may consist of several records.
    unbounded = replace(limits, max_list_record_bytes=_MOST_BYTES)
    return read_change(item.collection_kind, msgspec.json.encode({**members, **content}), unbounded)
