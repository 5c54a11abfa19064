"""The careful reader of one transaction record. It defines the accepted records and the reasons for rejection.

The quick reader in `codec.transactions.codec` reads whole batches and passes every doubtful record to this module. Both
readers agree on each record (a test compares them). A record is a JSON object if its first non-blank byte is `{`,
otherwise a CSV line: the fields in schema order, with an empty cell for null. A line may omit trailing nullable fields.

- Types are strict. A long is a JSON number without fraction or exponent. A string, a boolean and `1.0` are rejected. A
  decimal is a number or a string that holds a JSON number. A timestamp is an integer of epoch ms, or a string with a
  date and time.
- Members that the schema does not declare are ignored, but must be well-formed. A member name may occur once in its
  object, at any depth. A field under its name and an alias, or under two aliases, is a duplicate too.
- A value of a string field has at most 256 characters, also after its normalization, and no NUL. A field that is absent
  or null is rejected unless the schema declares it nullable.

The reasons are stable, so that programs can count them: `empty`, `too_large`, `invalid_utf8`, `too_deep`,
`malformed_json`, `not_an_object`, `bad_csv`, `duplicate_field`, and, followed by `:<field>`, `missing_field`,
`wrong_type`, `out_of_range`, `does_not_fit`, `bad_timestamp`, `bad_text`. The module
`codec.transactions.codec` adds `no_append_time`, `future_event_time`, `past_event_time` and `internal_error`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias

import msgspec

from fraud_rules.codec.nesting import MAX_DEPTH, is_deep
from fraud_rules.codec.scalar import (
    INT64_MAX,
    INT64_MIN,
    TIMESTAMP_MAX_MS,
    TIMESTAMP_MIN_MS,
    is_integer,
    is_number,
    parse_decimal,
    parse_integer,
    parse_timestamp,
    unit_hint,
)
from fraud_rules.codec.text_form import normalized
from fraud_rules.codec.transactions.csv_line import BLANKS, split_line
from fraud_rules.errors import RecordRejected
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import Field, FieldType, TransactionSchema

MAX_TEXT_LENGTH: Final = 256
MAX_DETAIL_LENGTH: Final = 200

Value: TypeAlias = int | str | None

decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Splits a JSON object into its undecoded members. It keeps the last of several members with the same name."""
_text = msgspec.json.Decoder(str).decode


def read_record(
    value: bytes, schema: TransactionSchema, max_bytes: int = RecordLimits().max_bytes
) -> tuple[Value, ...]:
    """Read the values of one record in schema order: int (decimals unscaled, timestamps in ms), str, or None for null.

    Raises RecordRejected, and no other error, for bytes that are not a valid record.
    """
    if len(value) > max_bytes:
        raise RecordRejected("too_large", f"{len(value)} bytes; at most {max_bytes} are read")
    body = value.strip(BLANKS)
    if not body:
        raise RecordRejected("empty", "only blanks")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise RecordRejected("invalid_utf8", f"byte {error.start}: {error.reason}") from None
    if body.startswith(b"{"):
        return _from_members(_read_object(body, text), schema)
    if body.startswith(b"["):
        raise RecordRejected("not_an_object", "a JSON array; one record is one JSON object or one CSV line")
    return _from_cells(split_line(text, schema), schema)


def printable(text: str) -> str:
    """Escape control characters and unpaired surrogates, and cut the text at MAX_DETAIL_LENGTH characters."""
    escaped = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:MAX_DETAIL_LENGTH])
    return escaped if len(escaped) < MAX_DETAIL_LENGTH else escaped[: MAX_DETAIL_LENGTH - 3] + "..."


def _reject(reason: str, field: Field, detail: str) -> NoReturn:
    raise RecordRejected(f"{reason}:{field.name}", printable(detail))


def _read_object(body: bytes, text: str) -> Mapping[str, msgspec.Raw]:
    """Split a JSON object into members. The object must be well-formed, without duplicate names at any depth."""
    if is_deep(text):
        raise RecordRejected("too_deep", f"nested deeper than {MAX_DEPTH}")
    try:
        members = decode_members(body)
        # `decode_members` has read the members. This pass only searches for names that occur twice.
        json.loads(text, object_pairs_hook=_refuse_duplicates, parse_int=len, parse_float=len)
    except (msgspec.DecodeError, json.JSONDecodeError) as error:
        raise RecordRejected("malformed_json", printable(str(error))) from None
    return members


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise RecordRejected("duplicate_field", printable(f"member {name!r} occurs twice"))
        names.add(name)


def _from_members(members: Mapping[str, msgspec.Raw], schema: TransactionSchema) -> tuple[Value, ...]:
    for field in schema.fields:
        if field.aliases and sum(name in members for name in field.member_names) > 1:
            raise RecordRejected("duplicate_field", f"{field.name} is given under two of its names")
    return tuple([_from_json(field, members) for field in schema.fields])


def _from_json(field: Field, members: Mapping[str, msgspec.Raw]) -> Value:
    token = next((bytes(members[name]) for name in field.member_names if name in members), None)
    if token is None or token == b"null":
        return _null(field)
    if token.startswith(b'"'):
        return _from_string(field, _text(token))
    if token[:1] in b"-0123456789":
        return _from_number(field, token.decode())
    _reject("wrong_type", field, f"expected {field.type}, found {token.decode()}")


def _null(field: Field) -> Value:
    if not field.nullable:
        _reject("missing_field", field, "absent or null, and not nullable")
    return None


def _from_number(field: Field, text: str) -> Value:
    """Convert a JSON number to the field's type."""
    if field.type is FieldType.DECIMAL:
        unscaled = parse_decimal(text, field.precision, field.scale)
        if unscaled is None:
            _reject("does_not_fit", field, f"{text} is not a decimal({field.precision},{field.scale})")
        return unscaled
    if field.type is FieldType.STRING or not is_integer(text):
        _reject("wrong_type", field, f"expected {field.type}, found the number {text}")
    low, high = (INT64_MIN, INT64_MAX) if field.type is FieldType.LONG else (TIMESTAMP_MIN_MS, TIMESTAMP_MAX_MS)
    value = parse_integer(text, low, high)
    if value is None:
        hint = unit_hint(parse_integer(text, INT64_MIN, INT64_MAX)) if field.type is FieldType.TIMESTAMP else ""
        _reject("out_of_range", field, f"{text} is not within {low} to {high}{hint}")
    return value


def _from_string(field: Field, text: str) -> Value:
    """Convert a JSON string, or a CSV cell that is not a number, to the field's type."""
    if field.type is FieldType.STRING:
        form = normalized(text, field.normalize)
        if max(len(text), len(form)) > MAX_TEXT_LENGTH or "\0" in text:
            _reject("bad_text", field, f"longer than {MAX_TEXT_LENGTH} characters, or holds NUL: {text!r}")
        return form
    if field.type is FieldType.TIMESTAMP:
        epoch_ms = parse_timestamp(text)
        if epoch_ms is None:
            _reject("bad_timestamp", field, f"not an ISO-8601 date and time of the years 1 to 9999: {text!r}")
        return epoch_ms
    if field.type is FieldType.DECIMAL and is_number(text):
        return _from_number(field, text)
    _reject("wrong_type", field, f"expected {field.type}, found the string {text!r}")


def _from_cells(cells: list[str], schema: TransactionSchema) -> tuple[Value, ...]:
    return tuple([_from_cell(field, cell) for field, cell in zip(schema.fields, cells, strict=True)])


def _from_cell(field: Field, cell: str) -> Value:
    if not cell:
        return _null(field)
    is_numeric = field.type is not FieldType.STRING and is_number(cell)
    return _from_number(field, cell) if is_numeric else _from_string(field, cell)
