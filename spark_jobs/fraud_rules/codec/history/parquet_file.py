"""Reads the rows of a Parquet file as JSON records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fraud_rules.codec.history.record import HistoryRecord, cell_value, declared_columns, encode
from fraud_rules.codec.scalar import TIMESTAMP_MAX_MS, TIMESTAMP_MIN_MS, format_timestamp, number_of
from fraud_rules.errors import InputInvalid
from fraud_rules.model.declared.field_source import TimeUnit, WrittenAs
from fraud_rules.model.schema import Field, FieldType, TransactionSchema

_ROWS: Final = 10_000
_WHOLE: Final = (FieldType.LONG, FieldType.TIMESTAMP)
_EXACT: Final = 2**53
"""A float has all whole numbers below this one exactly."""

_PER_MS: Final = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
"""The factor and divisor that convert a unit of time to milliseconds."""


def parquet_records(path: Path, schema: TransactionSchema) -> Iterator[HistoryRecord]:
    """Read a Parquet file. Raises InputInvalid, pa.ArrowException."""
    # INT96, which older programs write for times, has nanoseconds. As 64-bit nanoseconds, year 9999 would be 1816.
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="ms") as file:
        names = file.schema_arrow.names
        fields = {name: field for name, field in zip(names, declared_columns(names, schema), strict=True) if field}
        row = 0
        for batch in file.iter_batches(_ROWS, columns=list(fields)):
            members = [fields[name] for name in batch.schema.names]
            columns = [_plain(*each) for each in zip(batch.columns, members, strict=True)]
            for cells in zip(*columns, strict=True):
                row += 1
                found = {field.name: cell for field, cell in zip(members, cells, strict=True) if cell is not None}
                yield HistoryRecord(row, encode(found))


def _plain(column: pa.Array, field: Field) -> list[Any]:
    """Convert to values of JSON for the flat schema.

    Times get the unit of the field, and amounts with decimal places its scale. Dates and other types become text, which
    the codec rejects.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.dictionary_decode(), field)
    if pa.types.is_timestamp(kind):
        # Whatever the zone, the integers count from 1970 in UTC.
        factor, divisor = _PER_MS[kind.unit]
        times = column.cast(pa.int64()).to_pylist()
        return _each(times, lambda value: _time(value * factor // divisor, field.source.unit))
    if pa.types.is_floating(kind):
        return _floats(column, field)
    if pa.types.is_integer(kind) and field.source.written_as is WrittenAs.NUMBER:
        return _each(column.to_pylist(), str)
    if pa.types.is_decimal(kind) and kind.scale > 0 and field.source.scaled:
        return _each(column.to_pylist(), lambda value: _unscaled(value, field.scale))
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        return list(column.to_pylist())
    try:
        texts = column.cast(pa.string()).to_pylist()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputInvalid(f"its column {field.name} has the type {kind}, which is not readable as text") from error
    if field.source.written_as is WrittenAs.TEXT:
        return _each(texts, lambda text: cell_value(text, field.type))
    return list(texts)


def _time(epoch_ms: int, unit: TimeUnit | None) -> object:
    """A time in the form that a field with this unit has."""
    match unit:
        case TimeUnit.S:
            return msgspec.Raw(format(Decimal(epoch_ms).scaleb(-3), "f").encode())
        case TimeUnit.US | TimeUnit.NS:
            return msgspec.Raw(b"%d" % number_of(epoch_ms, unit))
        case TimeUnit.ISO8601 if TIMESTAMP_MIN_MS <= epoch_ms <= TIMESTAMP_MAX_MS:
            return format_timestamp(epoch_ms)
        case _:
            return epoch_ms


def _unscaled(amount: Decimal, scale: int) -> Decimal:
    """The amount in units of its last declared decimal place, with all digits."""
    sign, digits, exponent = amount.as_tuple()
    return Decimal((sign, digits, int(exponent) + scale))


def _floats(column: pa.Array, field: Field) -> list[Any]:
    """The shortest decimals that stand for the floats. NaN is null, because pandas has no other null for numbers."""
    shortest = _float64 if pa.types.is_float64(column.type) else _shortest(column.type.to_pandas_dtype())
    return _each(column.to_pylist(), lambda value: _number(value, field, shortest))


def _number(value: float, field: Field, shortest: Callable[[float], object]) -> object:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    is_whole = field.type in _WHOLE and value.is_integer() and abs(value) < _EXACT
    return int(value) if is_whole else shortest(value)


def _float64(value: float) -> object:
    return value


def _shortest(kind: type[np.floating[Any]]) -> Callable[[float], object]:
    """float32 57.16 is 57.15999984741211 as float64."""
    return lambda value: msgspec.Raw(str(kind(value)).encode())


def _each(values: list[Any], convert: Callable[[Any], object]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]
