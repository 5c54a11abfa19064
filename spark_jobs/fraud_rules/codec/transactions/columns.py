"""The quick reader of transactions: it decodes each record with types, then converts column by column.

It accepts a record only if the record is certainly valid (see `codec`). It returns the positions of all other records
as `doubtful`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fraud_rules.codec.transactions.converters import Bools, column_of, column_of_cells, converter_of, present
from fraud_rules.codec.transactions.csv_line import line_rewriter
from fraud_rules.codec.transactions.json_layout import Cell, Getter, JsonLayout, Place, layouts_of
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.codec.transactions.repeats import repeats_no_member
from fraud_rules.model.declared.field_source import Origin
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column

Ints: TypeAlias = NDArray[np.int64]


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
        self._schema = schema
        self._layouts = layouts_of(schema)
        self._rewrite_line = line_rewriter(schema)

    def read(self, raw: RawTransactions, max_bytes: int) -> QuickReadResult:
        """Read the records that are certainly valid. Tombstones are doubtful, like all other records."""
        values = raw.values
        layout = self._layout_of(values)
        if layout is None:
            nothing = {field.name: column_of(field, []) for field in self._schema.fields}
            return QuickReadResult(np.empty(0, np.int64), nothing, list(range(len(values))))
        decoded, doubtful = self._decode_each(values, max_bytes, layout.decode)
        columns, certain = self._convert(decoded, layout, raw)
        positions = np.array(decoded.positions, np.int64)
        if certain.all():
            return QuickReadResult(positions, columns, doubtful)
        doubtful = sorted(doubtful + positions[~certain].tolist())
        accepted = {name: column.take(certain) for name, column in columns.items()}
        return QuickReadResult(positions[certain], accepted, doubtful)

    def _layout_of(self, values: Sequence[bytes | None]) -> JsonLayout | None:
        """The form of the first record. A topic has one form; a record of another form is doubtful."""
        if len(self._layouts) < 2:
            return self._layouts[0] if self._layouts else None
        first = next((value for value in values if value), b"")
        return self._layouts[b'"payload"' in first]

    def _decode_each(
        self, values: Sequence[bytes | None], max_bytes: int, decode: Callable[[bytes], Any]
    ) -> tuple[_DecodedRecords, list[int]]:
        positions, texts, records, doubtful = [], [], [], []
        for i, value in enumerate(values):
            if value is None or len(value) > max_bytes or not (value.isascii() or _is_utf8(value)):
                doubtful.append(i)
                continue
            text = value
            try:
                record = decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                text, record = self._decode_line(value, decode)
                if record is None:
                    doubtful.append(i)
                    continue
            positions.append(i)
            texts.append(text)
            records.append(record)
        return _DecodedRecords(positions, texts, records), doubtful

    def _decode_line(self, value: bytes, decode: Callable[[bytes], Any]) -> tuple[bytes, Any]:
        """Rewrite a plain CSV line as JSON and decode it. Returns the unchanged value and None for any other value."""
        text = self._rewrite_line(value)
        if text is None:
            return value, None
        try:
            return text, decode(text)
        except msgspec.ValidationError:
            return value, None

    def _convert(
        self, decoded: _DecodedRecords, layout: JsonLayout, raw: RawTransactions
    ) -> tuple[dict[str, Column], Bools]:
        """Convert decoded records to columns. The mask marks the records that are certainly valid."""
        n = len(decoded.records)
        certain = np.ones(n, np.bool_)
        found: dict[Place, Bools] = {}
        columns: dict[str, Column] = {}
        for field in self._schema.fields:
            if field.source.origin is Origin.VALUE:
                cells = _gather(decoded.records, layout.getters[field.name], found, certain)
                columns[field.name] = converter_of(field)(field, cells, certain)
            else:
                texts = raw.cells(field.source, decoded.positions)
                columns[field.name] = column_of_cells(field, texts, certain)
            valid = columns[field.name].valid
            if valid is not None and not field.nullable:
                certain &= valid
        for getter in layout.absent:
            certain &= ~present(list(map(getter, decoded.records)))
        certain &= repeats_no_member(decoded.texts, found, layout)
        return columns, certain


@lru_cache(maxsize=16)
def quick_reader(schema: TransactionSchema) -> QuickReader:
    """Return the cached reader of this schema."""
    return QuickReader(schema)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _gather(
    records: list[Any], getters: Mapping[Place, Getter], found: dict[Place, Bools], certain: Bools
) -> list[Cell]:
    """Read the cells of one field from the place that each record uses. Sets the masks of the records that have the
    field, by place, and clears `certain` for the records that have it at two places."""
    (first, getter), *others = getters.items()
    cells = list(map(getter, records))
    has_cell = found[first] = present(cells)
    for place, getter in others:
        further = list(map(getter, records))
        used = found[place] = present(further)
        if not used.any():
            continue
        certain &= ~(has_cell & used)
        cells = [other if other is not UNSET else cell for cell, other in zip(cells, further, strict=True)]
        has_cell = has_cell | used
    return cells
