"""Protobuf: compiles a message type and the places of the declared fields to a decoder.

The decoder reads the members at the declared places only. The values (see `values`):

- google.protobuf.Timestamp becomes an EpochMs. A wrapper such as Int64Value becomes its value.
- google.type.Money becomes a Decimal of its units, and so does confluent.type.Decimal; google.type.Decimal becomes its
  text. A declared place inside such a message is read as a member.
- An enum becomes the name of its value, or the number if the type has no such value.
- float and double become the shortest Decimal that stands for them. bytes stay bytes, which fit no field.
- A message, an optional member and a member of a oneof become None if they are not set. Other members have a default,
  such as 0 or an empty text, and a record does not show whether they were set: fields that may be absent should be
  `optional` members.
- A map has the declared keys only. A list ends after the last declared element.

The library bounds the depth of a message, and a message has no length beyond its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from operator import attrgetter
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from fraud_rules.codec.formats.places import FieldPlaces, Places, tree_of
from fraud_rules.codec.formats.values import (
    MAX_DIGITS,
    Conversion,
    EpochMs,
    decimal_from_bytes,
    decimal_from_float32,
    decimal_from_float64,
)
from fraud_rules.codec.formats.wire import Decode
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import Path
from fraud_rules.runtime.safe_text import quote

_Read: TypeAlias = Callable[[Any], object]
"""Reads a value from a message."""

_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_EXACT: Final = Context(prec=MAX_DIGITS)


def protobuf_decoder(message: Descriptor, fields: Iterable[FieldPlaces]) -> Decode:
    """Compile the decoder of data of this message type.

    Raises RecordRejected with the reason `incompatible_schema` if a field that is not nullable has no place in it.
    """
    fields = tuple(fields)
    missing = [each.name for each in fields if each.required and not any(_has(message, path) for path in each.paths)]
    if missing:
        detail = f"{message.full_name} has no member for {', '.join(missing)}, not nullable"
        raise RecordRejected("incompatible_schema", detail)
    parse: Callable[[bytes], Message] = GetMessageClass(message).FromString
    read = _reader_of(message, tree_of(fields))

    def decode(value: bytes, start: int) -> object:
        try:
            return read(parse(value[start:] if start else value))
        except (DecodeError, ValueError, ArithmeticError) as error:
            return RecordRejected("malformed_protobuf", f"no {message.full_name}: {quote(str(error))}")

    return decode


def _has(message: Descriptor, path: Path) -> bool:
    """Whether values of the message type can have a value at the path."""
    field = message.fields_by_name.get(path[0]) if isinstance(path[0], str) else None
    if field is None:
        return False
    inner = path[1:]
    if field.is_repeated and inner:
        is_key = isinstance(inner[0], str)
        if is_key != _is_map(field):
            return False
        field = field.message_type.fields_by_name["value"] if is_key else field
        inner = inner[1:]
    return not inner or (field.message_type is not None and _has(field.message_type, inner))


def _reader_of(message: Descriptor, places: Places) -> _Read:
    """The reader of the members at these places, as a dict by name."""
    fields = [(message.fields_by_name[name], inner) for name, inner in places.items() if name in message.fields_by_name]
    plain: list[str] = []
    steps: list[tuple[str, _Read]] = []
    for field, inner in fields:
        read = _read_field(field, inner)
        if read is None:
            plain.append(field.name)
        else:
            steps.append((field.name, read))
    return _members(plain, steps)


def _members(plain: list[str], steps: list[tuple[str, _Read]]) -> _Read:
    if len(plain) < 2:  # attrgetter returns a tuple only for several names
        steps = [*((name, attrgetter(name)) for name in plain), *steps]
        return lambda message: {name: read(message) for name, read in steps}
    names, get = tuple(plain), attrgetter(*plain)

    def read_members(message: Any) -> object:
        members: dict[str, object] = dict(zip(names, get(message), strict=True))
        for name, read in steps:
            members[name] = read(message)
        return members

    return read_members


def _read_field(field: FieldDescriptor, places: Places) -> _Read | None:
    """The reader of a member; None if it is the attribute itself."""
    name = field.name
    get = attrgetter(name)
    if _is_map(field):
        return _entries(get, field.message_type, places)
    convert = _conversion(field, places)
    if field.is_repeated:
        return _elements(get, convert, places)
    if not field.has_presence:
        return None if convert is None else lambda message: convert(get(message))
    if convert is None:
        return lambda message: get(message) if message.HasField(name) else None
    return lambda message: convert(get(message)) if message.HasField(name) else None


def _is_map(field: FieldDescriptor) -> bool:
    return field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry


def _entries(get: _Read, entry: Descriptor, places: Places) -> _Read:
    """The reader of the declared entries of a map."""
    key_type = entry.fields_by_name["key"].cpp_type
    steps = []
    for name, inner in places.items():
        key = _key(str(name), key_type)
        if key is not None:
            steps.append((name, key, _conversion(entry.fields_by_name["value"], inner)))

    def read_entries(message: Any) -> object:
        entries: Any = get(message)
        return {
            name: entries[key] if convert is None else convert(entries[key])
            for name, key, convert in steps
            if key in entries
        }

    return read_entries


def _key(name: str, kind: int) -> str | int | bool | None:
    """The key of a map in the map's type; None if no key has this name."""
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return name
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return {"true": True, "false": False}.get(name)
    is_small = kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32)
    low, high = (-(2**31), 2**31) if is_small else (-(2**63), 2**63)
    digits = name.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(name) < 20
    key = int(name) if is_number else high
    is_unsigned = kind in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
    return key if (0 if is_unsigned else low) <= key < high else None


def _elements(get: _Read, convert: Conversion | None, places: Places) -> _Read:
    """The reader of a list up to its last declared element."""
    count = max((at + 1 for at in places if isinstance(at, int)), default=0)

    def read_elements(message: Any) -> object:
        elements: Any = get(message)[:count]  # type: ignore[index]
        return list(elements) if convert is None else [convert(each) for each in elements]

    return read_elements


def _conversion(field: FieldDescriptor, places: Places) -> Conversion | None:
    """The conversion of a value that is set; None if it stays."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return _of_message(field.message_type, _inner(field, places))
        case FieldDescriptor.CPPTYPE_ENUM:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, number)
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return decimal_from_float64
        case FieldDescriptor.CPPTYPE_FLOAT:
            return decimal_from_float32
    return None


def _inner(field: FieldDescriptor, places: Places) -> Places:
    """The places inside the value. Those inside the elements of a list are the same for all elements."""
    if not field.is_repeated:
        return places
    merged: Places = {}
    for inner in places.values():
        _merge(merged, inner)
    return merged


def _merge(target: Places, source: Places) -> None:
    for part, inner in source.items():
        _merge(target.setdefault(part, {}), inner)


def _of_message(message: Descriptor, places: Places) -> Conversion:
    if not places:
        match message.full_name:
            case "google.protobuf.Timestamp":
                return _epoch_ms
            case "google.type.Money":
                return _of_money
            case "google.type.Decimal":
                return attrgetter("value")
            case "confluent.type.Decimal":
                return _of_confluent_decimal
    if message.full_name in _WRAPPERS:
        convert, get = _conversion(message.fields_by_name["value"], {}), attrgetter("value")
        return get if convert is None else lambda wrapper: convert(get(wrapper))
    return _reader_of(message, places)


def _epoch_ms(timestamp: Any) -> EpochMs:
    return EpochMs(timestamp.seconds * 1_000 + timestamp.nanos // 1_000_000)


def _of_money(money: Any) -> Decimal:
    return Decimal(money.units * 10**9 + money.nanos).scaleb(-9, _EXACT)


def _of_confluent_decimal(value: Any) -> object:
    scale = value.scale
    if not 0 <= scale <= MAX_DIGITS:
        raise ValueError(f"a decimal has the scale {scale}")
    return decimal_from_bytes(min(value.precision or MAX_DIGITS, MAX_DIGITS), scale)(value.value)
