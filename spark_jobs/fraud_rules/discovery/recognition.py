"""Recognizes the format and the envelope of records by their bytes. Pure."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fraud_rules.codec.scalar import is_number
from fraud_rules.codec.transactions.envelope import unwrapped
from fraud_rules.codec.transactions.field_value import Number
from fraud_rules.codec.transactions.tree import parse_object
from fraud_rules.errors import RecordRejected
from fraud_rules.model.schema import Envelope

_WIRE_HEADER: Final = 5
"""The magic byte 0, and a schema's id in four bytes, as Confluent's serializers write them."""

_MOSTLY: Final = 0.9


class Shape(StrEnum):
    """The shape of a topic's records."""

    JSON = "json"
    CSV = "csv"
    WIRE = "a registry's wire format"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Recognized:
    """The shape, the envelope, the payments of the readable records as trees, and the number of unreadable records.

    `positions` are those of the payments in the sample. `columns` are the names of a CSV file's columns, empty without
    a header.
    """

    shape: Shape
    envelope: Envelope
    trees: Sequence[object]
    positions: Sequence[int]
    unreadable: int
    first_fault: str = ""
    columns: Sequence[str] = ()


def recognize_trees(trees: Sequence[object]) -> Recognized:
    """Recognize records that are decoded by their schemas: trees, the bytes of JSON texts, or rejected ones."""
    if any(isinstance(tree, bytes) for tree in trees):
        return _json([tree if isinstance(tree, bytes) else b"" for tree in trees])
    rejected = [tree for tree in trees if not isinstance(tree, dict)]
    fault = next((str(tree) for tree in rejected if isinstance(tree, RecordRejected)), "")
    known = [(position, tree) for position, tree in enumerate(trees) if isinstance(tree, dict)]
    return _unwrapped(known, len(rejected), fault)


def recognize(values: Sequence[bytes]) -> Recognized:
    """Recognize records. A record that is not like most of the others is unreadable."""
    shapes = Counter(map(_shape, values))
    shape = shapes.most_common(1)[0][0] if shapes else Shape.UNKNOWN
    if shape is Shape.JSON:
        return _json(values)
    if shape is Shape.CSV:
        return _csv(values)
    return Recognized(shape, Envelope.NONE, [], [], len(values))


def _shape(value: bytes) -> Shape:
    body = value.strip()
    if value[:1] == b"\0" and len(value) > _WIRE_HEADER:
        return Shape.WIRE
    if body.startswith(b"{"):
        return Shape.JSON
    try:
        return Shape.CSV if body.decode().isprintable() and b"," in body else Shape.UNKNOWN
    except UnicodeDecodeError:
        return Shape.UNKNOWN


def _json(values: Sequence[bytes]) -> Recognized:
    trees: list[tuple[int, dict[str, object]]] = []
    unreadable, fault = 0, ""
    for position, value in enumerate(values):
        try:
            trees.append((position, parse_object(value.strip(), value.decode().strip())))
        except (RecordRejected, UnicodeDecodeError) as error:
            unreadable, fault = unreadable + 1, fault or str(error)
    return _unwrapped(trees, unreadable, fault)


def _unwrapped(trees: Sequence[tuple[int, dict[str, object]]], unreadable: int, fault: str) -> Recognized:
    """Take the payments out of their envelopes. `trees` are the readable records with their positions."""
    envelope = envelope_of([tree for _, tree in trees])
    payments, positions = [], []
    for position, tree in trees:
        try:
            payment = unwrapped(tree, envelope)
        except RecordRejected as error:
            unreadable, fault = unreadable + 1, fault or str(error)
            continue
        if payment is not None:
            payments.append(payment)
            positions.append(position)
    return Recognized(Shape.JSON, envelope, payments, positions, unreadable, fault)


def envelope_of(trees: Sequence[dict[str, object]]) -> Envelope:
    """The envelope that most of the records have."""
    found = Counter(_envelope(tree) for tree in trees)
    envelope, count = found.most_common(1)[0] if found else (Envelope.NONE, 0)
    return envelope if count >= _MOSTLY * len(trees) else Envelope.NONE


def _envelope(tree: dict[str, object]) -> Envelope:
    inner = tree.get("payload") if "schema" in tree and "payload" in tree else tree
    if isinstance(inner, dict) and isinstance(inner.get("op"), str) and ("after" in inner or "before" in inner):
        return Envelope.DEBEZIUM
    if inner is not tree:
        return Envelope.CONNECT
    is_event = "specversion" in tree and ("data" in tree or "data_base64" in tree)
    return Envelope.CLOUDEVENTS if is_event else Envelope.NONE


def _csv(values: Sequence[bytes]) -> Recognized:
    rows: list[tuple[int, list[str]]] = []
    unreadable = 0
    for position, value in enumerate(values):
        try:
            rows.append((position, next(csv.reader([value.decode().strip()], strict=True))))
        except (csv.Error, UnicodeDecodeError, StopIteration):
            unreadable += 1
    width = Counter(len(cells) for _, cells in rows).most_common(1)[0][0]
    unreadable += sum(len(cells) != width for _, cells in rows)
    rows = [row for row in rows if len(row[1]) == width]
    columns = rows[0][1] if _is_header([cells for _, cells in rows[:2]]) else []
    if columns:
        rows = rows[1:]
    names = columns or [f"column{i + 1}" for i in range(width)]
    trees = [{name: _cell(cell) for name, cell in zip(names, cells, strict=True)} for _, cells in rows]
    return Recognized(Shape.CSV, Envelope.NONE, trees, [at for at, _ in rows], unreadable, columns=columns)


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of two lines has only names, and the second has a number."""
    if len(rows) < 2:
        return False
    return not any(map(_is_number, rows[0])) and all(rows[0]) and any(map(_is_number, rows[1]))


def _is_number(cell: str) -> bool:
    return isinstance(_cell(cell), Number)


def _cell(cell: str) -> object:
    if not cell:
        return None
    if cell in ("true", "false"):
        return cell == "true"
    return Number(cell) if is_number(cell) else cell
