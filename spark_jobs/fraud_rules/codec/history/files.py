"""Reads files of past transactions (JSON Lines, CSV and Parquet) as the records that a producer would send.

A record is bytes for the detector's own codec with the schema of `schema_of_file`, so the codec alone accepts a record.
Memory holds one record at a time, or one batch of rows of a Parquet file. A file that could be misread as a whole (a
header with a missing field, another encoding) is refused as a whole.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from fraud_rules.codec.history.csv_file import csv_records
from fraud_rules.codec.history.parquet_file import parquet_records
from fraud_rules.codec.history.record import HistoryRecord
from fraud_rules.errors import InputInvalid
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.file_faults import fault_of_file

_BLOCK: Final = 1_048_576
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def history_records(path: Path, schema: TransactionSchema) -> Iterator[HistoryRecord]:
    """Read the records of a file in the file's order. Raises InputInvalid for an unreadable file."""
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise InputInvalid(f"{path}: the name of a history file must end in {', '.join(HISTORY_SUFFIXES)}")
    try:
        _refuse_utf16(path)
        yield from read(path, schema)
    except (OSError, pa.ArrowException, csv.Error, InputInvalid) as error:
        raise InputInvalid(f"{path} cannot be read: {fault_of_file(error)[:500]}") from error


def schema_of_file(path: Path, schema: TransactionSchema) -> TransactionSchema:
    """The schema by which the codec reads the records of a file: the flat one for a table, whose columns have the names
    of the fields."""
    return schema.flat if path.suffix.lower() in _TABLES else schema


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


def _refuse_utf16(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(2) in _UTF16:
            raise InputInvalid("it is in UTF-16: save it as UTF-8")


def _json_lines(path: Path, _: TransactionSchema) -> Iterator[HistoryRecord]:
    with path.open("rb") as lines:
        is_first = True
        for number, line in enumerate(lines, 1):
            record = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()
            if is_first and record.startswith(b"["):
                raise InputInvalid("it is one JSON array: write one object per line (jq -c '.[]')")
            if record:
                is_first = False
                yield HistoryRecord(number, record)


_READERS: Final[dict[str, Callable[[Path, TransactionSchema], Iterator[HistoryRecord]]]] = {
    ".csv": csv_records,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_lines,
    ".parquet": parquet_records,
}
_TABLES: Final = (".csv", ".parquet")
HISTORY_SUFFIXES: Final = tuple(_READERS)
