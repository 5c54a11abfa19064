"""Transactions as columns: the parser creates them, the fan-out packs them and the kernel reads them.

Every value of every type is an int64, so that one compiled kernel serves every schema. A batch is valid once built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.schema import Field, FieldType, TransactionSchema

PACK_FORMAT: Final = 1

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Column:
    """One field of n rows.

    `values`, int64[n]: a LONG's value, a TIMESTAMP's epoch ms, a DECIMAL unscaled at its field's scale, 0 or 1 for a
    BOOLEAN, a STRING's position in `dictionary`; 0 for null. `valid`, bool[n], is None without nulls. Only a STRING has
    a `dictionary`. Its entries are distinct and belong to this batch only; some may be unused.
    """

    values: Ints
    valid: Bools | None
    dictionary: tuple[str, ...] | None

    @staticmethod
    def of_values(values: Sequence[int | str]) -> Column:
        """A column of texts, or of the numbers that stand for values."""
        texts = tuple(dict.fromkeys(value for value in values if isinstance(value, str)))
        if not texts:
            return Column(np.array(values, dtype=np.int64), None, None)
        codes = {text: code for code, text in enumerate(texts)}
        return Column(np.array([codes[str(value)] for value in values], dtype=np.int64), None, texts)

    def take(self, indices: NDArray[Any]) -> Column:
        """The rows at `indices` (positions or a mask), in that order."""
        values = self.values[indices]
        valid = None if self.valid is None else self.valid[indices]
        dictionary = self.dictionary
        if dictionary is not None and len(dictionary) > len(values):
            used, values = renumbered(values)
            dictionary = tuple([dictionary[code] for code in used])
        return Column(values, valid, dictionary)

    @staticmethod
    def concat(columns: Sequence[Column]) -> Column:
        """The rows of all columns of one type, in order."""
        return columns[0] if len(columns) == 1 else _concat_columns(columns, [len(each.values) for each in columns])

    def map_texts(self, change: Callable[[str], str]) -> Column:
        """The column of strings with each text changed."""
        return self.with_texts(tuple(map(change, self.dictionary or ())))

    def with_texts(self, texts: tuple[str, ...]) -> Column:
        """The column with these texts in place of those of the dictionary. Equal texts get one code."""
        codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        if len(codes) == len(texts):
            return Column(self.values, self.valid, texts)
        code_of = np.array([codes[text] for text in texts], np.int64)
        return Column(code_of[self.values], self.valid, tuple(codes))


@dataclass(frozen=True, slots=True)
class TransactionBatch:
    """Transactions of one source batch, in any order.

    `append_ms` int64[n] is the broker's append time, `partition` int32[n] and `offset` int64[n] are the record's
    position in the log, and `columns` has one Column of n rows per declared field, by canonical name. Arrays may be
    read-only.
    """

    append_ms: Ints
    partition: NDArray[np.int32]
    offset: Ints
    columns: dict[str, Column]

    def __len__(self) -> int:
        return len(self.append_ms)

    def take(self, indices: NDArray[Any]) -> TransactionBatch:
        """The rows at `indices` (positions or a mask), in that order."""
        columns = {name: column.take(indices) for name, column in self.columns.items()}
        return TransactionBatch(self.append_ms[indices], self.partition[indices], self.offset[indices], columns)

    def before(self, ends: Mapping[int, int]) -> TransactionBatch:
        """The rows with offsets below these ends, by partition. A partition without an end has none."""
        bounds = np.array([ends.get(number, 0) for number in range(int(self.partition.max(initial=0)) + 1)])
        return self.take(self.offset < bounds[self.partition])

    def columns_between(self, start: int, end: int) -> dict[str, Column]:
        """The columns of the rows [start, end)."""
        if end - start == len(self):
            return self.columns
        rows: Any = slice(start, end)
        return {name: column.take(rows) for name, column in self.columns.items()}

    @staticmethod
    def concat(batches: Sequence[TransactionBatch]) -> TransactionBatch:
        """The rows of all batches, in order. A field that a batch lacks, because it was declared later, is null."""
        if len(batches) == 1:
            return batches[0]
        sizes = [len(batch) for batch in batches]
        names = dict.fromkeys(name for batch in batches for name in batch.columns)
        columns = {name: _concat_columns([batch.columns.get(name) for batch in batches], sizes) for name in names}
        return TransactionBatch(
            np.concatenate([_NO_INTS, *(batch.append_ms for batch in batches)]),
            np.concatenate([_NO_INT32S, *(batch.partition for batch in batches)]),
            np.concatenate([_NO_INTS, *(batch.offset for batch in batches)]),
            columns,
        )

    def pack(self) -> bytes:
        """Encode the batch as bytes for `unpack`."""
        integers = [self.append_ms, self.offset, *(column.values for column in self.columns.values())]
        return _packed(np.concatenate(integers), self.partition, list(self.columns), list(self.columns.values()))

    @staticmethod
    def pack_numbered(numbers: Ints, prefix: str, columns: Mapping[str, Column]) -> bytes:
        """Pack n rows without a time and a place: the columns of `numbers` int64[n, m] as `prefix` 0 to m - 1, then
        `columns`."""
        n, m = numbers.shape
        names = [f"{prefix}{c}" for c in range(m)]
        integers = [np.zeros(2 * n, np.int64), numbers.T.reshape(-1), *(column.values for column in columns.values())]
        all_columns = [*([_NUMBERS] * m), *columns.values()]
        return _packed(np.concatenate(integers), np.zeros(n, np.int32), [*names, *columns], all_columns)

    @staticmethod
    def unpack(blob: bytes) -> TransactionBatch:
        """Decode `pack`'s bytes. The arrays are read-only, contiguous and aligned, and share one copy of the bytes."""
        packed = _decode(blob)
        if packed.format != PACK_FORMAT:
            raise ValueError(f"packed transactions of format {packed.format}; this version reads {PACK_FORMAT}")
        integers = np.frombuffer(packed.integers, _LITTLE_INT64).reshape(2 + len(packed.names), packed.rows)
        columns = {
            name: Column(values, None if valid is None else np.frombuffer(valid, np.bool_), dictionary)
            for name, values, valid, dictionary in zip(
                packed.names, integers[2:], packed.valids, packed.dictionaries, strict=True
            )
        }
        partition = np.frombuffer(packed.partition, _LITTLE_INT32)
        return TransactionBatch(integers[0], partition, integers[1], columns)

    @staticmethod
    def unpack_all(blobs: Sequence[bytes]) -> TransactionBatch:
        """Decode several results of `pack`: the rows of all of them, in order, as `concat` returns them."""
        packed = [_decode(blob) for blob in blobs]
        first = packed[0] if packed else None
        if first is None or len(packed) == 1 or any(p.names != first.names or p.format != PACK_FORMAT for p in packed):
            return TransactionBatch.concat([TransactionBatch.unpack(blob) for blob in blobs])
        width, sizes = 2 + len(first.names), [each.rows for each in packed]
        integers = np.concatenate(
            [np.frombuffer(each.integers, _LITTLE_INT64).reshape(width, each.rows) for each in packed], axis=1
        )
        columns = {}
        for c, name in enumerate(first.names):
            valids, dictionaries = [each.valids[c] for each in packed], [each.dictionaries[c] for each in packed]
            columns[name] = _joined_column(integers[2 + c], valids, dictionaries, sizes)
        partition = np.frombuffer(b"".join([each.partition for each in packed]), _LITTLE_INT32)
        return TransactionBatch(integers[0], partition, integers[1], columns)

    def row(self, i: int, schema: TransactionSchema) -> dict[str, object]:
        """Row `i` by field name, in schema order: timestamps in epoch ms, decimals at their field's scale, no nulls."""
        return self.rows([i], schema)[0]

    def rows(self, indices: Sequence[int] | Ints, schema: TransactionSchema) -> list[dict[str, object]]:
        """The rows at these positions, each as `row` returns it."""
        fields = [field for field in schema.fields if field.name in self.columns]
        indices = np.array(indices, np.int64)
        names = [field.name for field in fields]
        cells = zip(*[cells_of(self.columns[field.name], indices, field) for field in fields], strict=True)
        if all(self.columns[name].valid is None for name in names):
            return [dict(zip(names, row, strict=True)) for row in cells]
        return [{name: cell for name, cell in zip(names, row, strict=True) if cell is not None} for row in cells]


class _Packed(msgspec.Struct, array_like=True, gc=False):
    """The packed form. The integer columns (append time, offset, one per field) share one buffer, which keeps them
    aligned."""

    format: int
    rows: int
    integers: bytes
    partition: bytes
    names: list[str]
    valids: list[bytes | None]
    dictionaries: list[tuple[str, ...] | None]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Packed).decode
_LITTLE_INT64 = np.dtype("<i8")
_LITTLE_INT32 = np.dtype("<i4")
_FEW: Final = 8
_NO_INTS: Ints = np.empty(0, np.int64)
_NO_INT32S: NDArray[np.int32] = np.empty(0, np.int32)


_NUMBERS = Column(_NO_INTS, None, None)


def _packed(integers: Ints, partition: NDArray[np.int32], names: list[str], columns: Sequence[Column]) -> bytes:
    """Encode columns: `integers` has the append times, the offsets, and the values of all columns."""
    packed = _Packed(
        PACK_FORMAT,
        len(partition),
        integers.astype(_LITTLE_INT64, copy=False).tobytes(),
        partition.astype(_LITTLE_INT32, copy=False).tobytes(),
        names,
        [None if column.valid is None else column.valid.tobytes() for column in columns],
        [column.dictionary for column in columns],
    )
    return _encode(packed)


def renumbered(codes: Ints) -> tuple[list[int], Ints]:
    """The distinct codes in ascending order, and the position of each code among them. For a few codes, the calls of
    `np.unique` cost several times as much."""
    if len(codes) > _FEW:
        used, positions = np.unique(codes, return_inverse=True)
        return used.tolist(), positions
    known = codes.tolist()
    few = sorted(set(known))
    return few, np.array([few.index(code) for code in known], np.int64)


def cells_of(column: Column, indices: Sequence[int] | Ints, field: Field) -> list[Any]:
    """The values of the rows at these positions, None for a null."""
    at = np.asarray(indices, np.int64)
    values = column.values[at].tolist()
    cells: list[Any] = values
    if column.dictionary is not None:
        texts = column.dictionary or ("",)  # a column without texts has only nulls
        cells = [texts[value] for value in values]
    elif field.type is FieldType.BOOLEAN:
        cells = [value != 0 for value in values]
    elif field.type is FieldType.DECIMAL:
        cells = [Decimal(value).scaleb(-field.scale) for value in values]
    if column.valid is None:
        return cells
    return [cell if is_known else None for cell, is_known in zip(cells, column.valid[at].tolist(), strict=True)]


def _concat_columns(columns: Sequence[Column | None], sizes: Sequence[int]) -> Column:
    is_text = any(column is not None and column.dictionary is not None for column in columns)
    filled = [_nulls(n, is_text) if column is None else column for column, n in zip(columns, sizes, strict=True)]
    valid = None
    if any(column.valid is not None for column in filled):
        valid = np.concatenate([np.ones(len(c.values), np.bool_) if c.valid is None else c.valid for c in filled])
    if not is_text:
        return Column(np.concatenate([column.values for column in filled]), valid, None)
    codes: dict[str, int] = {}
    values = [_recode(column, codes) for column in filled]
    return Column(np.concatenate(values), valid, tuple(codes))


def _joined_column(
    values: Ints, valids: Sequence[bytes | None], dictionaries: Sequence[tuple[str, ...] | None], sizes: Sequence[int]
) -> Column:
    """A column from the packed columns of several batches. `values` has all values, with the codes of their batches."""
    if all(valid is None for valid in valids) and all(dictionary is None for dictionary in dictionaries):
        return Column(values, None, None)
    ends = np.cumsum(sizes)[:-1]
    parts = [
        Column(part, None if valid is None else np.frombuffer(valid, np.bool_), dictionary)
        for part, valid, dictionary in zip(np.split(values, ends), valids, dictionaries, strict=True)
    ]
    return _concat_columns(parts, sizes)


def _nulls(n: int, is_text: bool) -> Column:
    return Column(np.zeros(n, np.int64), np.zeros(n, np.bool_), () if is_text else None)


def _recode(column: Column, codes: dict[str, int]) -> Ints:
    """Translate the column's codes to the merged dictionary `codes`, which grows. A null keeps the value 0."""
    dictionary = column.dictionary or ()
    if not dictionary:
        return column.values
    mapping = np.array([codes.setdefault(text, len(codes)) for text in dictionary], np.int64)
    recoded = mapping[column.values]
    return recoded if column.valid is None else np.where(column.valid, recoded, 0)
