"""Writes the rows of tables as records in the producers' form, with the places, forms and envelope of the schema."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from fraud_rules.codec.history.files import history_records, schema_of_file
from fraud_rules.codec.history.record import HistoryRecord, encode
from fraud_rules.codec.scalar import is_integer, is_number, parse_decimal
from fraud_rules.codec.transactions.envelope import CREATED
from fraud_rules.codec.transactions.tree import decode_members
from fraud_rules.errors import InputInvalid
from fraud_rules.model.declared.field_source import Origin, WrittenAs
from fraud_rules.model.declared.field_source import Path as FieldPath
from fraud_rules.model.declared.record_format import WITH_SCHEMAS
from fraud_rules.model.schema import Envelope, Field, TransactionSchema


def producer_records(path: Path, schema: TransactionSchema) -> Iterator[HistoryRecord]:
    """Read the records of a history file as a producer would send them. Raises InputInvalid."""
    if schema_of_file(path, schema) == schema:
        yield from history_records(path, schema)
        return
    if schema.format.format in WITH_SCHEMAS:
        raise InputInvalid(
            f"{path}: its rows cannot be sent, because the records of the topic are in {schema.format.format}: use "
            "`fraud archive import`"
        )
    outside = [each.name for each in schema.fields if each.source.origin is not Origin.VALUE]
    if outside:
        raise InputInvalid(
            f"{path}: its rows cannot be sent, because {', '.join(outside)} is outside a record's value (`from` in "
            "config/schema.yaml): use `fraud archive import`"
        )
    for record in history_records(path, schema):
        yield record if record.fault is not None else record._replace(value=_in_form(record.value, schema))


def _in_form(row: bytes, schema: TransactionSchema) -> bytes:
    members = decode_members(row)
    payment: dict[str, Any] = {}
    for field in schema.fields:
        if field.name in members:
            _put(payment, field.source.path or (field.name,), _written(field, bytes(members[field.name])))
    match schema.unwrap:
        case Envelope.CONNECT:
            return encode({"payload": payment})
        case Envelope.DEBEZIUM:
            return encode({"op": CREATED, "after": payment})
        case Envelope.CLOUDEVENTS:
            return encode({"specversion": "1.0", "data": payment})
        case Envelope.NONE:
            return encode(payment)


def _put(tree: dict[str, Any], path: FieldPath, value: object) -> None:
    """Set the value at a path, with the objects and arrays on the way."""
    node: Any = tree
    for part, following in pairwise(path):
        node = _child(node, part, [] if isinstance(following, int) else {})
    _child(node, path[-1], value)


def _child(node: Any, part: str | int, default: object) -> Any:
    """The member or element of a node; `default`, which is added, if there is none."""
    if isinstance(part, str):
        return node.setdefault(part, default)
    node += [None] * (part + 1 - len(node))
    node[part] = default if node[part] is None else node[part]
    return node[part]


def _written(field: Field, raw: bytes) -> object:
    """The value in the form that the field declares. A value that has no such form stays, and the codec rejects it."""
    text = raw.strip(b'"').decode()
    match field.source.written_as:
        case WrittenAs.TEXT if not raw.startswith(b'"'):
            return text
        case WrittenAs.NUMBER if is_integer(text):
            return msgspec.Raw(text.encode())
        case WrittenAs.BASE64 if is_number(text):
            unscaled = parse_decimal(text, field.precision, field.scale)
            return msgspec.Raw(raw) if unscaled is None else _base64(unscaled)
        case _:
            return msgspec.Raw(raw)


def _base64(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()
