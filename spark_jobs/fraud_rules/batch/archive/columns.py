"""Converts transactions to Arrow and back, without loss, with types that other tools can read.

A decimal becomes a decimal128 of its declared precision, a timestamp becomes milliseconds in UTC, a boolean a bool, a
string a dictionary. A field that is newer than a file is null in it. A field with another type than in the file is an
error. Texts of files from before a field was normalized are normalized when they are read.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fraud_rules.codec.text_form import normalized_column
from fraud_rules.errors import ConfigError
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
APPEND: Final = "_appendTime"
PLACE: Final = (PARTITION, OFFSET, APPEND)
TIME_TYPE: Final = pa.timestamp("ms", tz="UTC")

Ints = NDArray[np.int64]


def table_of(batch: TransactionBatch, schema: TransactionSchema) -> pa.Table:
    """Convert a batch to a table: first the positions in the log, then the declared fields."""
    arrays = [
        pa.array(batch.partition, pa.int32()),
        pa.array(batch.offset, pa.int64()),
        pa.array(batch.append_ms, pa.int64()).view(TIME_TYPE),
    ]
    names = list(PLACE)
    for field in schema.fields:
        column = batch.columns.get(field.name)
        if column is not None:
            names.append(field.name)
            arrays.append(_array(column, field))
    return pa.Table.from_arrays(arrays, names=names)


def batch_of(table: pa.Table, schema: TransactionSchema, where: str = "the file") -> TransactionBatch:
    """Convert a table of `table_of` to a batch with the current schema. Raises ConfigError if a type differs."""
    n = table.num_rows
    columns = {}
    for field in schema.fields:
        present = table.column(field.name) if field.name in table.column_names else None
        columns[field.name] = _nulls(n, field) if present is None else _column(present, field, where)
    place = [table.column(name).combine_chunks() for name in PLACE]
    return TransactionBatch(_ints(place[2].view(pa.int64())), _int32s(place[0]), _ints(place[1]), columns)


def _array(column: Column, field: Field) -> pa.Array:
    mask = None if column.valid is None else ~column.valid
    if field.type is FieldType.STRING:
        codes = pa.array(column.values.astype(np.int32), mask=mask)
        return pa.DictionaryArray.from_arrays(codes, pa.array(column.dictionary or [""], pa.string()))
    if field.type is FieldType.BOOLEAN:
        return pa.array(column.values != 0, pa.bool_(), mask=mask)
    values = pa.array(column.values, pa.int64(), mask=mask)
    if field.type is FieldType.TIMESTAMP:
        return values.view(TIME_TYPE)
    return _decimals(column.values, values, field) if field.type is FieldType.DECIMAL else values


def _decimals(unscaled: Ints, values: pa.Array, field: Field) -> pa.Array:
    """Build the array from 128-bit words, low half first."""
    words = np.empty((len(unscaled), 2), dtype="<i8")
    words[:, 0], words[:, 1] = unscaled, unscaled >> 63
    kind = pa.decimal128(field.precision, field.scale)
    return pa.Array.from_buffers(kind, len(unscaled), [values.buffers()[0], pa.py_buffer(words.tobytes())])


def _column(stored: pa.ChunkedArray, field: Field, where: str) -> Column:
    array = stored.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    if not _fits(array.type, field):
        raise ConfigError(
            f"{where} has {field.name} as {array.type}, but the schema declares {field.type}: "
            "you can add fields, but not change them"
        )
    valid = None if not field.nullable and array.null_count == 0 else _valid(array)
    if field.type is FieldType.STRING:
        return normalized_column(_strings(array, valid), field.normalize)
    if field.type is FieldType.DECIMAL:
        words = np.frombuffer(array.buffers()[1], dtype="<i8")[2 * array.offset :: 2][: len(array)]
        values = np.ascontiguousarray(words).astype(np.int64, copy=False)
    elif field.type is FieldType.BOOLEAN:
        values = _ints(array.cast(pa.int64()).fill_null(0))
    else:
        values = _ints((array.view(pa.int64()) if field.type is FieldType.TIMESTAMP else array).fill_null(0))
    return Column(values if valid is None else np.where(valid, values, 0), valid, None)


def _strings(array: pa.Array, valid: NDArray[np.bool_] | None) -> Column:
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return Column(codes, valid, tuple(encoded.dictionary.to_pylist()))


def _fits(kind: pa.DataType, field: Field) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    match field.type:
        case FieldType.STRING:
            return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
        case FieldType.TIMESTAMP:
            return bool(pa.types.is_timestamp(kind) and kind.unit == "ms")
        case FieldType.DECIMAL:
            return bool(pa.types.is_decimal(kind) and kind.scale == field.scale and kind.precision <= field.precision)
        case FieldType.BOOLEAN:
            return bool(pa.types.is_boolean(kind))
        case FieldType.LONG:
            return bool(pa.types.is_int64(kind))


def _nulls(n: int, field: Field) -> Column:
    dictionary: tuple[str, ...] | None = () if field.type is FieldType.STRING else None
    return Column(np.zeros(n, np.int64), np.zeros(n, np.bool_), dictionary)


def _valid(array: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _ints(array: pa.Array) -> Ints:
    found: Any = array.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(found, dtype=np.int64)


def _int32s(array: pa.Array) -> NDArray[np.int32]:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False), dtype=np.int32)
