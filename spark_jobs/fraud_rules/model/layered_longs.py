"""An immutable set of int64 values that changes in small steps: a large table, and two small ones on top of it.

A change copies only the small tables, which the large one exceeds at least `_SHARE` times. So thousands of versions of
a list of a million values share its large table, and a change of a thousand values costs one millisecond.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fraud_rules.model.long_table import Ints, LongTable, Mask

__all__ = ["LayeredLongs"]

_SHARE: Final = 8
_SMALLEST: Final = 1_024  # the values of the small tables that a smaller set has too
_NO_TABLE: Final = LongTable.of(np.zeros(0, dtype=np.int64))


class LayeredLongs:
    """A set of int64 values from `LOWEST` on. `size` is their number, `main` the large table."""

    __slots__ = ("_added", "_removed", "main", "size")

    def __init__(self, main: LongTable, added: LongTable = _NO_TABLE, removed: LongTable = _NO_TABLE) -> None:
        """The values of `main` without `removed`, and `added`. All of `removed` is in `main`, none of `added` is."""
        self.main, self._added, self._removed = main, added, removed
        self.size = main.size + added.size - removed.size

    @classmethod
    def of(cls, values: Ints) -> LayeredLongs:
        """The set of these values. Repeated values count once. Raises ValueError for a value below `LOWEST`."""
        return cls(LongTable.of(values))

    def contains(self, values: Ints) -> Mask:
        """Which of the n values are in the set: bool[n]."""
        found = self.main.contains(values)
        if self._removed.size:
            found &= ~self._removed.contains(values)
        if self._added.size:
            found |= self._added.contains(values)
        return found

    def __contains__(self, value: int) -> bool:
        """Whether one value is in the set."""
        return value in self._added or (value in self.main and value not in self._removed)

    def changed(self, added: Ints, removed: Ints) -> LayeredLongs:
        """The set with these values added and those removed. No value is in both arrays."""
        if self._is_large(len(added) + len(removed)):
            return LayeredLongs(self._merged().changed(added, removed))
        in_main, of_main = self.main.contains(added), self.main.contains(removed)
        more = self._added.changed(added[~in_main], removed[~of_main])
        fewer = self._removed.changed(removed[of_main], added[in_main])
        changed = LayeredLongs(self.main, more, fewer)
        return LayeredLongs(changed._merged()) if self._is_large(more.size + fewer.size) else changed

    def values(self) -> Ints:
        """All values, in any order."""
        kept = self.main.values()
        if self._removed.size:
            kept = kept[~self._removed.contains(kept)]
        return np.concatenate([kept, self._added.values()])

    def _is_large(self, count: int) -> bool:
        """Whether so many values are too many for the small tables."""
        return count > max(_SMALLEST, self.main.size // _SHARE)

    def _merged(self) -> LongTable:
        """The set as one table."""
        if self._added.size + self._removed.size == 0:
            return self.main
        return self.main.changed(self._added.values(), self._removed.values())
