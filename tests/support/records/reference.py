"""A slow reader of transaction records, written only from the description in `codec.transactions.record`.

It uses `json.loads` and `Decimal`, while the product uses msgspec and Arrow. It returns whether a record is accepted
and with which values, but no reasons for a rejection.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation, Overflow
from itertools import chain
from typing import Any

from fraud_rules.model.schema import Field, FieldType, TransactionSchema

Values = dict[str, int | str | Decimal]
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation, Overflow, Inexact])
TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|([+-])(\d\d)(?::?(\d\d))?)?", re.ASCII
)


class RecordRefused(Exception):
    """The record is not accepted."""


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class Object(dict[str, Any]):
    """A JSON object with all its members, also those that occur twice."""

    pairs: Sequence[tuple[str, Any]] = ()

    def repeats(self, name: str) -> bool:
        return [each for each, _ in self.pairs].count(name) > 1


def reference(record: bytes, schema: TransactionSchema, max_bytes: int = 65_536) -> Values | None:
    """Read a record: its values without nulls, decimals as Decimal; None for a rejected record."""
    if len(record) > max_bytes:
        return None
    try:
        text = record.decode().strip(" \t\r\n")
        members = _object(text) if text.startswith("{") else _cells(text, schema)
        values = {field.name: _value(field, members) for field in schema.fields}
    except (RecordRefused, UnicodeError, ValueError, RecursionError, csv.Error):
        return None
    return {name: value for name, value in values.items() if value is not None}


def _object(text: str) -> dict[str, Any]:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        members = Object(items)
        members.pairs = items
        return members

    def refuse(constant: str) -> None:
        raise RecordRefused(constant)

    loaded = json.loads(text, object_pairs_hook=pairs, parse_int=Number, parse_float=Number, parse_constant=refuse)
    _check(loaded, 32)
    members: dict[str, Any] = loaded
    return members


def _check(value: Any, levels: int) -> None:
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, Object | list):
        if levels == 0:
            raise RecordRefused
        for inner in chain(*value.pairs) if isinstance(value, Object) else value:
            _check(inner, levels - 1)


def _cells(text: str, schema: TransactionSchema) -> dict[str, Any]:
    if not text or text[0] == "[" or "\n" in text or "\r" in text:
        raise RecordRefused
    (cells,) = csv.reader([text], strict=True)
    missing = len(schema.fields) - len(cells)
    if missing < 0 or not all(field.nullable for field in schema.fields[len(cells) :]):
        raise RecordRefused
    return {f.name: _cell(f, cell) for f, cell in zip(schema.fields, cells, strict=False)}


def _cell(field: Field, cell: str) -> str | None:
    if not cell:
        return None
    digits = cell.removeprefix("-")
    is_integer = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
    return Number(cell) if is_integer and field.type in (FieldType.LONG, FieldType.TIMESTAMP) else cell


def _value(field: Field, members: dict[str, Any]) -> int | str | Decimal | None:
    given = [members[name] for name in (field.name, *field.aliases) if name in members]
    if len(given) > 1 or (isinstance(members, Object) and any(map(members.repeats, field.member_names))):
        raise RecordRefused
    if given in ([], [None]):
        if field.nullable:
            return None
        raise RecordRefused
    if not isinstance(given[0], str):
        raise RecordRefused
    return _typed(field, given[0])


def _typed(field: Field, value: str) -> int | str | Decimal:
    if field.type is FieldType.DECIMAL:
        return _decimal(value, field)
    if field.type is FieldType.STRING:
        if isinstance(value, Number) or len(value) > 256 or "\0" in value:
            raise RecordRefused
        return value
    if isinstance(value, Number):
        if not value.removeprefix("-").isdigit() or len(value) > 20:
            raise RecordRefused
        number = int(value)
    elif field.type is FieldType.TIMESTAMP:
        number = _time(value)
    else:
        raise RecordRefused
    low, high = (-(2**63), 2**63) if field.type is FieldType.LONG else (-62_135_596_800_000, 253_402_300_800_000)
    if not low <= number < high:
        raise RecordRefused
    return number


def _decimal(text: str, field: Field) -> Decimal:
    try:
        json.loads(text, parse_int=Decimal, parse_float=str)  # a JSON number with any exponent
        if text[-1] not in "0123456789" or text[0] not in "-0123456789":
            raise RecordRefused
        value = EXACT.create_decimal(text)
    except ArithmeticError:
        raise RecordRefused from None
    if value == 0:
        return Decimal(0)
    if value.adjusted() >= field.precision - field.scale or _lowest_digit(value) < -field.scale:
        raise RecordRefused
    return value


def _lowest_digit(value: Decimal) -> int:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return exponent + len(digits) - len("".join(map(str, digits)).rstrip("0"))


def _time(text: str) -> int:
    match = TIME.fullmatch(text)
    if match is None or len(text) > 64:
        raise RecordRefused
    year, month, day, hour, minute, second, fraction, zone, sign, offset_hours, offset_minutes = match.groups()
    moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC)
    offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
    if zone not in (None, "Z") and (offset >= timedelta(hours=19) or int(offset_minutes or 0) > 59):
        raise RecordRefused
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC) - (-offset if sign == "-" else offset)
    return since_epoch // timedelta(milliseconds=1) + int(((fraction or "") + "000")[:3])
