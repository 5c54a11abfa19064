"""Decodes and encodes list records: `{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [7]}`.

A record that follows the expected form is decoded by msgspec in a few microseconds, and its values stay encoded. Any
other record takes the slower path, which finds every reason for its rejection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, TypeVar

import msgspec

from fraud_rules.codec.rules.json import DecodedObject, UnusableNumber, decode_object
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.long_table import LOWEST
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ListValue
from fraud_rules.runtime.safe_text import describe_value, is_unprintable, quote

__all__ = [
    "LIST_NAME",
    "SOURCE_NAME",
    "encode_list_records",
    "is_list_record",
    "list_key",
    "read_list_change",
    "value_fault",
]

T = TypeVar("T")

LIST_NAME: Final = r"[a-z][a-z0-9_-]{0,62}"
SOURCE_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
"""The form of the member `source` of rules and lists."""

_MEMBERS: Final = ("listName", "listOperation", "listType", "values", "source")
_RECORD_MARK: Final = re.compile(rb'"(?:listName|listOperation)"\s*:')
_QUOTED_MEMBERS: Final = tuple(f'"{name}"'.encode() for name in _MEMBERS)
_NAME: Final = re.compile(LIST_NAME, re.ASCII)
_HIGHEST: Final = 2**63 - 1
_MAX_VALUE_REASONS: Final = 20
_RECORD_TARGET_BYTES: Final = 65_536  # of room that a record leaves below the limit for its other members

_Long = Annotated[int, msgspec.Meta(ge=LOWEST, le=_HIGHEST)]


class _Record(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """A list record in the expected form."""

    list_name: Annotated[str, msgspec.Meta(pattern=f"^{LIST_NAME}$")]
    list_operation: ListOperation
    list_type: ListType | None = None
    values: list[_Long | str] | None = None
    source: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_-]{0,31}$")] | None = None


_decode_record = msgspec.json.Decoder(_Record).decode
_encode = msgspec.json.Encoder().encode


def list_key(name: str) -> bytes:
    """The key of a record about a list. No rule's key begins like this."""
    return f"list:{name}".encode()


def is_list_record(value: bytes) -> bool:
    """Whether the bytes name a member of list records. The JSON may still be invalid."""
    return b'"list' in value and _RECORD_MARK.search(value) is not None


def read_list_change(value: bytes, limits: RuleLimits) -> ListChange:
    """Decode a list record. Raises `RuleRejected` with every reason, and no other error."""
    if len(value) > limits.max_list_record_bytes:
        problem = f"has {len(value)} bytes, at most {limits.max_list_record_bytes} are allowed: send a SET and ADDs"
        raise RuleRejected([Reason("record", problem)])
    change = _expected_form(value, limits)
    if change is not None:
        return change
    try:
        text = value.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise RuleRejected([Reason("record", f"is not UTF-8 at byte {error.start + 1}")]) from error
    return _checked(decode_object(text, limits, long_member="values"), limits)


def encode_list_records(
    name: str,
    operation: ListOperation,
    value_type: ListType | None,
    values: Sequence[ListValue],
    source: str,
    most_bytes: int,
) -> list[bytes]:
    """Encode a change of any length as records of at most `most_bytes`: a SET and ADDs, or several ADDs or REMOVEs."""
    records = []
    for part in _parts(values, most_bytes - min(_RECORD_TARGET_BYTES, most_bytes // 4)):
        document: dict[str, object] = {"listName": name, "listOperation": operation.value}
        if value_type is not None:
            document["listType"] = value_type.value
        if operation is not ListOperation.DELETE:
            document["values"] = part
        records.append(_encode(document | {"source": source}))
        if operation is ListOperation.SET:
            operation = ListOperation.ADD
    return records


def _parts(values: Sequence[ListValue], most_bytes: int) -> Iterator[Sequence[ListValue]]:
    start, used = 0, 0
    for position, value in enumerate(values):
        size = len(_encode(value)) + 1
        if used + size > most_bytes and position > start:
            yield values[start:position]
            start, used = position, 0
        used += size
    yield values[start:]


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
    members = {name: value for name, value in decoded.members.items() if value is not None}
    reasons = list(decoded.reasons)
    reasons += [
        Reason(quote(name).strip("'"), f"is not a member of a list record ({', '.join(_MEMBERS)})")
        for name in members
        if name not in _MEMBERS
    ]
    name = members.get("listName")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        got = "is required" if name is None else f"is {describe_value(name)}"
        reasons.append(Reason("listName", f"{got}; a list's name has the form {LIST_NAME}"))
    operation = _choice(members, "listOperation", {each.value: each for each in ListOperation}, reasons)
    if "listOperation" not in members:
        reasons.append(Reason("listOperation", f"is required: one of {', '.join(ListOperation)}"))
    declared = _choice(members, "listType", {each.value: each for each in ListType}, reasons)
    values = members.get("values")
    listed = values if isinstance(values, list) else []
    value_type = _type_of(declared, listed)
    if operation is not None:
        # An unusable listType already has its reason.
        reasons += _members_needed(operation, declared if "listType" not in members else ListType.LONG, values)
    reasons += _value_reasons(values, value_type, limits)
    source = members.get("source")
    if source is not None and not (isinstance(source, str) and SOURCE_NAME.fullmatch(source)):
        reasons.append(Reason("source", "must be a short lower-case word such as seed, ui, cli or cdc"))
    if reasons or operation is None:
        readable = name if isinstance(name, str) and _NAME.fullmatch(name) else None
        raise RuleRejected(dict.fromkeys(reasons), list_name=readable)
    return ListChange(
        str(name), operation, value_type, _encode(listed), source if isinstance(source, str) else None, limits
    )


def _choice(members: Mapping[str, object], name: str, choices: Mapping[str, T], reasons: list[Reason]) -> T | None:
    value = members.get(name)
    found = choices.get(value) if isinstance(value, str) else None
    if found is None and value is not None:
        reasons.append(Reason(name, f"must be one of {', '.join(choices)}, not {describe_value(value)}"))
    return found


def _value_reasons(values: object, value_type: ListType | None, limits: RuleLimits) -> list[Reason]:
    if values is None:
        return []
    if not isinstance(values, list):
        return [Reason("values", f"must be a list, not {describe_value(values)}")]
    faults = ((position, value_fault(value, value_type, limits)) for position, value in enumerate(values, 1))
    found = [Reason("values", f"value {position} {fault}") for position, fault in faults if fault]
    more = len(found) - _MAX_VALUE_REASONS
    rest = [Reason("values", f"{more} more values have faults")] if more > 0 else []
    return found[:_MAX_VALUE_REASONS] + rest


def value_fault(value: object, value_type: ListType | None, limits: RuleLimits) -> str | None:
    """The reason why a list of this type cannot contain the value, as the end of a sentence. None for a valid value."""
    if isinstance(value, UnusableNumber):
        return value.why
    if value_type is ListType.STRING:
        if not isinstance(value, str):
            return f"must be text, not {describe_value(value)}"
        if len(value) > limits.max_list_value_chars:
            return f"has {len(value)} characters, at most {limits.max_list_value_chars} are allowed"
        return "contains a NUL or half of a surrogate pair" if is_unprintable(value) else None
    if value.__class__ is int and LOWEST <= value <= _HIGHEST:
        return None
    return f"must be a whole number from {LOWEST} to {_HIGHEST}, not {describe_value(value)}"
