"""Convert the cells of one field, a cell for each record, to a column. A doubtful cell clears its record's mask.

The cells are decoded by `json_layout`. The careful reader decides about a doubtful record.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from numpy.typing import NDArray

from fraud_rules.codec.scalar import EPOCH_BOUNDS, is_integer, parse_timestamp
from fraud_rules.codec.text_form import normalized_column
from fraud_rules.codec.transactions.field_value import MAX_TEXT_LENGTH, Value, from_bytes
from fraud_rules.codec.transactions.json_layout import Cell
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import TimeUnit
from fraud_rules.model.schema import Field, FieldType
from fraud_rules.model.transaction import Column

Bools: TypeAlias = NDArray[np.bool_]
Converter: TypeAlias = Callable[[Field, list[Cell], Bools], Column]

_TEXT_DIGITS = 18
"""A number of so many digits fits 64 bits. A longer one is doubtful."""

_FEW = 100
"""Arrow converts more cells faster."""

_BOOLEANS = {b'"true"': 1, b'"false"': 0}


def converter_of(field: Field) -> Converter:
    """The converter for the type of a field and the form of its values."""
    return _CONVERTERS[field.type] if field.source.written_as is None else _OTHER_FORMS[field.type]


def present(cells: list[Cell]) -> Bools:
    """The mask of the records that have the member."""
    absent = cells.count(UNSET)
    if absent in (0, len(cells)):
        return np.full(len(cells), not absent, np.bool_)
    return np.array([cell is not UNSET for cell in cells], np.bool_)


def _longs(field: Field, cells: list[Cell], certain: Bools) -> Column:
    try:
        return Column(np.fromiter(cells, np.int64, len(cells)), None, None)
    except TypeError:  # a null or an absent member
        return column_of(field, [cell if type(cell) is int else None for cell in cells])


def _booleans(field: Field, cells: list[Cell], certain: Bools) -> Column:
    return column_of(field, [int(cell) if type(cell) is bool else None for cell in cells])


def _timestamps(field: Field, cells: list[Cell], certain: Bools) -> Column:
    if str in set(map(type, cells)):
        zone = field.source.zone
        parsed = [parse_timestamp(cell, zone) if type(cell) is str else cell for cell in cells]
        certain &= np.array(
            [value is not None or cell is None for cell, value in zip(cells, parsed, strict=True)], np.bool_
        )
        cells = parsed
    return _in_ms(field, _longs(field, cells, certain))


def _in_ms(field: Field, column: Column) -> Column:
    """Convert numbers of the field's unit to ms. Digits below a millisecond are cut off."""
    match field.source.unit:
        case TimeUnit.S:
            return Column(column.values * 1_000, column.valid, None)
        case TimeUnit.US:
            return Column(column.values // 1_000, column.valid, None)
        case TimeUnit.NS:
            return Column(column.values // 1_000_000, column.valid, None)
        case _:
            return column


def _strings(field: Field, cells: list[Cell], certain: Bools) -> Column:
    column = column_of(field, [None if cell is UNSET else cell for cell in cells])
    if field.normalize:
        column = normalized_column(column, field.normalize)
    suspect = [code for code, text in enumerate(column.dictionary or ()) if "\0" in text or len(text) > MAX_TEXT_LENGTH]
    if suspect:
        certain &= ~np.isin(column.values, suspect)
    return column


def _decimals(field: Field, cells: list[Cell], certain: Bools) -> Column:
    scale = 0 if field.source.scaled else field.scale
    number = _plain_decimal(field.precision, scale)
    return _numbers(cells, certain, f'({number}|"{number}")', pa.decimal128(field.precision, scale))


def _numbers(cells: list[Cell], certain: Bools, pattern: str, kind: pa.Decimal128Type) -> Column:
    """Convert the plain numbers that certainly fit, exactly. Numbers with an exponent or needless zeros are
    doubtful."""
    valid = present(cells)
    few = len(cells) <= _FEW
    plain, values = _few_numbers(cells, pattern, kind.scale) if few else _by_arrow(cells, valid, pattern, kind)
    certain &= plain | ~valid
    return Column(values, None if valid.all() else valid, None)


def _few_numbers(cells: list[Cell], pattern: str, scale: int) -> tuple[Bools, NDArray[np.int64]]:
    """`_by_arrow` for a few cells, for which the calls of Arrow cost several times as much."""
    is_plain = re.compile(pattern.encode()).fullmatch
    plain = [cell is not UNSET and is_plain(cell) is not None for cell in cells]
    values = [_unscaled(cell, scale) if matches else 0 for cell, matches in zip(cells, plain, strict=True)]
    return np.array(plain, np.bool_), np.array(values, np.int64)


def _unscaled(number: Cell, scale: int) -> int:
    whole, _, fraction = bytes(number).strip(b'"').partition(b".")
    return int(whole + fraction.ljust(scale, b"0"))


def _by_arrow(
    cells: list[Cell], valid: Bools, pattern: str, kind: pa.Decimal128Type
) -> tuple[Bools, NDArray[np.int64]]:
    """The mask of the cells that match the pattern as a whole, and their unscaled values; 0 for the others."""
    texts = _arrow_texts(cells if valid.all() else [b"" if cell is UNSET else cell for cell in cells])
    matched = pc.match_substring_regex(texts, f"^{pattern}$")
    plain = np.from_dlpack(matched.cast(pa.uint8())).view(np.bool_)
    numbers = pc.utf8_trim(texts if plain.all() else texts.filter(matched), '"')
    values = np.zeros(len(cells), np.int64)
    if len(numbers):
        words = numbers.cast(kind).buffers()[1]
        values[plain] = np.frombuffer(words, "<i8", 2 * len(numbers))[::2]
    return plain, values


def _arrow_texts(cells: list[Cell]) -> pa.LargeStringArray:
    """Build an Arrow array from its buffers: pyarrow's own conversions load pandas, which takes half a second."""
    ends = np.zeros(len(cells) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, cells), np.int64, len(cells)), out=ends[1:])
    return pa.LargeStringArray.from_buffers(len(cells), pa.py_buffer(ends), pa.py_buffer(b"".join(cells)))


def _plain_decimal(precision: int, scale: int) -> str:
    whole = precision - scale
    digits = f"(0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
    fraction = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
    return f"-?{digits}{fraction}"


def _longs_in_quotes(field: Field, cells: list[Cell], certain: Bools) -> Column:
    return _numbers(cells, certain, f'"{_plain_decimal(_TEXT_DIGITS, 0)}"', pa.decimal128(_TEXT_DIGITS, 0))


def _timestamps_in_quotes(field: Field, cells: list[Cell], certain: Bools) -> Column:
    column = _longs_in_quotes(field, cells, certain)
    low, high = EPOCH_BOUNDS[field.source.unit or TimeUnit.MS]
    certain &= (column.values >= low) & (column.values <= high)
    return _in_ms(field, column)


def _strings_without_quotes(field: Field, cells: list[Cell], certain: Bools) -> Column:
    texts = [UNSET if cell is UNSET else str(cell, "ascii") for cell in cells]
    certain &= np.array([text is UNSET or is_integer(text) for text in texts], np.bool_)
    return _strings(field, texts, certain)


def _booleans_in_quotes(field: Field, cells: list[Cell], certain: Bools) -> Column:
    values = [UNSET if cell is UNSET else _BOOLEANS.get(bytes(cell)) for cell in cells]
    certain &= np.array([value is not None for value in values], np.bool_)
    return column_of(field, [value if type(value) is int else None for value in values])


def _decimals_in_base64(field: Field, cells: list[Cell], certain: Bools) -> Column:
    values = [UNSET if cell is UNSET else _number_of_base64(bytes(cell), field.precision) for cell in cells]
    certain &= np.array([value is not None for value in values], np.bool_)
    return column_of(field, [value if type(value) is int else None for value in values])


def _number_of_base64(token: bytes, precision: int) -> int | None:
    """The number in a JSON string; None if it is not certainly one of at most `precision` digits."""
    try:
        value = int.from_bytes(base64.b64decode(token[1:-1], validate=True), "big", signed=True)
    except ValueError:
        return None
    return value if token[:1] == b'"' and abs(value) < 10**precision else None


def column_of_cells(field: Field, cells: Sequence[bytes | None], certain: Bools) -> Column:
    """Convert the texts of a field beside the value: plain numbers with Arrow, other texts each distinct one once."""
    if field.type in (FieldType.LONG, FieldType.DECIMAL):
        precision = _TEXT_DIGITS if field.type is FieldType.LONG else field.precision
        scale = 0 if field.source.scaled else field.scale
        pattern = _plain_decimal(precision, scale)
        return _numbers([cell or UNSET for cell in cells], certain, pattern, pa.decimal128(precision, scale))
    values: dict[bytes | None, Value] = {}
    rejected: set[bytes | None] = set()
    for cell in set(cells):
        try:
            values[cell] = from_bytes(field, cell)
        except RecordRejected:
            values[cell] = None
            rejected.add(cell)
    if rejected:
        certain &= np.array([cell not in rejected for cell in cells], np.bool_)
    return column_of(field, [values[cell] for cell in cells])


def column_of(field: Field, values: list[Any]) -> Column:
    """Build a column of exact values: int (a decimal unscaled, a timestamp in ms), str, or None for null."""
    valid = np.array([value is not None for value in values], np.bool_) if None in values else None
    if field.type is not FieldType.STRING:
        return Column(np.array([value or 0 for value in values], np.int64), valid, None)
    texts = dict.fromkeys(values)
    texts.pop(None, None)
    codes: dict[Value, int] = {text: code for code, text in enumerate(texts)}
    dictionary = tuple(map(str, codes))
    codes[None] = 0
    return Column(np.fromiter(map(codes.__getitem__, values), np.int64, len(values)), valid, dictionary)


_CONVERTERS: dict[FieldType, Converter] = {
    FieldType.LONG: _longs,
    FieldType.TIMESTAMP: _timestamps,
    FieldType.STRING: _strings,
    FieldType.DECIMAL: _decimals,
    FieldType.BOOLEAN: _booleans,
}
_OTHER_FORMS: dict[FieldType, Converter] = {
    FieldType.LONG: _longs_in_quotes,
    FieldType.TIMESTAMP: _timestamps_in_quotes,
    FieldType.STRING: _strings_without_quotes,
    FieldType.DECIMAL: _decimals_in_base64,
    FieldType.BOOLEAN: _booleans_in_quotes,
}
"""The converter for the form `written_as` of each type."""
