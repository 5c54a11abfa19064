"""The careful reader of one transaction record. It defines the accepted records and the reasons for rejection.

The quick reader in `codec.transactions.codec` reads whole batches and passes every doubtful record to this module. Both
readers agree on each record (a test compares them). A record is a JSON object if its first non-blank byte is `{`,
otherwise a CSV line: the fields in schema order, with an empty cell for null. A line may omit trailing nullable fields.

- Types are strict. A long is a JSON number without fraction or exponent. A string, a boolean and `1.0` are rejected. A
  decimal is a number or a string that holds a JSON number. A timestamp is an integer of epoch ms, or a string with a
  date and time. A field may declare another form (see `model.declared.field_source`), which is then the only one.
- Members that the schema does not declare are ignored, but must be well-formed. A member that the schema reads, or that
  leads to one, may occur once in its object. A field under its name and an alias, or under two aliases, is a duplicate
  too.
- A field may come from the record's key, a header, or the topic's name: see `model.declared.field_source`.
- A value of a string field has at most 256 characters, also after its normalization, and no NUL. A field that is absent
  or null, or behind a null, is rejected unless the schema declares it nullable.

The reasons are stable, so that programs can count them: `empty`, `too_large`, `invalid_utf8`, `too_deep`,
`malformed_json`, `not_an_object`, `bad_csv`, `bad_envelope`, `duplicate_field`, and, followed by `:<field>`,
`missing_field`, `wrong_shape`, `wrong_type`, `out_of_range`, `does_not_fit`, `bad_timestamp`, `bad_text`, and
`invalid_utf8` for a key or header. The module `codec.transactions.codec` adds `no_append_time`, `future_event_time`,
`past_event_time` and `internal_error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from fraud_rules.codec.transactions.csv_line import BLANKS, split_line
from fraud_rules.codec.transactions.envelope import unwrapped
from fraud_rules.codec.transactions.field_value import Number, Value, from_bytes, from_cell, from_value, null_of
from fraud_rules.codec.transactions.tree import ABSENT, parse_object, value_at
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import Origin
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import ID_FIELD, Envelope, Field, TransactionSchema

_NO_CELLS: Final[Mapping[str, bytes | None]] = MappingProxyType({})


def read_record(
    value: bytes,
    schema: TransactionSchema,
    max_bytes: int = RecordLimits().max_bytes,
    cells: Mapping[str, bytes | None] = _NO_CELLS,
) -> tuple[Value, ...] | None:
    """Read the values of one record in schema order: int (decimals unscaled, timestamps in ms), str, or None for null.

    `cells` has the texts of the fields beside the value, by the field's name.

    Returns None for a record that describes no new payment (see `envelope`). Raises RecordRejected, and no other error,
    for bytes that are not a valid record.
    """
    check_size(value, max_bytes)
    body = value.strip(BLANKS)
    if not body:
        raise RecordRejected("empty", "only blanks")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise RecordRejected("invalid_utf8", f"byte {error.start}: {error.reason}") from None
    if body.startswith(b"{"):
        return read_tree(parse_object(body, text), schema, cells)
    if body.startswith(b"["):
        raise RecordRejected("not_an_object", "a JSON array; one record is one JSON object or one CSV line")
    if schema.unwrap is not Envelope.NONE:
        raise RecordRejected("bad_envelope", "a CSV line, which has no envelope")
    line = iter(split_line(text, schema))
    return tuple(
        [
            from_cell(field, next(line))
            if field.source.origin is Origin.VALUE
            else from_bytes(field, cells[field.name])
            for field in schema.fields
        ]
    )


def check_size(value: bytes, max_bytes: int) -> None:
    """Raise RecordRejected for a record of more bytes."""
    if len(value) > max_bytes:
        raise RecordRejected("too_large", f"{len(value)} bytes; at most {max_bytes} are read")


def read_tree(
    tree: dict[str, object], schema: TransactionSchema, cells: Mapping[str, bytes | None] = _NO_CELLS
) -> tuple[Value, ...] | None:
    """Read the values of one decoded record, as `read_record` does."""
    payment = unwrapped(tree, schema.unwrap)
    if payment is None:
        return None
    return tuple([_value(field, payment, cells) for field in schema.fields])


def claimed_id(value: bytes | None, schema: TransactionSchema) -> object:
    """The id in a record that was rejected; None unless the record is a JSON object with an id at its place."""
    declared = schema.field(ID_FIELD)
    body = (value or b"").strip(BLANKS)
    if declared is None or declared.source.origin is not Origin.VALUE or not body.startswith(b"{"):
        return None
    try:
        payment = unwrapped(parse_object(body, body.decode()), schema.unwrap)
        found = None if payment is None else _found(declared, payment)
        if isinstance(found, Number):
            return msgspec.json.decode(str(found).encode())
    except (RecordRejected, UnicodeDecodeError, msgspec.DecodeError):
        return None
    return found if isinstance(found, str) else None


def _value(field: Field, payment: object, cells: Mapping[str, bytes | None]) -> Value:
    if field.source.origin is not Origin.VALUE:
        return from_bytes(field, cells[field.name])
    found = _found(field, payment)
    return null_of(field) if found is ABSENT else from_value(field, found)


def _found(field: Field, payment: object) -> object:
    """The value at the field's place; ABSENT without one."""
    return value_at(payment, field.source.path, field.name) if field.source.path else _named(field, payment)


def _named(field: Field, payment: object) -> object:
    """The member with the field's name or an alias of it."""
    found = [each for name in field.member_names if (each := value_at(payment, (name,), field.name)) is not ABSENT]
    if len(found) > 1:
        raise RecordRejected("duplicate_field", f"{field.name} is given under two of its names")
    return found[0] if found else ABSENT
