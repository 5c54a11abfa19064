"""Reads the rows of a CSV file, with or without a header, as JSON records."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from fraud_rules.codec.history.record import Columns, HistoryRecord, Unreadable, cell_value, declared_columns, encode
from fraud_rules.codec.scalar import is_number, parse_timestamp
from fraud_rules.codec.transactions.csv_line import required_cells
from fraud_rules.errors import InputInvalid
from fraud_rules.model.schema import TransactionSchema

_OTHER_DELIMITERS: Final = {";": "';'", "\t": "tabs", "|": "'|'"}


def csv_records(path: Path, schema: TransactionSchema) -> Iterator[HistoryRecord]:
    """Read a CSV file. A header names the columns, in any order; without one, a row has the schema's field order.

    A first row with a declared name, or without any number and time, is a header. Raises InputInvalid.
    """
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = _rows(file)
        first = next(rows, None)
        if first is None:
            return
        _, _, cells = first
        _require_commas(cells)
        names = [cell.strip() for cell in cells]
        columns: Columns = schema.fields
        least = required_cells(schema)
        if _is_header(names, schema):
            columns = declared_columns(names, schema)
            least = len(columns)
        else:
            yield _record(*first, columns, least)
        for row in rows:
            yield _record(*row, columns, least)


def _rows(file: Any) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the first and the last line of each row, and its cells."""
    reader = csv.reader(file, strict=True)
    before = 0
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputInvalid(f"line {before + 1}: {error} (line {reader.line_num})") from error
        if cells is None:
            return
        if cells:
            yield before + 1, reader.line_num, cells
        before = reader.line_num


def _is_header(names: Sequence[str], schema: TransactionSchema) -> bool:
    if any(schema.field(name) is not None for name in names):
        return True
    return not any(is_number(name) or parse_timestamp(name) is not None for name in names)


def _require_commas(cells: Sequence[str]) -> None:
    """Raises InputInvalid if other characters separate the cells of the first row."""
    if len(cells) == 1:
        for delimiter, shown in _OTHER_DELIMITERS.items():
            if delimiter in cells[0]:
                raise InputInvalid(f"{shown} separate its cells: write it with commas")


def _record(line: int, last: int, cells: list[str], columns: Columns, least: int) -> HistoryRecord:
    """Encode a row as JSON. Numbers keep their digits; an empty cell becomes an absent member."""
    fault = None
    if not least <= len(cells) <= len(columns):
        if last > line:
            raise InputInvalid(f"line {line}: a quoted cell ends only in line {last}")
        expected = f"{least}" if least == len(columns) else f"{least} to {len(columns)}"
        fault = Unreadable("bad_csv", f"{len(cells)} cells instead of {expected}")
    elif not all(map(_is_utf8, cells)):
        fault = Unreadable("invalid_utf8", "a cell is not UTF-8")
    if fault is not None:
        return HistoryRecord(line, encode([_printable(cell) for cell in cells]), fault)
    members = {
        field.name: cell_value(cell, field.type) for field, cell in zip(columns, cells, strict=False) if field and cell
    }
    return HistoryRecord(line, encode(members))


def _is_utf8(cell: str) -> bool:
    return cell.isascii() or not any("\ud800" <= char <= "\udfff" for char in cell)


def _printable(cell: str) -> str:
    return cell.encode("utf-8", "backslashreplace").decode()
