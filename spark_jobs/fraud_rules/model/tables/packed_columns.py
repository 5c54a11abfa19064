"""Columns of sums in few bytes: their parts as narrow columns, and keys as the increases from row to row."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.tables.narrow_column import NarrowColumn
from fraud_rules.model.transaction import Column

Ints = NDArray[np.int64]

_LOW_BITS: Final = 16


class PackedColumn(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """int64 values as `high` * 2**16 + `low`: three bytes for 17 to 24 bits, and the compressor finds equal high parts.
    Parts beyond int64 wrap around, and so does their sum, which is exact."""

    low: NarrowColumn
    high: NarrowColumn

    @classmethod
    def of(cls, values: Ints) -> PackedColumn:
        """The packed form of int64[n]."""
        high = (values - (values.min() if len(values) else 0)) >> _LOW_BITS
        return cls(NarrowColumn.of(values - (high << _LOW_BITS)), NarrowColumn.of(high))

    def values(self, n: int) -> Ints:
        """The n values."""
        return (self.high.values(n) << _LOW_BITS) + self.low.values(n)


class PackedKey(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The column of a key: its first value, and the increase of each value over the value before."""

    first: int
    increases: PackedColumn
    dictionary: tuple[str, ...] | None

    @classmethod
    def of(cls, key: Column) -> PackedKey:
        """The packed form of a column without nulls."""
        increases = PackedColumn.of(np.diff(key.values, prepend=key.values[:1]))
        return cls(int(key.values[0]) if len(key.values) else 0, increases, key.dictionary)

    def column(self, n: int) -> Column:
        """The column of n rows."""
        return Column(np.cumsum(self.increases.values(n)) + self.first, None, self.dictionary)
