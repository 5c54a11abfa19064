"""Converts the value of a field in a record to the exact value of the field's type.

The values: an int for a long, a timestamp in ms, a decimal unscaled and a boolean as 0 or 1; a str for a string. Each
function raises RecordRejected with the reasons that `record` lists.
"""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

from fraud_rules.codec.formats.values import EpochMs
from fraud_rules.codec.scalar import (
    INT64_MAX,
    INT64_MIN,
    TIMESTAMP_MAX_MS,
    TIMESTAMP_MIN_MS,
    epoch_ms_of,
    is_integer,
    is_number,
    parse_decimal,
    parse_integer,
    parse_timestamp,
    unit_hint,
)
from fraud_rules.codec.text_form import normalized
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import TimeUnit, WrittenAs
from fraud_rules.model.schema import Field, FieldType

__all__ = [
    "MAX_DETAIL_LENGTH",
    "MAX_TEXT_LENGTH",
    "EpochMs",
    "Number",
    "Value",
    "from_bytes",
    "from_cell",
    "from_value",
    "null_of",
    "printable",
]

MAX_TEXT_LENGTH: Final = 256
MAX_DETAIL_LENGTH: Final = 200

Value: TypeAlias = int | str | None

_BOOLEANS: Final = {"true": 1, "false": 0}


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


def printable(text: str) -> str:
    """Escape control characters and unpaired surrogates, and cut the text at MAX_DETAIL_LENGTH characters."""
    escaped = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:MAX_DETAIL_LENGTH])
    return escaped if len(escaped) < MAX_DETAIL_LENGTH else escaped[: MAX_DETAIL_LENGTH - 3] + "..."


def _reject(reason: str, field: Field, detail: str) -> NoReturn:
    raise RecordRejected(f"{reason}:{field.name}", printable(detail))


def null_of(field: Field) -> Value:
    """The value of an absent field, or of a null."""
    if field.nullable:
        return None
    _reject("missing_field", field, "absent or null, and not nullable")


def from_value(field: Field, value: object) -> Value:
    """Convert a value of a tree (see `tree`)."""
    match value:
        case None:
            return null_of(field)
        case bool():
            return _from_boolean(field, value)
        case EpochMs():
            return _from_epoch_ms(field, value)
        case Number():
            return _from_number(field, value)
        case int():
            return _from_number(field, str(value))
        case Decimal() if value.is_finite():
            return _from_number(field, format(value, "f"))
        case str():
            return _from_string(field, value)
    _reject("wrong_type", field, f"expected {field.type}, found {_shape(value)}")


def from_cell(field: Field, cell: str) -> Value:
    """Convert a cell of a CSV line, a record's key or a header. An empty cell is null."""
    if not cell:
        return null_of(field)
    if field.type is FieldType.BOOLEAN and cell in _BOOLEANS:
        return _BOOLEANS[cell]
    if field.type is FieldType.STRING:
        return _convert_text(field, cell)
    return _convert_number(field, cell) if is_number(cell) else _from_string(field, cell)


def from_bytes(field: Field, cell: bytes | None) -> Value:
    """Convert the bytes of a key or header as a cell. No bytes are null."""
    try:
        text = (cell or b"").decode()
    except UnicodeDecodeError as error:
        _reject("invalid_utf8", field, f"byte {error.start}: {error.reason}")
    return from_cell(field, text)


def _from_number(field: Field, text: str) -> Value:
    form = field.source.written_as
    if form is WrittenAs.NUMBER and is_integer(text):
        return _convert_text(field, text)
    if form is not None or field.type in (FieldType.STRING, FieldType.BOOLEAN):
        expected = "a number in quotes" if form is WrittenAs.TEXT else field.type
        _reject("wrong_type", field, f"expected {expected}, found the number {text}")
    return _convert_number(field, text)


def _convert_number(field: Field, text: str) -> int:
    if field.type is FieldType.DECIMAL:
        return _unscaled(field, text)
    if field.type is FieldType.TIMESTAMP:
        return _from_epoch(field, text)
    if field.type is not FieldType.LONG or not is_integer(text):
        _reject("wrong_type", field, f"expected {field.type}, found the number {text}")
    value = parse_integer(text, INT64_MIN, INT64_MAX)
    if value is None:
        _reject("out_of_range", field, f"{text} is not within {INT64_MIN} to {INT64_MAX}")
    return value


def _unscaled(field: Field, text: str) -> int:
    scale = 0 if field.source.scaled else field.scale
    unscaled = parse_decimal(text, field.precision, scale)
    if unscaled is None:
        of_units = " of its smallest unit" if field.source.scaled else ""
        _reject("does_not_fit", field, f"{text} is not a decimal({field.precision},{scale}){of_units}")
    return unscaled


def _from_epoch(field: Field, text: str) -> int:
    unit = field.source.unit
    if unit is TimeUnit.ISO8601:
        _reject("wrong_type", field, f"expected a date and time in ISO-8601, found the number {text}")
    if unit is None and not is_integer(text):
        _reject("wrong_type", field, f"expected {field.type}, found the number {text}")
    value = epoch_ms_of(text, unit or TimeUnit.MS)
    if value is None:
        number = parse_integer(text, INT64_MIN, INT64_MAX) if is_integer(text) else None
        hint = "" if number is None else unit_hint(number, unit)
        of_unit = "" if unit is None else f" in the unit {unit}"
        _reject("out_of_range", field, f"{text} is not a time of the years 1 to 9999{of_unit}{hint}")
    return value


def _from_epoch_ms(field: Field, value: int) -> int:
    if field.type is not FieldType.TIMESTAMP:
        _reject("wrong_type", field, f"expected {field.type}, found a timestamp")
    if not TIMESTAMP_MIN_MS <= value <= TIMESTAMP_MAX_MS:
        _reject("out_of_range", field, f"{int(value)} is not within {TIMESTAMP_MIN_MS} to {TIMESTAMP_MAX_MS}")
    return int(value)


def _from_boolean(field: Field, value: bool) -> int:
    if field.type is not FieldType.BOOLEAN or field.source.written_as is not None:
        _reject("wrong_type", field, f"expected {field.type}, found {str(value).lower()}")
    return int(value)


def _from_string(field: Field, text: str) -> Value:
    form = field.source.written_as
    match field.type:
        case FieldType.STRING if form is None:
            return _convert_text(field, text)
        case FieldType.TIMESTAMP if form is WrittenAs.TEXT and is_number(text):
            return _from_epoch(field, text)
        case FieldType.TIMESTAMP if field.source.unit in (None, TimeUnit.ISO8601):
            return _from_iso8601(field, text)
        case FieldType.DECIMAL if form is WrittenAs.BASE64:
            return _from_base64(field, text)
        case FieldType.DECIMAL if is_number(text):
            return _unscaled(field, text)
        case FieldType.LONG if form is WrittenAs.TEXT and is_number(text):
            return _convert_number(field, text)
        case FieldType.BOOLEAN if form is WrittenAs.TEXT and text in _BOOLEANS:
            return _BOOLEANS[text]
    _reject("wrong_type", field, f"expected {field.type}, found the string {text!r}")


def _convert_text(field: Field, text: str) -> str:
    form = normalized(text, field.normalize)
    if max(len(text), len(form)) > MAX_TEXT_LENGTH or "\0" in text:
        _reject("bad_text", field, f"longer than {MAX_TEXT_LENGTH} characters, or holds NUL: {text!r}")
    return form


def _from_iso8601(field: Field, text: str) -> int:
    epoch_ms = parse_timestamp(text, field.source.zone)
    if epoch_ms is None:
        _reject("bad_timestamp", field, f"not an ISO-8601 date and time of the years 1 to 9999: {text!r}")
    return epoch_ms


def _from_base64(field: Field, text: str) -> int:
    try:
        value = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    except (binascii.Error, ValueError):
        _reject("wrong_type", field, f"expected a decimal in base64, found the string {text!r}")
    if abs(value) >= 10**field.precision:
        _reject("does_not_fit", field, f"{text!r} has more than {field.precision} digits")
    return value


def _shape(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else f"a value of {type(value).__name__}"
