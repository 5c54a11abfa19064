"""A record of a history file, and the declared columns of a file with a table's form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from fraud_rules.codec.scalar import is_number
from fraud_rules.errors import InputInvalid
from fraud_rules.model.schema import Field, FieldType, TransactionSchema

_NAMED: Final = 12
_WHOLE: Final = (FieldType.LONG, FieldType.TIMESTAMP)
_WHOLE_FLOAT: Final = re.compile(r"(-?(?:0|[1-9][0-9]{0,14}))\.0+")
"""A whole number that a program wrote as a float. A float has all whole numbers of up to 15 digits exactly."""

encode = msgspec.json.Encoder(decimal_format="number").encode


class Unreadable(NamedTuple):
    """The reason and detail of a fault that the codec cannot see, for example a row that is longer than the header."""

    reason: str
    detail: str


class HistoryRecord(NamedTuple):
    """A record with the number of its line, or of its row in a Parquet file; both begin at 1.

    The value of a record with a fault is not readable for the codec either, so no reader ever accepts it.
    """

    line: int
    value: bytes
    fault: Unreadable | None = None


Columns = Sequence[Field | None]
"""The field of each column in the file's order, None for a column that the schema does not declare."""


def cell_value(cell: str, kind: FieldType) -> object:
    """The value for JSON in a text: a number keeps its digits. Booleans ignore case, because programs write `True`."""
    if kind is FieldType.STRING:
        return cell
    if kind is FieldType.BOOLEAN:
        return msgspec.Raw(cell.lower().encode()) if cell.lower() in ("true", "false") else cell
    whole = _WHOLE_FLOAT.fullmatch(cell) if kind in _WHOLE else None
    number = cell if whole is None else whole[1]
    return msgspec.Raw(number.encode()) if is_number(number) else cell


def declared_columns(names: Sequence[str], schema: TransactionSchema) -> Columns:
    """The columns with these names. Raises InputInvalid if a field has no column or more than one."""
    columns = [schema.field(name) for name in names]
    named = [field.name for field in columns if field is not None]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise InputInvalid(f"it has more than one column for {', '.join(twice)}: keep one of them")
    missing = [field.name for field in schema.fields if not field.nullable and field.name not in named]
    if missing or not named:
        wanted = ", ".join(missing) or "any field of the schema"
        raise InputInvalid(
            f"it has no column for {wanted}; its columns are {_listed(names)}: "
            "declare its names as aliases in config/schema.yaml, or rename its columns"
        )
    return columns


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:64] for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
