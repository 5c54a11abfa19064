"""The quick reader of transactions: it decodes each record with types, then converts column by column.

It accepts a record only if the record is certainly valid (see `codec`). It returns the positions of all other records
as `doubtful`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Meta, Raw, UnsetType
from numpy.typing import NDArray

from fraud_rules.codec.nesting import MAX_DEPTH
from fraud_rules.codec.scalar import INT64_MAX, INT64_MIN, TIMESTAMP_MAX_MS, TIMESTAMP_MIN_MS, parse_timestamp
from fraud_rules.codec.text_form import normalized_column
from fraud_rules.codec.transactions.csv_line import line_rewriter
from fraud_rules.codec.transactions.record import MAX_TEXT_LENGTH, Value, decode_members
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]
Cell: TypeAlias = Any
"""The decoded value of a member: int, str, Raw, None for null, UNSET for an absent member."""

_TYPES: dict[FieldType, Any] = {
    FieldType.LONG: Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)],
    FieldType.TIMESTAMP: Annotated[int, Meta(ge=TIMESTAMP_MIN_MS, le=TIMESTAMP_MAX_MS)] | str,
    FieldType.STRING: Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)],
    FieldType.DECIMAL: Raw,
}


@dataclass(frozen=True, slots=True)
class QuickReadResult:
    """The quick reader's result for a batch: the columns of the accepted records, and their ascending positions.

    `doubtful` holds the ascending positions of the records that the careful reader must read.
    """

    positions: Ints
    columns: dict[str, Column]
    doubtful: list[int]


@dataclass(frozen=True, slots=True)
class _DecodedRecords:
    """The decoded records: their positions, their JSON texts, and the structs of their members."""

    positions: list[int]
    texts: list[bytes]
    records: list[Any]


class QuickReader:
    """A reader compiled from a schema. Use `quick_reader`, which caches one reader per schema."""

    def __init__(self, schema: TransactionSchema) -> None:
        members = [(field, name) for field in schema.fields for name in field.member_names]
        attributes = {name: f"member_{position}" for position, (_, name) in enumerate(members)}
        struct = msgspec.defstruct(
            "TransactionMembers",
            sorted((_declare(field, attributes[name]) for field, name in members), key=len),
            rename={attribute: name for name, attribute in attributes.items()},
            gc=False,
        )
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(struct).decode
        self._rewrite_line = line_rewriter(schema)
        self._fields = [
            (field, [attrgetter(attributes[name]) for name in field.member_names]) for field in schema.fields
        ]

    def read(self, values: Sequence[bytes | None], max_bytes: int) -> QuickReadResult:
        """Read the records that are certainly valid. Tombstones are doubtful, like all other records."""
        decoded, doubtful = self._decode_each(values, max_bytes)
        columns, certain = self._convert(decoded)
        positions = np.array(decoded.positions, np.int64)
        if certain.all():
            return QuickReadResult(positions, columns, doubtful)
        doubtful = sorted(doubtful + positions[~certain].tolist())
        accepted = {name: column.take(certain) for name, column in columns.items()}
        return QuickReadResult(positions[certain], accepted, doubtful)

    def _decode_each(self, values: Sequence[bytes | None], max_bytes: int) -> tuple[_DecodedRecords, list[int]]:
        decode = self._decode
        positions, texts, records, doubtful = [], [], [], []
        for i, value in enumerate(values):
            if value is None or len(value) > max_bytes or not (value.isascii() or _is_utf8(value)):
                doubtful.append(i)
                continue
            text = value
            try:
                record = decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                text, record = self._decode_line(value)
                if record is None:
                    doubtful.append(i)
                    continue
            positions.append(i)
            texts.append(text)
            records.append(record)
        return _DecodedRecords(positions, texts, records), doubtful

    def _decode_line(self, value: bytes) -> tuple[bytes, Any]:
        """Rewrite a plain CSV line as JSON and decode it. Returns the unchanged value and None for any other value."""
        text = self._rewrite_line(value)
        if text is None:
            return value, None
        try:
            return text, self._decode(text)
        except msgspec.ValidationError:
            return value, None

    def _convert(self, decoded: _DecodedRecords) -> tuple[dict[str, Column], Bools]:
        """Convert decoded records to columns. The mask marks the records that are certainly valid."""
        n = len(decoded.records)
        certain = np.ones(n, np.bool_)
        member_counts = np.zeros(n, np.int64)
        columns: dict[str, Column] = {}
        for field, getters in self._fields:
            cells = _gather(decoded.records, getters, member_counts, certain)
            columns[field.name] = _CONVERTERS[field.type](field, cells, certain)
            valid = columns[field.name].valid
            if valid is not None and not field.nullable:
                certain &= valid
        certain &= _repeats_no_member(decoded.texts, member_counts)
        return columns, certain


@lru_cache(maxsize=16)
def quick_reader(schema: TransactionSchema) -> QuickReader:
    """Return the cached reader of this schema."""
    return QuickReader(schema)


def _declare(field: Field, attribute: str) -> tuple[str, Any] | tuple[str, Any, Any]:
    """Declare a field as a struct member: optional if the field is nullable or has aliases."""
    kind = _TYPES[field.type]
    if field.nullable and field.type is not FieldType.DECIMAL:
        kind |= None
    return (attribute, kind | UnsetType, UNSET) if field.nullable or field.aliases else (attribute, kind)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _gather(records: list[Any], getters: list[attrgetter[Cell]], member_counts: Ints, certain: Bools) -> list[Cell]:
    """Read the cells of one field under the name that each record uses. Increments `member_counts` for the records that
    have the field, and clears `certain` for the records that have it under two names."""
    cells = list(map(getters[0], records))
    found = _present(cells)
    for getter in getters[1:]:
        others = list(map(getter, records))
        used = _present(others)
        if not used.any():
            continue
        certain &= ~(found & used)
        cells = [other if other is not UNSET else cell for cell, other in zip(cells, others, strict=True)]
        found |= used
    member_counts += found
    return cells


def _present(cells: list[Cell]) -> Bools:
    """The mask of the records that have the member."""
    absent = cells.count(UNSET)
    if absent in (0, len(cells)):
        return np.full(len(cells), not absent, np.bool_)
    return np.array([cell is not UNSET for cell in cells], np.bool_)


def _repeats_no_member(texts: Sequence[bytes], member_counts: Ints) -> Bools:
    """The mask of the records that certainly have no member twice. Colons are the proof (see `codec`)."""
    colons = np.fromiter([text.count(b":") for text in texts], np.int64, len(texts))
    unrepeated: Bools = colons == member_counts
    for i in np.flatnonzero(~unrepeated).tolist():
        unrepeated[i] = _has_no_member_twice(texts[i], int(colons[i]))
    return unrepeated


def _has_no_member_twice(text: bytes, colons: int) -> bool:
    """Whether an object certainly has no member twice: it contains no other object, and no name contains a colon."""
    if text.count(b"{") > 1 or text.count(b"[") >= MAX_DEPTH:
        return False
    members = decode_members(text)
    return colons == len(members) + sum([bytes(raw).count(b":") for raw in members.values()])


def _longs(field: Field, cells: list[Cell], certain: Bools) -> Column:
    try:
        return Column(np.fromiter(cells, np.int64, len(cells)), None, None)
    except TypeError:  # a null or an absent member
        return column_of(field, [cell if type(cell) is int else None for cell in cells])


def _timestamps(field: Field, cells: list[Cell], certain: Bools) -> Column:
    if str not in set(map(type, cells)):
        return _longs(field, cells, certain)
    parsed = [parse_timestamp(cell) if type(cell) is str else cell for cell in cells]
    certain &= np.array(
        [value is not None or cell is None for cell, value in zip(cells, parsed, strict=True)], np.bool_
    )
    return _longs(field, parsed, certain)


def _strings(field: Field, cells: list[Cell], certain: Bools) -> Column:
    column = column_of(field, [None if cell is UNSET else cell for cell in cells])
    if field.normalize:
        column = normalized_column(column, field.normalize)
    suspect = [code for code, text in enumerate(column.dictionary or ()) if "\0" in text or len(text) > MAX_TEXT_LENGTH]
    if suspect:
        certain &= ~np.isin(column.values, suspect)
    return column


def _decimals(field: Field, cells: list[Cell], certain: Bools) -> Column:
    """Convert the plain numbers that certainly fit, exactly and with Arrow. Numbers with an exponent or needless zeros
    are doubtful."""
    valid = _present(cells)
    texts = _arrow_texts(cells if valid.all() else [b"" if cell is UNSET else cell for cell in cells])
    matched = pc.match_substring_regex(texts, _plain_decimal(field))
    plain = np.from_dlpack(matched.cast(pa.uint8())).view(np.bool_)
    certain &= plain | ~valid
    numbers = pc.utf8_trim(texts if plain.all() else texts.filter(matched), '"')
    values = np.zeros(len(cells), np.int64)
    if len(numbers):
        words = numbers.cast(pa.decimal128(field.precision, field.scale)).buffers()[1]
        values[plain] = np.frombuffer(words, "<i8", 2 * len(numbers))[::2]
    return Column(values, None if valid.all() else valid, None)


def _arrow_texts(cells: list[Cell]) -> pa.LargeStringArray:
    """Build an Arrow array from its buffers: pyarrow's own conversions load pandas, which takes half a second."""
    ends = np.zeros(len(cells) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, cells), np.int64, len(cells)), out=ends[1:])
    return pa.LargeStringArray.from_buffers(len(cells), pa.py_buffer(ends), pa.py_buffer(b"".join(cells)))


def _plain_decimal(field: Field) -> str:
    whole = field.precision - field.scale
    digits = f"(0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
    fraction = rf"(\.[0-9]{{1,{field.scale}}})?" if field.scale else ""
    number = f"-?{digits}{fraction}"
    return f'^({number}|"{number}")$'


def column_of(field: Field, values: list[Value]) -> Column:
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


_CONVERTERS: dict[FieldType, Callable[[Field, list[Cell], Bools], Column]] = {
    FieldType.LONG: _longs,
    FieldType.TIMESTAMP: _timestamps,
    FieldType.STRING: _strings,
    FieldType.DECIMAL: _decimals,
}
"""A converter builds the column of a field from its cells, and clears `certain` for doubtful records."""
