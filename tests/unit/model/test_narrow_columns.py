"""Narrow columns: every range of integers comes back."""

from __future__ import annotations

import numpy as np
import pytest

from fraud_rules.model.tables.narrow_column import NarrowColumn

HIGHEST = 2**63 - 1


@pytest.mark.parametrize(
    ("values", "bits"),
    [
        ([], 0),
        ([-5, -5], 0),
        ([-1, 254], 8),
        ([1_700_000_000_000, 1_700_000_000_256], 16),
        ([-(2**16), 0], 32),
        ([0, 2**32], 64),
        ([-HIGHEST - 1, HIGHEST], 64),
    ],
)
def test_a_column_needs_the_bits_of_its_range(values: list[int], bits: int) -> None:
    column = NarrowColumn.of(np.array(values, dtype=np.int64))

    assert column.bits == bits
    assert column.values(len(values)).tolist() == values
    assert column.values(len(values), np.arange(len(values))[1:]).tolist() == values[1:]
