"""Rows of Python values as the columns of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column


def columns_of(schema: TransactionSchema, rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """The column of each field by name."""
    return {field.name: column(field, [row[field.name] for row in rows]) for field in schema.fields}


def column(field: Field, cells: list[Any]) -> Column:
    """The cells of a field as the codec lays them out: nulls as zeros, decimals unscaled, strings as codes."""
    valid = np.array([cell is not None for cell in cells], dtype=bool)
    if field.type is FieldType.STRING:
        words = tuple(dict.fromkeys(cell for cell in cells if cell is not None))
        return Column(np.array([0 if cell is None else words.index(cell) for cell in cells]), valid, words)
    unscaled = [0 if cell is None else int(Decimal(cell).scaleb(field.scale)) for cell in cells]
    return Column(np.array(unscaled, dtype=np.int64), valid, None)
