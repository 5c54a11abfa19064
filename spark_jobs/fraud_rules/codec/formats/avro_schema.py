"""Parses Avro schemas with fastavro, and describes their types.

fastavro would convert values of logical types to Python's times, which do not hold nanoseconds, and would round
decimals. Hence the parsed schemas have `logicalType` under another name, which fastavro ignores.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import fastavro

from fraud_rules.codec.formats.schemas import NamedText
from fraud_rules.codec.formats.values import (
    MAX_DIGITS,
    Conversion,
    decimal_from_bytes,
    decimal_from_float32,
    decimal_from_float64,
    epoch_ms_from_units,
    text_from_date,
    text_from_local_time,
    uuid_from_bytes,
)
from fraud_rules.runtime.safe_text import quote

Node: TypeAlias = Any
"""A type in a parsed schema: the name of a type, a dict with `type`, or a list of branches."""

DATUM: Final = "datum"
"""The member that holds a datum which is not a record. A record of one member has the bytes of the member."""

RECORDS: Final = ("record", "error")

_LOGICAL_TYPE: Final = "declaredLogicalType"

_CONVERSIONS: Final[Mapping[tuple[str, str], Conversion]] = {
    ("long", "timestamp-millis"): epoch_ms_from_units(1),
    ("long", "timestamp-micros"): epoch_ms_from_units(1_000),
    ("long", "timestamp-nanos"): epoch_ms_from_units(1_000_000),
    ("long", "local-timestamp-millis"): text_from_local_time(1),
    ("long", "local-timestamp-micros"): text_from_local_time(1_000),
    ("long", "local-timestamp-nanos"): text_from_local_time(1_000_000),
    ("long", "io.debezium.time.Timestamp"): epoch_ms_from_units(1),
    ("long", "io.debezium.time.MicroTimestamp"): epoch_ms_from_units(1_000),
    ("long", "io.debezium.time.NanoTimestamp"): epoch_ms_from_units(1_000_000),
    ("int", "date"): text_from_date,
    ("int", "io.debezium.time.Date"): text_from_date,
    ("fixed", "uuid"): uuid_from_bytes,
    ("float", ""): decimal_from_float32,
    ("double", ""): decimal_from_float64,
}
"""The conversions by the type, and by its logical type or the name that Debezium has given it."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A parsed schema: the form that fastavro reads, always a record, and the named types in it."""

    parsed: dict[str, Any]
    named: dict[str, Any]
    is_record: bool

    def resolve(self, node: Node) -> Node:
        """The definition of a type: a dict whose `type` is the name of a kind, or a list of branches."""
        while not isinstance(node, list):
            if isinstance(node, str):
                if node not in self.named:
                    return {"type": node}
                node = self.named[node]
            elif isinstance(node["type"], str) and node["type"] not in self.named:
                return node
            else:
                node = node["type"]
        return node


def parse_avro(text: str, references: Iterable[NamedText] = ()) -> AvroSchema:
    """Parse the JSON of a schema, and first the schemas to which it refers.

    Raises ValueError with a fault for people for a text that is no schema, and for a schema whose data are unbounded.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(_renamed(json.loads(reference.text)), named)
        parsed = fastavro.parse_schema(_renamed(json.loads(text)), named)
        is_record = isinstance(parsed, dict) and parsed["type"] in RECORDS
        if not is_record:
            record = {"type": "record", "name": "fraud_rules.Datum", "fields": [{"name": DATUM, "type": parsed}]}
            parsed = fastavro.parse_schema(record, named)
    except Exception as error:
        raise ValueError(f"no Avro schema: {quote(str(error) or type(error).__name__)}") from error
    assert isinstance(parsed, dict), "a record"
    schema = AvroSchema(parsed, named, is_record)
    _check_bounded(schema)
    return schema


def _renamed(document: Any) -> Any:
    if isinstance(document, list):
        return [_renamed(each) for each in document]
    if isinstance(document, dict):
        return {_LOGICAL_TYPE if key == "logicalType" else key: _renamed(each) for key, each in document.items()}
    return document


def leaf_conversion(node: Node) -> Conversion | None:
    """The conversion of the values of a type that has no members; None if they stay."""
    kind, logical = node["type"], node.get(_LOGICAL_TYPE, node.get("connect.name", ""))
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = node.get("precision"), node.get("scale", 0)
        is_valid = type(precision) is int and type(scale) is int and 0 <= scale <= precision <= MAX_DIGITS
        return decimal_from_bytes(precision, scale) if is_valid and precision else None
    if not isinstance(logical, str) or (kind, logical) not in _CONVERSIONS:
        logical = ""
    return _CONVERSIONS.get((kind, logical))


def _check_bounded(schema: AvroSchema) -> None:
    """Raise ValueError for a type that contains itself, and for an array of items without bytes."""
    try:
        _Sizes(schema).least(schema.parsed)
    except RecursionError as error:
        raise ValueError("the schema is nested too deeply") from error


class _Sizes:
    """The lengths of the shortest data of types."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._records: dict[str, int | None] = {}

    def least(self, node: Node) -> int:
        """The length of the shortest datum of a type. Raises ValueError if a datum is unbounded."""
        node = self._schema.resolve(node)
        if isinstance(node, list):
            return 1 + min((self.least(branch) for branch in node), default=0)
        match node["type"]:
            case "null":
                return 0
            case "fixed":
                return int(node["size"])
            case "record" | "error":
                return self._least_record(node)
            case "map":
                self.least(node["values"])
            case "array":
                if self.least(node["items"]) == 0:
                    raise ValueError("an array has items without bytes, so its length has no bound")
        return 1

    def _least_record(self, node: Node) -> int:
        name = node["name"]
        if name not in self._records:
            self._records[name] = None
            self._records[name] = sum(self.least(member["type"]) for member in node["fields"])
        size = self._records[name]
        if size is None:
            raise ValueError(f"the type {quote(name)} contains itself, so its depth has no bound")
        return size
