"""CSV lines of transactions.

A plain line (numbers and unquoted text) is rewritten as the equivalent JSON object, so that the quick reader decodes it
like any other record. The `csv` module splits every other line for the careful reader.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from fraud_rules.errors import RecordRejected
from fraud_rules.model.schema import Envelope, Field, FieldType, TransactionSchema

BLANKS: Final = b" \t\r\n"
"""The bytes that are stripped from both ends of a record, JSON or CSV."""

_INTEGER = rb"-?(?:0|[1-9][0-9]{0,18})"
_PLAIN: Final = {
    FieldType.LONG: _INTEGER,
    FieldType.TIMESTAMP: _INTEGER,
    FieldType.DECIMAL: rb"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,18})?",
    FieldType.BOOLEAN: rb"true|false",
    FieldType.STRING: rb'[^",\\\x00-\x1f]+',
}


def split_line(text: str, schema: TransactionSchema) -> list[str]:
    """Split a CSV line into one cell per field of the value. A line may omit trailing nullable cells.

    Raises RecordRejected.
    """
    if "\n" in text or "\r" in text:
        raise RecordRejected("bad_csv", "more than one line")
    try:
        cells = next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise RecordRejected("bad_csv", str(error)) from None
    least, most = required_cells(schema), len(schema.in_value)
    if not least <= len(cells) <= most:
        raise RecordRejected("bad_csv", f"{len(cells)} cells instead of {least} to {most}")
    return cells + [""] * (most - len(cells))


@lru_cache(maxsize=16)
def line_rewriter(schema: TransactionSchema) -> Callable[[bytes], bytes | None]:
    """Return a function that rewrites a plain CSV line as its JSON object. It returns None for any other input, and for
    each line if the schema's JSON objects have another shape than the line."""
    shaped = any(field.source.path or field.source.written_as for field in schema.in_value)
    if schema.unwrap is not Envelope.NONE or shaped:
        return lambda line: None
    required = required_cells(schema)
    cells = [_cell_pattern(field) for field in schema.in_value]
    optional = b"".join(b"(?:," + cell for cell in cells[required:]) + b")?" * (len(cells) - required)
    match = re.compile(rb"(?![\[{])" + b",".join(cells[:required]) + optional).fullmatch
    members = [
        ((b'"%b":"%b"' if field.type is FieldType.STRING else b'"%b":%b'), field.name.encode())
        for field in schema.in_value
    ]

    def rewrite(line: bytes) -> bytes | None:
        found = match(line.strip(BLANKS))
        if found is None:
            return None
        given = zip(members, found.groups(), strict=True)
        return b"{" + b",".join([form % (name, cell) for (form, name), cell in given if cell]) + b"}"

    return rewrite


def required_cells(schema: TransactionSchema) -> int:
    """The least number of cells in a line: up to the last field that is not nullable."""
    return max((position for position, field in enumerate(schema.in_value, 1) if not field.nullable), default=1)


def _cell_pattern(field: Field) -> bytes:
    return b"(" + _PLAIN[field.type] + b")" + (b"?" if field.nullable else b"")
