"""Counts the nulls and the texts of the fields of decoded transactions, from the columns."""

from __future__ import annotations

from typing import Final

import numpy as np

from fraud_rules.model.transaction import Column, TransactionBatch

MOST_TEXTS: Final = 50
"""A field with more different texts, such as an id, is not counted by text."""

_MOST_CHARACTERS: Final = 100


def nulls_of(batch: TransactionBatch) -> dict[str, int]:
    """The number of rows with a null, by field; without the fields that have none."""
    counts = {
        name: len(batch) - int(np.count_nonzero(column.valid))
        for name, column in batch.columns.items()
        if column.valid is not None
    }
    return {name: count for name, count in counts.items() if count}


def texts_of(batch: TransactionBatch) -> dict[str, dict[str, int] | None]:
    """The number of rows by text, by text field; None for a field with more than `MOST_TEXTS` texts."""
    return {
        name: None if len(column.dictionary) > MOST_TEXTS else _counts(column, column.dictionary)
        for name, column in batch.columns.items()
        if column.dictionary is not None
    }


def _counts(column: Column, dictionary: tuple[str, ...]) -> dict[str, int]:
    codes = column.values if column.valid is None else column.values[column.valid]
    counts = np.bincount(codes, minlength=len(dictionary)).tolist()
    found: dict[str, int] = {}
    for text, count in zip(dictionary, counts, strict=True):
        if count:
            found[text[:_MOST_CHARACTERS]] = found.get(text[:_MOST_CHARACTERS], 0) + count
    return found
