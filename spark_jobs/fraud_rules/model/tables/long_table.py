"""Immutable sets of int64 values with a vectorised membership test.

A `LongTable` is a hash table with open addressing and linear probing in one int64 array: 17 to 26 bytes a value. A
lookup of n values costs a few passes of numpy over n words, about 20 to 30 ns a value at a million values, because the
memory accesses of a pass do not wait for each other. A binary search waits for each of its twenty steps. A pass over a
few words costs little more than its calls, so the last searches read `_AHEAD` places in one pass.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

LOWEST: Final = -(2**63) + 2
"""The lowest possible value. The two numbers below it mark empty and removed places."""

_EMPTY: Final = np.int64(-(2**63))
_REMOVED: Final = np.int64(-(2**63) + 1)
_FACTOR: Final = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2**64 divided by the golden ratio (Knuth's multiplicative hashing)
_PLAIN_EMPTY: Final = int(_EMPTY)
_PLAIN_FACTOR: Final = int(_FACTOR)
_WORD: Final = 2**64 - 1
_SMALLEST: Final = 16
_LOAD: Final = 5, 8  # at most 5 of 8 places are used
_FEW: Final = 256  # up to so many searches, the calls of a pass cost more than its memory accesses
_AHEAD: Final = 16
_NEXT_PLACES: Final = np.arange(1, _AHEAD + 1)
_SHARE: Final = 8
_SMALLEST_CHANGE: Final = 1_024  # the values of the small tables that a smaller set has too


class LongTable:
    """A set of int64 values from `LOWEST` on. `size` is their number."""

    __slots__ = ("_places", "_used", "size")

    def __init__(self, places: Ints, used: int, size: int) -> None:
        """`used` counts the places that are not empty. `of` and `changed` create tables."""
        self._places, self._used, self.size = places, used, size

    @classmethod
    def of(cls, values: Ints) -> LongTable:
        """The set of these values. Repeated values count once. Raises ValueError for a value below `LOWEST`."""
        if len(values) and int(values.min()) < LOWEST:
            raise ValueError(f"a value is below {LOWEST}")
        places = _empty_places(len(values))
        _insert(places, values)
        size = int(np.count_nonzero(places != _EMPTY))
        return cls(places, size, size)

    def contains(self, values: Ints) -> Mask:
        """Which of the n values are in the set: bool[n]."""
        return self.has_at(self.places_of(values), values)

    def has_at(self, places: Ints, values: Ints) -> Mask:
        """Which of the n values are at their places."""
        listed: Mask = (self._places[places] == values) & (values >= LOWEST)
        return listed

    def __contains__(self, value: int) -> bool:
        """Whether one value is in the set: about 2 microseconds."""
        mask = len(self._places) - 1
        hashed = (value * _PLAIN_FACTOR) & _WORD
        hashed = ((hashed ^ hashed >> 32) * _PLAIN_FACTOR) & _WORD
        at = hashed >> (65 - len(self._places).bit_length())
        while (found := self._places.item(at)) != _PLAIN_EMPTY:
            if found == value:
                return value >= LOWEST
            at = (at + 1) & mask
        return False

    def changed(self, added: Ints, removed: Ints) -> LongTable:
        """The set with these values added and those removed. No value is in both arrays. Copies the table."""
        if not self.has_room_for(len(added)):
            kept = self.values()
            kept = kept[~np.isin(kept, removed)] if len(removed) else kept
            return LongTable.of(np.concatenate([kept, added]))
        places = self._places.copy()
        at = self.places_of(removed)
        at = np.unique(at[(places[at] == removed) & (removed >= LOWEST)])
        places[at] = _REMOVED
        new = np.unique(added[~self.contains(added)])
        _insert(places, new)
        return LongTable(places, self._used + len(new), self.size + len(new) - len(at))

    def has_room_for(self, count: int) -> bool:
        """Whether the other values stay at their places in `changed` with so many added values."""
        return not _is_overloaded(self._used + count, len(self._places))

    def values(self) -> Ints:
        """All values, in any order."""
        return self._places[self._places >= LOWEST]

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._places.nbytes

    def places_of(self, values: Ints) -> Ints:
        """For each value its place in the table, or the empty place that ends the search for it."""
        mask = len(self._places) - 1
        at = _first_places(values, len(self._places))
        found = self._places[at]
        pending = np.flatnonzero((found != values) & (found != _EMPTY))
        while len(pending) > _FEW:
            at[pending] = further = (at[pending] + 1) & mask
            found = self._places[further]
            pending = pending[(found != values[pending]) & (found != _EMPTY)]
        self._search_ahead(values, at, pending)
        return at

    def _search_ahead(self, values: Ints, at: Ints, pending: Ints) -> None:
        """Continue the searches for the pending values at their places, `_AHEAD` places at a time."""
        mask = len(self._places) - 1
        while len(pending):
            places = (at[pending][:, None] + _NEXT_PLACES) & mask
            found = self._places[places]
            ends = (found == values[pending][:, None]) | (found == _EMPTY)
            first = ends.argmax(axis=1)
            has_ended = ends[np.arange(len(pending)), first]
            first[~has_ended] = _AHEAD - 1
            at[pending] = places[np.arange(len(pending)), first]
            pending = pending[~has_ended]


def _empty_places(values: int) -> Ints:
    count = _SMALLEST
    while _is_overloaded(values, count):
        count *= 2
    return np.full(count, _EMPTY, dtype=np.int64)


def _is_overloaded(used: int, places: int) -> bool:
    return used * _LOAD[1] > places * _LOAD[0]


def _first_places(values: Ints, places: int) -> Ints:
    hashed = values.view(np.uint64) * _FACTOR
    hashed ^= hashed >> np.uint64(32)
    hashed *= _FACTOR
    return (hashed >> np.uint64(65 - places.bit_length())).view(np.int64)


def _insert(places: Ints, values: Ints) -> None:
    """Insert values. Each round writes to the empty places, and one of the values that want the same place gets it."""
    mask = len(places) - 1
    at = _first_places(np.ascontiguousarray(values), len(places))
    while len(values):
        empty = places[at] == _EMPTY
        places[at[empty]] = values[empty]
        pending = places[at] != values
        values, at = values[pending], (at[pending] + 1) & mask


class LongMap:
    """An immutable map of int64 keys from `LOWEST` on to int64 values: a `LongTable` with a word beside each place."""

    __slots__ = ("_keys", "_values")

    def __init__(self, keys: LongTable, values: Ints) -> None:
        """`values` has the value of each place of the table. `of` creates maps."""
        self._keys, self._values = keys, values

    @classmethod
    def of(cls, keys: Ints, values: Ints) -> LongMap:
        """The map of these distinct keys to these values."""
        table = LongTable.of(keys)
        words = np.zeros(table.nbytes // _EMPTY.itemsize, dtype=np.int64)
        words[table.places_of(keys)] = values
        return cls(table, words)

    def changed(self, removed: Ints, keys: Ints, values: Ints) -> LongMap:
        """The map without some keys, and with these distinct keys and values. No key is in both arrays. Copies the
        map."""
        table = self._keys.changed(keys, removed)
        if self._keys.has_room_for(len(keys)):
            words = self._values.copy()
        else:
            words = np.zeros(table.nbytes // _EMPTY.itemsize, dtype=np.int64)
            old, old_words = self.items()
            words[table.places_of(old)] = old_words  # the word of a removed key goes to an empty place
        words[table.places_of(keys)] = values
        return LongMap(table, words)

    def find(self, keys: Ints) -> tuple[Ints, Mask]:
        """The values of n keys, and which of the keys are in the map. The value of a missing key is 0."""
        at = self._keys.places_of(keys)
        return self._values[at], self._keys.has_at(at, keys)

    def items(self) -> tuple[Ints, Ints]:
        """All keys and their values, in any order."""
        keys = self._keys.values()
        return keys, self._values[self._keys.places_of(keys)]

    def __len__(self) -> int:
        return self._keys.size

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._keys.nbytes + self._values.nbytes


_NO_TABLE: Final = LongTable.of(np.zeros(0, dtype=np.int64))


class LayeredLongs:
    """A set of int64 values from `LOWEST` on that changes in small steps. `size` is their number.

    A change copies two small tables only, which the large one (`main`) exceeds at least `_SHARE` times. So thousands of
    versions of a list of a million values share its large table, and a change of a thousand values costs one
    millisecond.
    """

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
        return count > max(_SMALLEST_CHANGE, self.main.size // _SHARE)

    def _merged(self) -> LongTable:
        """The set as one table."""
        if self._added.size + self._removed.size == 0:
            return self.main
        return self.main.changed(self._added.values(), self._removed.values())
