"""Decodes and encodes list records: `{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [7]}`.

A record that follows the expected form is decoded by msgspec in a few microseconds, and its values stay encoded. Any
other record takes the slower path, which finds every reason for its rejection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec

from fraud_rules.codec.rules.collections.records import (
    COLLECTION_NAME,
    CollectionMembers,
    check_length,
    content_reasons,
    decode_record,
    encode_records,
)
from fraud_rules.codec.rules.json import DecodedObject, UnusableNumber
from fraud_rules.errors import Reason
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.tables.long_table import LOWEST
from fraud_rules.model.value_list import CollectionKind, ListChange, ListOperation, ListType, ListValue
from fraud_rules.runtime.safe_text import describe_value, is_unprintable

HIGHEST: Final = 2**63 - 1
"""The highest possible value. `LOWEST` is the lowest one."""

_MEMBERS: Final = ("listName", "listOperation", "listType", "values", "source")
_QUOTED_MEMBERS: Final = tuple(f'"{name}"'.encode() for name in _MEMBERS)

_Long = Annotated[int, msgspec.Meta(ge=LOWEST, le=HIGHEST)]


class _Record(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """A list record in the expected form."""

    list_name: Annotated[str, msgspec.Meta(pattern=f"^{COLLECTION_NAME}$")]
    list_operation: ListOperation
    list_type: ListType | None = None
    values: list[_Long | str] | None = None
    source: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_-]{0,31}$")] | None = None


_decode_record = msgspec.json.Decoder(_Record).decode
_encode = msgspec.json.Encoder().encode


def read_list_change(value: bytes, limits: RuleLimits) -> ListChange:
    """Decode a list record. Raises `RuleRejected` with every reason, and no other error."""
    check_length(value, limits)
    change = _expected_form(value, limits)
    return change if change is not None else _checked(decode_record(value, limits, ("values",)), limits)


def encode_list_records(
    name: str,
    operation: ListOperation,
    value_type: ListType | None,
    values: Sequence[ListValue],
    source: str,
    most_bytes: int,
) -> list[bytes]:
    """Encode a change of any length as records of at most `most_bytes`: a SET and ADDs, or several ADDs or REMOVEs."""
    head = {"listName": name} | ({} if value_type is None else {"listType": value_type.value}) | {"source": source}
    return encode_records(head, CollectionKind.LIST, operation, values, lambda part: {"values": part}, most_bytes)


def _expected_form(value: bytes, limits: RuleLimits) -> ListChange | None:
    """The change of a record in the expected form; None for a record that has, or may have, a fault."""
    if b"\\" in value or any(value.count(name) > 1 for name in _QUOTED_MEMBERS):
        return None  # a member may be given twice
    try:
        record = _decode_record(value)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    values = record.values or ()
    value_type = _type_of(record.list_type, values)
    if _members_needed(record.list_operation, record.list_type, record.values) or _is_mixed(value_type, values, limits):
        return None
    encoded = b"[]" if not values else _encode(record.values)
    return ListChange(record.list_name, record.list_operation, value_type, encoded, record.source, limits)


def _type_of(declared: ListType | None, values: Sequence[object]) -> ListType | None:
    """The type that the record names, or else the type of its first value."""
    if declared is None and values:
        return ListType.STRING if isinstance(values[0], str) else ListType.LONG
    return declared


def _is_mixed(value_type: ListType | None, values: Sequence[ListValue], limits: RuleLimits) -> bool:
    if value_type is ListType.LONG:
        return str in set(map(_class_of, values))
    if int in set(map(_class_of, values)):
        return True
    longest = max(map(len, values), default=0)  # type: ignore[arg-type]
    return longest > limits.max_list_value_chars or is_unprintable("".join(map(str, values)))


def _class_of(value: object) -> object:
    return value.__class__


def _members_needed(operation: ListOperation, value_type: ListType | None, values: object) -> list[Reason]:
    found = []
    if operation is ListOperation.SET and value_type is None:
        found.append(Reason("listType", f"is required with SET: one of {', '.join(ListType)}"))
    if operation is ListOperation.DELETE:
        if values is not None:
            found.append(Reason("values", "is for SET, ADD and REMOVE only"))
    elif values is None:
        found.append(Reason("values", f"is required with {operation}"))
    return found


def _checked(decoded: DecodedObject, limits: RuleLimits) -> ListChange:
    """Check every member. Raises `RuleRejected` with all reasons."""
    reader = CollectionMembers.of(CollectionKind.LIST, decoded, _MEMBERS)
    name, operation = reader.name(), reader.operation()
    declared = reader.choice("listType", {each.value: each for each in ListType})
    values = reader.members.get("values")
    listed = values if isinstance(values, list) else []
    value_type = _type_of(declared, listed)
    if operation is not None:
        # An unusable listType already has its reason.
        needed = declared if "listType" not in reader.members else ListType.LONG
        reader.reasons += _members_needed(operation, needed, values)
    reader.reasons += _value_reasons(values, value_type, limits)
    source = reader.source()
    reader.check()
    assert operation is not None
    return ListChange(name, operation, value_type, _encode(listed), source, limits)


def _value_reasons(values: object, value_type: ListType | None, limits: RuleLimits) -> list[Reason]:
    if values is None:
        return []
    if not isinstance(values, list):
        return [Reason("values", f"must be a list, not {describe_value(values)}")]
    faults: Iterator[tuple[str, str | None]] = (
        (f"value {position}", value_fault(value, value_type, limits)) for position, value in enumerate(values, 1)
    )
    return content_reasons("values", faults, "values")


def value_fault(value: object, value_type: ListType | None, limits: RuleLimits) -> str | None:
    """The reason why a list of this type cannot contain the value, as the end of a sentence. None for a valid value."""
    if isinstance(value, UnusableNumber):
        return value.why
    if value_type is ListType.STRING:
        return text_fault(value, limits)
    if value.__class__ is int and LOWEST <= value <= HIGHEST:
        return None
    return f"must be a whole number from {LOWEST} to {HIGHEST}, not {describe_value(value)}"


def text_fault(value: object, limits: RuleLimits) -> str | None:
    """The reason why a value is no text of a list or map, as the end of a sentence. None for a valid text."""
    if not isinstance(value, str):
        return f"must be text, not {describe_value(value)}"
    if len(value) > limits.max_list_value_chars:
        return f"has {len(value)} characters, at most {limits.max_list_value_chars} are allowed"
    return "contains a NUL or half of a surrogate pair" if is_unprintable(value) else None
