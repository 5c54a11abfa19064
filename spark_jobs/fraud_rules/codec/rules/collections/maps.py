"""Decodes and encodes map records: `{"mapName": "limits", "mapOperation": "SET", "keyType": "long", "valueType":
"decimal", "entries": {"7": "250.00"}}`.

As with lists, a record that follows the expected form is decoded by msgspec in a few microseconds. Any other record
takes the slower path, which finds every reason for its rejection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Final

import msgspec

from fraud_rules.codec.rules.collections.lists import HIGHEST, text_fault
from fraud_rules.codec.rules.collections.records import (
    COLLECTION_NAME,
    CollectionMembers,
    check_length,
    content_reasons,
    decode_record,
    encode_records,
)
from fraud_rules.codec.rules.json import DecodedObject, UnusableNumber
from fraud_rules.codec.rules.numbers import decimal_of
from fraud_rules.errors import Reason
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.tables.long_table import LOWEST
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from fraud_rules.model.value_map import (
    MAP_SCALE,
    MapChange,
    MapKey,
    MapType,
    MapValue,
    MapValueType,
    entry_text,
)
from fraud_rules.runtime.safe_text import describe_value, is_unprintable, quote

_MEMBERS: Final = ("mapName", "mapOperation", "keyType", "valueType", "entries", "keys", "source")
_QUOTED_MEMBERS: Final = tuple(f'"{name}"'.encode() for name in _MEMBERS)
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_SAFE_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)  # surely from LOWEST to HIGHEST
_PLAIN_DECIMAL: Final = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)
_LEAST: Final = -(10**12)
_MOST: Final = 10**12
_UNIT: Final = Decimal(10) ** -MAP_SCALE
_TO_KEY_TYPE: Final = {each.value: each for each in ListType}
_TO_VALUE_TYPE: Final = {each.value: each for each in MapValueType}


class _MapRecord(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """A SET or ADD in the expected form: its values are texts."""

    map_name: Annotated[str, msgspec.Meta(pattern=f"^{COLLECTION_NAME}$")]
    map_operation: ListOperation
    key_type: ListType
    value_type: MapValueType
    entries: msgspec.Raw
    source: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_-]{0,31}$")] | None = None


_decode_record = msgspec.json.Decoder(_MapRecord).decode
_decode_entries = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


def read_map_change(value: bytes, limits: RuleLimits) -> MapChange:
    """Decode a map record. Raises `RuleRejected` with every reason, and no other error."""
    check_length(value, limits)
    change = _expected_form(value, limits)
    return change if change is not None else _checked(decode_record(value, limits, ("entries", "keys")), limits)


def encode_map_records(
    name: str,
    operation: ListOperation,
    map_type: MapType | None,
    entries: Mapping[MapKey, MapValue | None],
    source: str,
    most_bytes: int,
) -> list[bytes]:
    """Encode a change of any length as records of at most `most_bytes`: a SET and ADDs, or several ADDs or REMOVEs. The
    values of a REMOVE do not count."""
    types = {} if map_type is None else {"keyType": map_type.key.value, "valueType": map_type.value.value}
    head = {"mapName": name} | types | {"source": source}
    if operation is ListOperation.REMOVE:
        return encode_records(
            head, CollectionKind.MAP, operation, list(entries), lambda part: {"keys": part}, most_bytes
        )
    pairs = [(str(key), entry_text(value)) for key, value in entries.items() if value is not None]
    return encode_records(head, CollectionKind.MAP, operation, pairs, lambda part: {"entries": dict(part)}, most_bytes)


def _expected_form(value: bytes, limits: RuleLimits) -> MapChange | None:
    """The change of a SET or ADD in the expected form; None for a record that has, or may have, a fault."""
    if b"\\" in value or any(value.count(name) > 1 for name in _QUOTED_MEMBERS):
        return None  # a member may be given twice
    try:
        record = _decode_record(value)
        entries = _decode_entries(record.entries)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    operation = record.map_operation
    if operation not in (ListOperation.SET, ListOperation.ADD) or not _is_valid(record, entries, limits):
        return None
    encoded = _encode(entries)
    return MapChange(record.map_name, operation, record.key_type, record.value_type, encoded, record.source, limits)


def _is_valid(record: _MapRecord, entries: Mapping[str, str], limits: RuleLimits) -> bool:
    """Whether entries have the declared types, and no key twice: a long key has one text."""
    if bytes(record.entries).count(b'"') != 4 * len(entries):
        return False
    if not entries:
        return True
    is_long, is_decimal = record.key_type is ListType.LONG, record.value_type is MapValueType.DECIMAL
    # One match of all texts together would keep a place to go back to for each, and so 300 bytes an entry.
    if not (all(map(_SAFE_WHOLE.fullmatch, entries)) if is_long else _are_texts(entries, limits)):
        return False
    values = entries.values()
    return all(map(_PLAIN_DECIMAL.fullmatch, values)) if is_decimal else _are_texts(values, limits)


def _are_texts(texts: Iterable[str], limits: RuleLimits) -> bool:
    listed = list(texts)
    return max(map(len, listed)) <= limits.max_list_value_chars and not is_unprintable("".join(listed))


def _checked(decoded: DecodedObject, limits: RuleLimits) -> MapChange:
    """Check every member. Raises `RuleRejected` with all reasons."""
    reader = CollectionMembers.of(CollectionKind.MAP, decoded, _MEMBERS)
    name, operation = reader.name(), reader.operation()
    key_type = reader.choice("keyType", _TO_KEY_TYPE)
    value_type = reader.choice("valueType", _TO_VALUE_TYPE)
    entries, keys = reader.members.get("entries"), reader.members.get("keys")
    if operation is not None:
        reader.reasons += _members_needed(operation, reader.members)
    listed, values = _keys_of(entries, keys, reader.reasons), entries if isinstance(entries, dict) else {}
    key_type, value_type = _key_type_of(key_type, listed), _value_type_of(value_type, list(values.values()))
    reader.reasons += _key_reasons(listed, "entries" if keys is None else "keys", key_type, limits)
    reader.reasons += _value_reasons(values, value_type, limits)
    source = reader.source()
    reader.check()
    assert operation is not None
    texts = {str(key): _text_of(value) for key, value in values.items()}
    encoded = _encode(texts) if keys is None else _encode([str(key) for key in listed])
    return MapChange(name, operation, key_type, value_type, encoded, source, limits)


def _members_needed(operation: ListOperation, members: Mapping[str, object]) -> list[Reason]:
    found = []
    if operation is ListOperation.SET:
        choices = (("keyType", ListType), ("valueType", MapValueType))
        found += [
            Reason(member, f"is required with SET: one of {', '.join(types)}")
            for member, types in choices
            if member not in members
        ]
    needed = {ListOperation.DELETE: None, ListOperation.REMOVE: "keys"}.get(operation, "entries")
    if needed is not None and needed not in members:
        found.append(Reason(needed, f"is required with {operation}"))
    uses = {"entries": "SET and ADD", "keys": "REMOVE"}
    found += [
        Reason(member, f"is for {use} only") for member, use in uses.items() if member != needed and member in members
    ]
    return found


def _keys_of(entries: object, keys: object, reasons: list[Reason]) -> Sequence[object]:
    if entries is not None and not isinstance(entries, dict):
        reasons.append(Reason("entries", f"must be an object, not {describe_value(entries)}"))
    if keys is not None and not isinstance(keys, list):
        reasons.append(Reason("keys", f"must be a list, not {describe_value(keys)}"))
    if isinstance(keys, list):
        return keys
    return list(entries) if isinstance(entries, dict) else []


def _key_reasons(keys: Sequence[object], member: str, key_type: ListType | None, limits: RuleLimits) -> list[Reason]:
    faults: Iterator[tuple[str, str | None]] = (
        (f"key {position}", key_fault(key, key_type, limits)) for position, key in enumerate(keys, 1)
    )
    return content_reasons(member, faults, "keys")


def _value_reasons(entries: Mapping[str, object], value_type: MapValueType | None, limits: RuleLimits) -> list[Reason]:
    faults: Iterator[tuple[str, str | None]] = (
        (f"the value of {quote(key)}", map_value_fault(value, value_type, limits)) for key, value in entries.items()
    )
    return content_reasons("entries", faults, "values")


def key_fault(key: object, key_type: ListType | None, limits: RuleLimits) -> str | None:
    """The reason why a map with keys of this type cannot contain the key, as the end of a sentence. None for a valid
    key. Without a type, the key may be a text or a whole number."""
    if isinstance(key, UnusableNumber):
        return key.why
    if key.__class__ is int and key_type is not ListType.STRING:
        key = str(key)
    if key_type is not ListType.LONG:
        return text_fault(key, limits)
    if isinstance(key, str) and _is_long(key):
        return None
    return f"must be a whole number from {LOWEST} to {HIGHEST}, not {describe_value(key)}"


def map_value_fault(value: object, value_type: MapValueType | None, limits: RuleLimits) -> str | None:
    """The reason why a map with values of this type cannot contain the value, as the end of a sentence. None for a
    valid value. Without a type, the value may be a text or a number."""
    if isinstance(value, UnusableNumber):
        return value.why
    if value_type is MapValueType.STRING or (value_type is None and isinstance(value, str)):
        return text_fault(value, limits)
    if _is_decimal(value):
        return None
    return f"must be a number with at most 12 digits before and 6 after the point, not {describe_value(value)}"


def _is_long(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and LOWEST <= int(text) <= HIGHEST


def _is_decimal(value: object) -> bool:
    if isinstance(value, bool):
        return False
    number = decimal_of(value)
    return number is not None and _LEAST < number < _MOST and number % _UNIT == 0


def _key_type_of(declared: ListType | None, keys: Sequence[object]) -> ListType | None:
    """The type that the record names, or else the only type that fits its keys."""
    if declared is not None:
        return declared
    if any(isinstance(key, int) for key in keys):
        return ListType.LONG
    return None if all(_is_long(str(key)) for key in keys) else ListType.STRING


def _value_type_of(declared: MapValueType | None, values: Sequence[object]) -> MapValueType | None:
    """The type that the record names, or else the only type that fits its values."""
    if declared is not None:
        return declared
    if any(not isinstance(value, str) for value in values):
        return MapValueType.DECIMAL
    return None if all(map(_is_decimal, values)) else MapValueType.STRING


def _text_of(value: object) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
