"""Integers in as few bytes as their range needs, for columns that processes send to each other or keep in the log."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_TYPES: Final[dict[int, np.dtype[Any]]] = {8: np.dtype("<u1"), 16: np.dtype("<u2"), 32: np.dtype("<u4")}
_WHOLE_BITS: Final = 64
_WHOLE: Final[np.dtype[Any]] = np.dtype("<i8")
_ALL: Final = slice(None)


class NarrowColumn(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """n int64 values as their differences from `least`, which have `bits` each. With 0 bits, all are `least`."""

    least: int
    bits: int
    differences: bytes

    @classmethod
    def of(cls, values: Ints) -> NarrowColumn:
        """The column of int64[n]."""
        least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        return cls._between(values, least, most)

    @classmethod
    def of_each(cls, table: Ints) -> list[NarrowColumn]:
        """The column of each row of int64[m, n]; n is not 0."""
        ends = zip(table, table.min(axis=1).tolist(), table.max(axis=1).tolist(), strict=True)
        return [cls._between(*each) for each in ends]

    @classmethod
    def _between(cls, values: Ints, least: int, most: int) -> NarrowColumn:
        if least == most:
            return cls(least, 0, b"")
        for bits, narrow in _TYPES.items():
            if most - least < 1 << bits:
                return cls(least, bits, (values - least).astype(narrow).tobytes())
        return cls(0, _WHOLE_BITS, values.astype(_WHOLE).tobytes())

    def values(self, n: int, chosen: Any = _ALL) -> Ints:
        """The n values, or the chosen ones (positions or a slice)."""
        if self.bits == 0:
            found: Ints = np.full(n, self.least, dtype=np.int64)[chosen]
        else:
            differences = np.frombuffer(self.differences, _TYPES.get(self.bits, _WHOLE))
            found = differences[chosen].astype(np.int64) + self.least
        return found
