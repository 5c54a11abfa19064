"""Reads files of past transactions (JSON Lines, CSV and Parquet) as the records that a producer would send.

A record is bytes for the detector's own codec, so the codec alone accepts or rejects it. Memory holds one record at a
time, or one batch of rows of a Parquet file.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fraud_rules.codec.scalar import is_number
from fraud_rules.errors import InputInvalid
from fraud_rules.model.schema import FieldType, TransactionSchema
from fraud_rules.runtime.file_faults import fault_of_file

__all__ = ["HISTORY_SUFFIXES", "digest_of", "history_records"]

_ROWS: Final = 10_000
_BLOCK: Final = 1_048_576

_encode = msgspec.json.Encoder(decimal_format="number").encode


def history_records(path: Path, schema: TransactionSchema) -> Iterator[bytes]:
    """Read the records of a file in the file's order. Raises InputInvalid for an unreadable file."""
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise InputInvalid(f"{path}: the name of a history file must end in {', '.join(HISTORY_SUFFIXES)}")
    try:
        yield from read(path, schema)
    except (OSError, pa.ArrowException, csv.Error, UnicodeDecodeError) as error:
        raise InputInvalid(f"{path} cannot be read: {fault_of_file(error)[:200]}") from error


def digest_of(path: Path) -> str:
    """Compute a digest that identifies a file's content. Raises InputInvalid."""
    found = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                found.update(block)
    except OSError as error:
        raise InputInvalid(f"{path} cannot be read: {error.strerror}") from error
    return found.hexdigest()[:32]


def _json_lines(path: Path, _: TransactionSchema) -> Iterator[bytes]:
    with path.open("rb") as lines:
        for line in lines:
            record = line.strip()
            if record:
                yield record


def _csv(path: Path, schema: TransactionSchema) -> Iterator[bytes]:
    """Read a CSV file. A header names the columns, in any order. Without one, a line has the schema's field order."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
        members = _members(header, schema)
    if members is None:
        yield from _json_lines(path, schema)
        return
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        next(rows, None)
        for row in rows:
            if row:
                yield _object({name: cell for (name, _), cell in zip(members, row, strict=False) if name}, members)


Members = Sequence[tuple[str | None, FieldType | None]]


def _members(header: Sequence[str], schema: TransactionSchema) -> Members | None:
    """The name and type of each column, (None, None) for an undeclared column. Returns None if the row is no header."""
    types = {name: field.type for field in schema.fields for name in field.member_names}
    names = [cell.strip() for cell in header]
    required = [field.member_names for field in schema.fields if not field.nullable]
    if not all(any(name in names for name in known) for known in required):
        return None
    return [(name, types[name]) if name in types else (None, None) for name in names]


def _object(cells: Mapping[str, str], members: Members) -> bytes:
    """Encode a row as JSON. Numbers keep their digits; an empty cell becomes an absent member."""
    types = dict(members)
    found = {
        name: msgspec.Raw(cell.encode()) if types[name] is not FieldType.STRING and is_number(cell) else cell
        for name, cell in cells.items()
        if cell
    }
    return _encode(found)


def _parquet(path: Path, schema: TransactionSchema) -> Iterator[bytes]:
    with pq.ParquetFile(path) as file:
        declared = {name for field in schema.fields for name in field.member_names}
        names = [name for name in file.schema_arrow.names if name in declared]
        for batch in file.iter_batches(_ROWS, columns=names):
            columns = [_plain(column).to_pylist() for column in batch.columns]
            for row in zip(*columns, strict=True):
                yield _encode({name: value for name, value in zip(names, row, strict=True) if value is not None})


def _plain(column: pa.Array) -> pa.Array:
    """Convert to types of JSON: times become epoch ms; dates and other types become text, which the codec rejects."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_timestamp(kind):
        return pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", kind.tz)).cast(pa.int64())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    known = (pa.types.is_integer(kind), pa.types.is_decimal(kind), pa.types.is_boolean(kind), pa.types.is_string(kind))
    return column if any(known) or pa.types.is_large_string(kind) else column.cast(pa.string())


_READERS: Final[dict[str, Callable[[Path, TransactionSchema], Iterator[bytes]]]] = {
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_lines,
    ".parquet": _parquet,
}
HISTORY_SUFFIXES: Final = tuple(_READERS)
