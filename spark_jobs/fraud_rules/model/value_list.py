"""Lists of values: the changes that records of the rule log make, and a list as it is after a number of records.

A list is immutable. It consists of a large base, which the versions of a list share, and a small delta on top of it. A
change copies only the delta, and a delta above `_MAX_DELTA` becomes part of a new base. So a change of a hundred values
costs microseconds, whatever the size of the list. A new base of longs shares most of its memory with the one before it.
A new base of strings is a whole copy, so strings have a larger delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import ClassVar, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import Reason
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.tables.long_table import LayeredLongs

ListValue = int | str
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_MAX_RUNS = 4  # of one operation: a change of the base copies the base
_MANY = 64  # from here on, a vectorised lookup is cheaper than single ones
_NO_VALUES: Ints = np.zeros(0, dtype=np.int64)
_decode_values = msgspec.json.Decoder(list[int | str]).decode


class CollectionKind(StrEnum):
    """The kinds of collections: lists, and maps, which are lists whose members carry a value."""

    LIST = "list"
    MAP = "map"


CollectionName: TypeAlias = tuple[CollectionKind, str]
"""A list or map: its kind and its name. A list and a map may share a name."""


class ListType(StrEnum):
    """The type of a list's values, and of a map's keys. Values of the same type can be looked up."""

    LONG = "long"
    STRING = "string"


class ListOperation(StrEnum):
    """The operation of a record about a collection. `SET` creates or replaces it, and `DELETE` removes it."""

    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"
    DELETE = "DELETE"


_MAX_DELTA: Final = {ListType.LONG: 1_024, ListType.STRING: 16_384}


@dataclass(frozen=True, slots=True)
class ListChange:
    """One valid change of a list.

    `type` is None if the record does not name it and has no values that show it. `encoded` holds the values as a JSON
    array, because the entries of a rule log stay in memory: about ten bytes a value instead of sixty. `limits` are the
    limits under which the record was read.
    """

    kind: ClassVar[CollectionKind] = CollectionKind.LIST
    content_member: ClassVar[str] = "values"

    name: str
    operation: ListOperation
    type: ListType | None
    encoded: bytes = b"[]"
    source: str | None = None
    limits: RuleLimits = field(default=RuleLimits(), repr=False)

    def values(self) -> list[ListValue]:
        """The values, in the record's order. They may repeat."""
        return _decode_values(self.encoded)

    def count_bound(self) -> int:
        """An upper bound of the number of values, without decoding them."""
        return self.encoded.count(b",") + 1

    @property
    def most_of_kind(self) -> int:
        """The largest number of lists."""
        return self.limits.max_lists

    @property
    def most_members(self) -> int:
        """The largest number of values of a list."""
        return self.limits.max_list_values

    def updates(self, _: ListType) -> dict[ListValue, None]:
        """The distinct values of the change, like the updates of a map: without values."""
        return dict.fromkeys(self.values())

    def type_member(self, _: ListType) -> str:
        """The member of the record with the type."""
        return "listType"

    def type_faults(self, known: ListType) -> list[Reason]:
        """The reasons why the change does not fit the type of the list."""
        if self.type in (None, known):
            return []
        return [Reason("listType", f"is {self.type}; the list has {known} values")]

    def begin(self, known: ListType, version: int) -> ValueList:
        """The list after this SET."""
        return ValueList.of(self.name, known, version, self.values())


@dataclass(frozen=True)
class ValueList:
    """A list as it is after a record of the rule log.

    `version` is the offset of the last accepted record of the list. `delta` has the changes since the base: whether the
    value is in the list. `size` is the number of values.
    """

    kind: ClassVar[CollectionKind] = CollectionKind.LIST

    name: str
    type: ListType
    version: int
    size: int
    base: LayeredLongs | frozenset[str] = field(repr=False)
    delta: Mapping[ListValue, bool] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, name: str, value_type: ListType, version: int, values: Iterable[ListValue]) -> ValueList:
        """A list of these values. Repeated values count once."""
        base = _base_of(value_type, values)
        return cls(name, value_type, version, _size_of(base), base)

    def changed(self, changes: Sequence[tuple[int, ListChange]]) -> ValueList:
        """The list after these accepted SETs, ADDs and REMOVEs, each with its version. A SET has the list's type."""
        known = self
        for position in reversed(range(len(changes))):
            version, change = changes[position]
            if change.operation is ListOperation.SET:
                known = ValueList.of(self.name, self.type, version, change.values())
                changes = changes[position + 1 :]
                break
        if not changes:
            return known
        runs = [(operation, list(run)) for operation, run in groupby(changes, key=lambda each: each[1].operation)]
        if len(runs) <= _MAX_RUNS and sum(change.count_bound() for _, change in changes) > _MAX_DELTA[self.type]:
            return known._with_new_base(runs)
        return known._with_delta(changes)

    def contains(self, value: ListValue) -> bool:
        """Whether a value is in the list."""
        known = self.delta.get(value)
        if known is not None:
            return known
        if isinstance(self.base, frozenset):
            return value in self.base
        return isinstance(value, int) and value in self.base

    def contains_longs(self, values: Ints) -> Mask:
        """Which of n values are in a list of longs: bool[n]."""
        if not isinstance(self.base, LayeredLongs):
            raise TypeError(f"the list {self.name} has no longs")
        found: Mask = self.base.contains(values)
        if self.delta:
            keys, listed = self._sorted_delta
            at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
            found = np.where(keys[at] == values, listed[at], found)
        return found

    def count_listed(self, values: Sequence[ListValue]) -> int:
        """How many of these distinct values are in the list."""
        if isinstance(self.base, frozenset) or len(values) < _MANY:
            return sum(map(self.contains, values))
        return int(np.count_nonzero(self.contains_longs(np.array(values, dtype=np.int64))))

    def values_of(self, values: Sequence[ListValue]) -> dict[ListValue, None]:
        """Those of these distinct values that are in the list, like the entries of a map: without values."""
        return dict.fromkeys(value for value in values if self.contains(value))

    def entries(self) -> dict[ListValue, None]:
        """All values, sorted, like the entries of a map: without values."""
        return dict.fromkeys(self.values())

    def has_values_of(self, other: ValueList) -> bool:
        """Whether two lists have the same type and values, whatever their versions."""
        if (self.type, self.size) != (other.type, other.size):
            return False
        if isinstance(other.base, frozenset):
            return all(map(self.contains, other.values()))
        values = other.base.values()
        same_base = np.array_equal(self.contains_longs(values), other.contains_longs(values))
        return same_base and all(self.contains(value) is listed for value, listed in other.delta.items())

    def values(self) -> list[ListValue]:
        """All values, sorted."""
        found: set[ListValue] = set(self.base if isinstance(self.base, frozenset) else self.base.values().tolist())
        found -= {value for value, listed in self.delta.items() if not listed}
        found |= {value for value, listed in self.delta.items() if listed}
        return sorted(found)

    @cached_property
    def _sorted_delta(self) -> tuple[Ints, Mask]:
        keys = np.fromiter(self.delta, dtype=np.int64, count=len(self.delta))
        listed = np.fromiter(self.delta.values(), dtype=np.bool_, count=len(self.delta))
        order = np.argsort(keys)
        return keys[order], listed[order]

    def _with_new_base(self, runs: Sequence[tuple[ListOperation, Sequence[tuple[int, ListChange]]]]) -> ValueList:
        base = _merged(self.base, self.delta) if self.delta else self.base
        for operation, run in runs:
            base = _changed(base, operation, [change.values() for _, change in run])
        return ValueList(self.name, self.type, runs[-1][1][-1][0], _size_of(base), base)

    def _with_delta(self, changes: Sequence[tuple[int, ListChange]]) -> ValueList:
        delta: dict[ListValue, bool] = {}
        for _, change in changes:
            delta.update(dict.fromkeys(change.values(), change.operation is ListOperation.ADD))
        size = self.size + sum(delta.values()) - self.count_listed(list(delta))
        base, delta = self.base, {**self.delta, **delta}
        if len(delta) > _MAX_DELTA[self.type]:
            base, delta = _merged(base, delta), {}
        return ValueList(self.name, self.type, changes[-1][0], size, base, delta)


def _base_of(value_type: ListType, values: Iterable[ListValue]) -> LayeredLongs | frozenset[str]:
    if value_type is ListType.STRING:
        return frozenset(map(str, values))
    return LayeredLongs.of(np.array(list(values), dtype=np.int64))


def _changed(
    base: LayeredLongs | frozenset[str], operation: ListOperation, values: Sequence[list[ListValue]]
) -> LayeredLongs | frozenset[str]:
    """The base after an ADD or REMOVE of many values."""
    adds = operation is ListOperation.ADD
    if isinstance(base, frozenset):
        return frozenset(base.union(*values) if adds else base.difference(*values))  # type: ignore[arg-type]
    longs = np.concatenate([np.array(each, dtype=np.int64) for each in values])
    return base.changed(longs, _NO_VALUES) if adds else base.changed(_NO_VALUES, longs)


def _size_of(base: LayeredLongs | frozenset[str]) -> int:
    return len(base) if isinstance(base, frozenset) else base.size


def _merged(base: LayeredLongs | frozenset[str], delta: Mapping[ListValue, bool]) -> LayeredLongs | frozenset[str]:
    added = [value for value, listed in delta.items() if listed]
    removed = [value for value, listed in delta.items() if not listed]
    if isinstance(base, frozenset):
        return frozenset(base.union(added).difference(removed))  # type: ignore[arg-type]
    return base.changed(np.array(added or _NO_VALUES, dtype=np.int64), np.array(removed or _NO_VALUES, dtype=np.int64))
