"""The quick reader of decoded records: it converts trees column by column.

The trees come from `codec.formats`. As in `columns`, a record that is not certainly valid is doubtful, and the careful
reader decides about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fraud_rules.codec.formats.values import MAX_DIGITS, EpochMs
from fraud_rules.codec.scalar import (
    EPOCH_BOUNDS,
    INT64_MAX,
    INT64_MIN,
    TIMESTAMP_MAX_MS,
    TIMESTAMP_MIN_MS,
    is_number,
    parse_decimal,
    parse_timestamp,
)
from fraud_rules.codec.text_form import normalized_column
from fraud_rules.codec.transactions.columns import QuickReadResult
from fraud_rules.codec.transactions.converters import column_of, column_of_cells
from fraud_rules.codec.transactions.envelope import unwrapped
from fraud_rules.codec.transactions.field_value import MAX_TEXT_LENGTH
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.codec.transactions.tree import ABSENT, value_at
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import Origin, Path, TimeUnit
from fraud_rules.model.schema import Envelope, Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column

Cell: TypeAlias = Any
Convert: TypeAlias = Callable[[Cell], Cell]
"""Converts a value that is not null. Returns ABSENT for a value of which it is not certain."""

_EXACT: Final = Context(prec=2 * MAX_DIGITS)
"""No decimal of a format has more digits, so nothing is rounded."""

_DIVISORS: Final = {TimeUnit.US: 1_000, TimeUnit.NS: 1_000_000}


def read_trees(trees: Sequence[object], records: RawTransactions, schema: TransactionSchema) -> QuickReadResult:
    """Read the decoded records that are certainly valid. All other elements of `trees` are doubtful."""
    positions, payments, doubtful = _payments(trees, schema.unwrap)
    certain = np.ones(len(payments), np.bool_)
    columns = {}
    for field in schema.fields:
        if field.source.origin is Origin.VALUE:
            columns[field.name] = _column(field, _cells(field, payments), certain)
        else:
            column = column_of_cells(field, records.cells(field.source, positions), certain)
            if column.valid is not None and not field.nullable:
                certain &= column.valid
            columns[field.name] = column
    at = np.array(positions, np.int64)
    if certain.all():
        return QuickReadResult(at, columns, doubtful)
    accepted = {name: column.take(certain) for name, column in columns.items()}
    return QuickReadResult(at[certain], accepted, sorted(doubtful + at[~certain].tolist()))


def _payments(trees: Sequence[object], envelope: Envelope) -> tuple[list[int], list[dict[str, object]], list[int]]:
    """The payments that are objects, with their positions, and the positions of all other trees."""
    positions, payments, doubtful = [], [], []
    for i, tree in enumerate(trees):
        payment: object = tree
        if envelope is not Envelope.NONE and isinstance(tree, dict):
            try:
                payment = unwrapped(tree, envelope)
            except RecordRejected:
                payment = None
        if isinstance(payment, dict):
            positions.append(i)
            payments.append(payment)
        else:
            doubtful.append(i)
    return positions, payments, doubtful


def _cells(field: Field, payments: Sequence[dict[str, object]]) -> list[Cell]:
    """The cells of a field: None for null, ABSENT for one of which this reader is not certain."""
    if not field.source.path and not field.aliases:
        name = field.name
        return [payment.get(name) for payment in payments]
    if field.source.path:
        return [_cell_at(payment, field.source.path) for payment in payments]
    return [_aliased(payment, field.member_names) for payment in payments]


def _cell_at(payment: object, path: Path) -> Cell:
    tree: Any = payment
    try:
        for part in path:
            tree = tree[part]
    except (KeyError, TypeError, IndexError):
        try:
            found = value_at(payment, path, "")
        except RecordRejected:
            return ABSENT
        return None if found is ABSENT else found
    return tree


def _aliased(payment: dict[str, object], names: Sequence[str]) -> Cell:
    found = [payment[name] for name in names if name in payment]
    return found[0] if len(found) == 1 else ABSENT if found else None


def _column(field: Field, cells: list[Cell], certain: NDArray[np.bool_]) -> Column:
    convert = _converter(field)
    values = [None if cell is None else convert(cell) for cell in cells]
    known = [value is not ABSENT and (field.nullable or value is not None) for value in values]
    if not all(known):
        certain &= np.array(known, np.bool_)
        values = [None if value is ABSENT else value for value in values]
    column = column_of(field, values)
    return normalized_column(column, field.normalize) if field.normalize else column


@lru_cache(maxsize=256)
def _converter(field: Field) -> Convert:
    if field.source.written_as is not None or field.normalize:
        return _uncertain
    match field.type:
        case FieldType.LONG:
            return _long
        case FieldType.BOOLEAN:
            return lambda cell: int(cell) if type(cell) is bool else ABSENT
        case FieldType.STRING:
            return _text
        case FieldType.TIMESTAMP:
            return _timestamp_of(field.source.unit, field.source.zone)
        case FieldType.DECIMAL:
            return _decimal_of(field.precision, 0 if field.source.scaled else field.scale)


def _uncertain(cell: Cell) -> Cell:
    return ABSENT


def _long(cell: Cell) -> Cell:
    return cell if type(cell) is int and INT64_MIN <= cell <= INT64_MAX else ABSENT


def _text(cell: Cell) -> Cell:
    return cell if type(cell) is str and len(cell) <= MAX_TEXT_LENGTH and "\0" not in cell else ABSENT


def _timestamp_of(unit: TimeUnit | None, zone: str) -> Convert:
    low, high = EPOCH_BOUNDS.get(unit or TimeUnit.MS, (0, -1))
    factor, divisor = (1_000 if unit is TimeUnit.S else 1), _DIVISORS.get(unit or TimeUnit.MS, 1)

    reads_text = unit in (None, TimeUnit.ISO8601)

    def convert(cell: Cell) -> Cell:
        if type(cell) is str and reads_text:
            found = parse_timestamp(cell, zone)
            return ABSENT if found is None else found
        if type(cell) is EpochMs:
            return cell if TIMESTAMP_MIN_MS <= cell <= TIMESTAMP_MAX_MS else ABSENT
        return cell * factor // divisor if type(cell) is int and low <= cell <= high else ABSENT

    return convert


def _decimal_of(precision: int, scale: int) -> Convert:
    limit = 10**precision

    def convert(cell: Cell) -> Cell:
        if type(cell) is str and is_number(cell):
            found = parse_decimal(cell, precision, scale)
            return ABSENT if found is None else found
        if type(cell) is not Decimal:
            return ABSENT
        unscaled = cell.scaleb(scale, _EXACT)
        number = int(unscaled) if unscaled.is_finite() and unscaled.adjusted() < precision else limit
        return number if number == unscaled and -limit < number < limit else ABSENT

    return convert
