"""Avro: compiles a writer's schema and the places of the declared fields to a decoder.

fastavro decodes the whole datum: to skip the members that no field reads would cost as much. Then the decoder converts
the values at the declared places (see `values`):

- timestamp-millis, -micros and -nanos, and Debezium's types of the same units, become an EpochMs. local-timestamp-*
  becomes an ISO-8601 text without an offset, and a date the text of the date. time-* stay whole numbers.
- decimal becomes a Decimal, uuid a str, an enum its symbol. bytes and fixed stay bytes, which fit no field.
- float and double become the shortest Decimal that stands for them. Amounts should have the type decimal.
- A union becomes the value of its branch.

A field must be at one of its places in the schema if it is not nullable. With a schema file, a member that the schema
of a record does not have gets the file's default.

fastavro crashes at deeply nested data of a type that contains itself, and expands an array of items without bytes to
any length. So schemas with such types are incompatible. The length of a record bounds all other data.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import Any, Final

import fastavro

from fraud_rules.codec.formats.avro_schema import DATUM, RECORDS, AvroSchema, Node, leaf_conversion
from fraud_rules.codec.formats.places import FieldPlaces, Places, tree_of
from fraud_rules.codec.formats.values import Conversion
from fraud_rules.codec.formats.wire import Decode
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import Path
from fraud_rules.runtime.safe_text import quote

_TYPES: Final = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "float": float, "double": float, "string": str,
    "enum": str, "bytes": bytes, "fixed": bytes, "array": list, "map": dict, "record": dict, "error": dict,
}  # fmt: skip
"""The Python type of fastavro's values. Records of a union with several records are tuples of name and dict."""


def avro_decoder(writer: AvroSchema, fields: Iterable[FieldPlaces], defaults: AvroSchema | None = None) -> Decode:
    """Compile the decoder of data that this schema describes. `defaults` is the schema of a schema file.

    Raises RecordRejected with the reason `incompatible_schema`.
    """
    fields = tuple(fields)
    compiler = _Compiler(writer, defaults)
    missing = [field.name for field in fields if field.required and not compiler.has_one_of(field.paths)]
    if missing:
        detail = f"it has no member for {', '.join(missing)}, not nullable"
        raise RecordRejected("incompatible_schema", detail)
    try:
        convert = compiler.conversion(tree_of(fields))
    except ValueError as error:
        raise RecordRejected("incompatible_schema", str(error)) from error
    return _decoder(writer, convert, names_records=compiler.names_records)


def _decoder(writer: AvroSchema, convert: Conversion | None, *, names_records: bool) -> Decode:
    read, schema, is_record = fastavro.schemaless_reader, writer.parsed, writer.is_record
    options: Any = {"return_record_name": True, "return_record_name_override": True} if names_records else {}

    def decode(value: bytes, start: int) -> object:
        stream = BytesIO(value)
        stream.seek(start)
        try:
            record: Any = read(stream, schema, None, **options)
        except Exception as error:  # noqa: BLE001 - fastavro has no common class for the faults of a datum
            return RecordRejected(
                "malformed_avro", f"the datum ends early, or has an impossible value: {_fault(error)}"
            )
        if stream.tell() != len(value):
            return RecordRejected("malformed_avro", f"{len(value) - stream.tell()} bytes follow the datum")
        if convert is not None:
            try:
                record = convert(record)
            except (ValueError, OverflowError) as error:
                return RecordRejected("malformed_avro", f"a value does not fit its type: {_fault(error)}")
        return record if is_record else record[DATUM]

    return decode


def _fault(error: Exception) -> str:
    return f"{type(error).__name__} {quote(str(error))}"


class _Compiler:
    """Compiles the conversion of the values at places. It needs the writer's schema, and the one with defaults."""

    def __init__(self, writer: AvroSchema, defaults: AvroSchema | None) -> None:
        self._writer = writer
        self._defaults = defaults
        self.names_records = False
        """Whether fastavro must name the records of unions, because a union has several records."""

    def has_one_of(self, paths: Iterable[Path]) -> bool:
        """Whether the schema, or the one with defaults, has a member at one of the paths."""
        root, base = self._roots()
        return any(self._has(root, base, path) for path in paths)

    def conversion(self, places: Places) -> Conversion | None:
        """The conversion of a datum; None if all values stay. Raises ValueError for an ambiguous union."""
        root, base = self._roots()
        if self._writer.is_record:
            return self._of(root, base, places)
        return _of_members({DATUM: self._of(root, base, places)}, {})

    def _roots(self) -> tuple[Node, Node]:
        root = self._writer.parsed if self._writer.is_record else self._writer.parsed["fields"][0]["type"]
        return root, self._defaults.parsed if self._defaults is not None else None

    def _has(self, node: Node, base: Node, path: Path) -> bool:
        if not path:
            return True
        node, (part, *_), rest = self._writer.resolve(node), path, path[1:]
        if isinstance(node, list):
            return any(self._has(branch, base, path) for branch in node)
        match node["type"], part:
            case "record" | "error", str():
                member, other = _member(node, part), _member(self._base_record(base), part)
                if member is None:
                    return other is not None and "default" in other
                return self._has(member["type"], other and other["type"], rest)
            case "map", str():
                return self._has(node["values"], None, rest)
            case "array", int():
                return self._has(node["items"], None, rest)
        return False

    def _base_record(self, base: Node) -> Node:
        """The record in the schema with defaults; None without one."""
        if base is None or self._defaults is None:
            return None
        node = self._defaults.resolve(base)
        branches = [self._defaults.resolve(branch) for branch in node] if isinstance(node, list) else [node]
        return next((branch for branch in branches if branch["type"] in RECORDS), None)

    def _of(self, node: Node, base: Node, places: Places) -> Conversion | None:
        node = self._writer.resolve(node)
        if isinstance(node, list):
            return self._of_union(node, base, places)
        match node["type"]:
            case "record" | "error":
                return self._of_record(node, self._base_record(base), places)
            case "map":
                values = {name: self._of(node["values"], None, inner) for name, inner in places.items()}
                return _of_entries(values)
            case "array":
                items = {at: self._of(node["items"], None, inner) for at, inner in places.items()}
                return _of_elements(items)
        return leaf_conversion(node)

    def _of_record(self, node: Node, base: Node, places: Places) -> Conversion | None:
        conversions: dict[str, Conversion | None] = {}
        defaults: dict[str, object] = {}
        for name, inner in places.items():
            member, other = _member(node, name), _member(base, name)
            if member is not None:
                conversions[member["name"]] = self._of(member["type"], other and other["type"], inner)
            elif other is not None and "default" in other and self._defaults is not None:
                defaults[other["name"]] = _default(self._defaults, other, inner)
        return _of_members(conversions, defaults)

    def _of_union(self, branches: list[Node], base: Node, places: Places) -> Conversion | None:
        """The conversion of the values of a union, by their Python types. Raises ValueError if these do not suffice."""
        nodes = [self._writer.resolve(branch) for branch in branches]
        has_records = sum(node["type"] in RECORDS for node in nodes) > 1
        records: dict[str, Conversion | None] = {}
        by_type: dict[type, Conversion | None] = {}
        for node in nodes:
            convert = self._of(node, base, places)
            if has_records and node["type"] in RECORDS:
                records[node["name"]] = convert
                continue
            kind = _TYPES[node["type"]]
            if kind in by_type and (convert is not None or by_type[kind] is not None):
                raise ValueError(f"a union has several types of {kind.__name__}, so the value does not show its type")
            by_type[kind] = convert
        if has_records:
            self.names_records = True
            by_type[tuple] = lambda named: _converted(records[named[0]], named[1])  # type: ignore[index]
        if not any(by_type.values()):
            return None
        return lambda value: _converted(by_type.get(type(value)), value)


def _member(record: Node, name: str | int) -> Node:
    """The member of a record; None without one."""
    if record is None:
        return None
    return next((member for member in record["fields"] if member["name"] == name), None)


def _converted(convert: Conversion | None, value: object) -> object:
    return value if convert is None else convert(value)


def _of_members(conversions: dict[str, Conversion | None], defaults: dict[str, object]) -> Conversion | None:
    """The conversion of a record, which has just been decoded and is changed in place."""
    steps = [(name, convert) for name, convert in conversions.items() if convert is not None]
    if not steps and not defaults:
        return None

    def convert_members(record: Any) -> Any:
        for name, convert in steps:
            record[name] = convert(record[name])
        if defaults:
            record.update(defaults)
        return record

    return convert_members


def _of_entries(conversions: dict[str | int, Conversion | None]) -> Conversion | None:
    """The conversion of a map, in place."""
    steps = [(name, convert) for name, convert in conversions.items() if convert is not None]

    def convert_entries(entries: Any) -> Any:
        for name, convert in steps:
            if name in entries:
                entries[name] = convert(entries[name])
        return entries

    return convert_entries if steps else None


def _of_elements(conversions: dict[str | int, Conversion | None]) -> Conversion | None:
    """The conversion of an array, in place."""
    steps = [(at, convert) for at, convert in conversions.items() if convert is not None and isinstance(at, int)]

    def convert_elements(elements: Any) -> Any:
        for at, convert in steps:
            if at < len(elements):
                elements[at] = convert(elements[at])
        return elements

    return convert_elements if steps else None


def _default(schema: AvroSchema, member: Node, places: Places) -> object:
    """The converted default of a member. Raises ValueError for a default that does not fit its type."""
    try:
        datum = _datum(schema, member["type"], member["default"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the default of {quote(str(member['name']))} does not fit its type") from error
    return _converted(_Compiler(schema, None)._of(member["type"], None, places), datum)


def _datum(schema: AvroSchema, node: Node, default: Any) -> Any:
    """The value that a default in JSON stands for. The default of a union is one of its first branch."""
    node = schema.resolve(node)
    if isinstance(node, list):
        return None if default is None else _datum(schema, next(each for each in node if each != "null"), default)
    match node["type"]:
        case "bytes" | "fixed":
            return default.encode("latin-1")
        case "record" | "error":
            members = {member["name"]: member for member in node["fields"]}
            return {
                name: _datum(schema, member["type"], default[name] if name in default else member["default"])
                for name, member in members.items()
            }
        case "array":
            return [_datum(schema, node["items"], each) for each in default]
        case "map":
            return {name: _datum(schema, node["values"], each) for name, each in default.items()}
        case "float" | "double":
            return float(default)
    return default
