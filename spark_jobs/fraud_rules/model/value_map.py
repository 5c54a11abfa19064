"""Maps: lists whose members carry a value. Their changes, and a map as it is after a number of records.

A map is immutable. Like a list (`value_list`), it consists of a large base, which the versions of a map share, and a
small delta on top of it. A delta above `_MAX_DELTA` becomes part of a new base, which is a whole copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import ClassVar, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import Reason
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.tables.entry_table import EntryTable
from fraud_rules.model.tables.long_table import LongMap
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType

MapKey: TypeAlias = int | str
MapValue: TypeAlias = int | str
"""A value of a map: a text, or a number as unscaled integer with `MAP_SCALE` digits after the point."""
Ints: TypeAlias = NDArray[np.int64]

MAP_SCALE: Final = 6
_UNIT: Final = 10**MAP_SCALE
_MAX_DELTA: Final = 16_384
_NUMBER_BYTES: Final = 8
_MANY: Final = 64


class MapValueType(StrEnum):
    """The type of a map's values. A decimal has at most 12 digits before and 6 after the point."""

    DECIMAL = "decimal"
    STRING = "string"


class MapType(NamedTuple):
    """The types of a map's keys and values."""

    key: ListType
    value: MapValueType

    def __str__(self) -> str:
        return f"{self.key} to {self.value}"


@dataclass(frozen=True, slots=True)
class MapChange:
    """One valid change of a map.

    A type is None if the record does not name it and its entries fit both types. `encoded` holds the entries as a JSON
    object of texts, or the keys of a REMOVE as a JSON array of texts, because the entries of a rule log stay in memory.
    `limits` are the limits under which the record was read.
    """

    kind: ClassVar[CollectionKind] = CollectionKind.MAP
    content_member: ClassVar[str] = "entries"

    name: str
    operation: ListOperation
    key_type: ListType | None
    value_type: MapValueType | None
    encoded: bytes = b"{}"
    source: str | None = None
    limits: RuleLimits = field(default=RuleLimits(), repr=False)

    @property
    def type(self) -> MapType | None:
        """The types of keys and values; None if the change does not show both."""
        if self.key_type is None or self.value_type is None:
            return None
        return MapType(self.key_type, self.value_type)

    @property
    def most_of_kind(self) -> int:
        """The largest number of maps."""
        return self.limits.max_maps

    @property
    def most_members(self) -> int:
        """The largest number of entries of a map."""
        return self.limits.max_map_entries

    def updates(self, known: MapType) -> dict[MapKey, MapValue | None]:
        """The new value of each key of the change for a map of this type, None for a removed key."""
        decoded: dict[str, str] | list[str] = msgspec.json.decode(self.encoded)
        keys: Iterable[MapKey] = map(int, decoded) if known.key is ListType.LONG else decoded
        if isinstance(decoded, list):
            return dict.fromkeys(keys)
        values = decoded.values()
        return dict(zip(keys, map(unscaled_of, values) if known.value is MapValueType.DECIMAL else values, strict=True))

    def count_bound(self) -> int:
        """An upper bound of the number of entries, without decoding them."""
        return self.encoded.count(b",") + 1

    def bytes_bound(self) -> int:
        """An upper bound of the bytes of the entries, without decoding them."""
        return len(self.encoded) + 2 * _NUMBER_BYTES * self.count_bound()

    def type_member(self, known: MapType) -> str:
        """The member of the record whose type is not that of the map."""
        return "keyType" if self.key_type not in (None, known.key) else "valueType"

    def type_faults(self, known: MapType) -> list[Reason]:
        """The reasons why the change does not fit the type of the map."""
        found = []
        if self.key_type not in (None, known.key):
            found.append(Reason("keyType", f"is {self.key_type}; the map has {known.key} keys"))
        if self.value_type not in (None, known.value):
            found.append(Reason("valueType", f"is {self.value_type}; the map has {known.value} values"))
        return found

    def begin(self, known: MapType, version: int) -> ValueMap:
        """The map after this SET."""
        return ValueMap.of(self.name, known, version, self.updates(known))


@dataclass(frozen=True)
class ValueMap:
    """A map as it is after a record of the rule log.

    `version` is the offset of the last accepted record of the map. `delta` has the changes since the base: the value of
    a key, None for a removed key. `size` is the number of entries, and `entry_bytes` the bytes of all entries: 8 for a
    number, the bytes in UTF-8 for a text.
    """

    kind: ClassVar[CollectionKind] = CollectionKind.MAP

    name: str
    type: MapType
    version: int
    size: int
    entry_bytes: int
    base: EntryTable = field(repr=False)
    delta: Mapping[MapKey, MapValue | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, name: str, map_type: MapType, version: int, entries: Mapping[MapKey, MapValue | None]) -> ValueMap:
        """A map of these entries, none of them None."""
        table = EntryTable.of(_columns(map_type, entries), _values(map_type, entries.values()))
        return cls(name, map_type, version, len(entries), table.entry_bytes, table)

    def changed(self, changes: Sequence[tuple[int, MapChange]]) -> ValueMap:
        """The map after these accepted SETs, ADDs and REMOVEs, each with its version. A SET has the map's type."""
        known = self
        for position in reversed(range(len(changes))):
            version, change = changes[position]
            if change.operation is ListOperation.SET:
                known, changes = change.begin(self.type, version), changes[position + 1 :]
                break
        updates: dict[MapKey, MapValue | None] = {}
        for position, (version, change) in enumerate(changes, 1):
            updates.update(change.updates(self.type))
            if len(updates) > 4 * _MAX_DELTA or position == len(changes):
                known, updates = known._with(updates, version), {}
        return known

    def contains(self, key: MapKey) -> bool:
        """Whether a key is in the map."""
        return self.value_of(key) is not None

    def value_of(self, key: MapKey) -> MapValue | None:
        """The value of a key; None for a missing key."""
        if key in self.delta:
            return self.delta[key]
        return self.base.value_of(key)

    def find(self, keys: Sequence[MapKey] | Ints) -> tuple[Ints, NDArray[np.bool_], tuple[str, ...] | None]:
        """The values of n keys, which are int64[n] for a map of longs.

        Returns the numbers, or the positions in the texts of the third item; and which of the keys are in the map.
        """
        found, is_there = self.base.find(keys)
        if self.base.texts is None:
            numbers, _ = self._delta_numbers
            return *self._with_delta(keys, found, is_there, numbers), None
        distinct, codes = _distinct(found[is_there], len(self.base.texts))
        texts = self.base.texts.at(distinct)
        found = np.zeros(len(found), dtype=np.int64)
        found[is_there] = codes
        if not self.delta:
            return found, is_there, tuple(texts) or ("",)
        numbers, new = self._delta_numbers
        found, is_there = self._with_delta(keys, found, is_there, numbers + len(texts))
        return found, is_there, (*texts, *new) or ("",)

    def entries(self) -> dict[MapKey, MapValue]:
        """All entries, sorted by key."""
        found: dict[MapKey, MapValue] = dict(self.base.entries())
        for key, value in self.delta.items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return {key: found[key] for key in sorted(found)}

    def values(self) -> list[MapKey]:
        """All keys, sorted: the members of the map as a list."""
        return list(self.entries())

    def count_listed(self, keys: Sequence[MapKey]) -> int:
        """How many of these distinct keys are in the map."""
        return len(self.values_of(keys))

    def values_of(self, keys: Sequence[MapKey]) -> dict[MapKey, MapValue]:
        """The values of those of these distinct keys that are in the map."""
        if len(keys) < _MANY:
            single = ((key, self.value_of(key)) for key in keys)
            return {key: value for key, value in single if value is not None}
        asked = np.array(keys, dtype=np.int64) if self.type.key is ListType.LONG else keys
        words, found, texts = self.find(asked)
        places = np.flatnonzero(found).tolist()
        values = words.tolist()
        return {keys[place]: values[place] if texts is None else texts[values[place]] for place in places}

    def has_values_of(self, other: ValueMap) -> bool:
        """Whether two maps have the same types and entries, whatever their versions."""
        return (self.type, self.size) == (other.type, other.size) and self.entries() == other.entries()

    @cached_property
    def _delta_numbers(self) -> tuple[Ints, list[str]]:
        """The values of the delta: numbers, or positions in the returned texts. 0 for removed keys."""
        if self.type.value is MapValueType.DECIMAL:
            return np.array([value or 0 for value in self.delta.values()], dtype=np.int64), []
        texts: dict[str, int] = {}
        numbers = [texts.setdefault(str(value), len(texts)) for value in self.delta.values()]
        return np.array(numbers, dtype=np.int64), list(texts)

    @cached_property
    def _delta_places(self) -> LongMap:
        """The place of each key in the delta of a map of longs."""
        keys = np.fromiter(self.delta, dtype=np.int64, count=len(self.delta))
        return LongMap.of(keys, np.arange(len(self.delta)))

    @cached_property
    def _place_of_text(self) -> Mapping[MapKey, int]:
        return {key: place for place, key in enumerate(self.delta)}

    @cached_property
    def _delta_holds(self) -> NDArray[np.bool_]:
        return np.array([value is not None for value in self.delta.values()], dtype=np.bool_)

    def _with_delta(
        self, keys: Sequence[MapKey] | Ints, found: Ints, is_there: NDArray[np.bool_], numbers: Ints
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """The results of the base with those of the delta in their place."""
        if not self.delta:
            return found, is_there
        if isinstance(keys, np.ndarray):
            places, changed = self._delta_places.find(keys)
        else:
            places = np.array([self._place_of_text.get(key, -1) for key in keys], dtype=np.int64)
            changed = places >= 0
            places = np.where(changed, places, 0)
        return np.where(changed, numbers[places], found), np.where(changed, self._delta_holds[places], is_there)

    def _with(self, updates: Mapping[MapKey, MapValue | None], version: int) -> ValueMap:
        delta = {**self.delta, **updates} if self.delta else updates
        if len(delta) > _MAX_DELTA:
            base = self._merged(delta)
            return ValueMap(self.name, self.type, version, len(base), base.entry_bytes, base)
        before = self.values_of(list(updates))
        after = {key: value for key, value in updates.items() if value is not None}
        size = self.size + len(after) - len(before)
        entry_bytes = self.entry_bytes + _bytes_of(after) - _bytes_of(before)
        return ValueMap(self.name, self.type, version, size, entry_bytes, self.base, delta)

    def _merged(self, delta: Mapping[MapKey, MapValue | None]) -> EntryTable:
        keys = new = _columns(self.type, delta)
        if None in delta.values():
            delta = {key: value for key, value in delta.items() if value is not None}
            new = _columns(self.type, delta)
        return self.base.changed(keys, new, _values(self.type, delta.values()))


def _distinct(words: Ints, below: int) -> tuple[Ints, Ints]:
    """The distinct words, sorted, and the position of each word among them. All words are below `below`."""
    if below > 4 * len(words):
        distinct, codes = np.unique(words, return_inverse=True)
        return distinct, codes
    is_used = np.zeros(below, dtype=np.bool_)
    is_used[words] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[words]


def unscaled_of(text: str) -> int:
    """The unscaled integer of a number within the bounds of a map."""
    before, _, after = text.partition(".")
    if len(after) <= MAP_SCALE and "e" not in text and "E" not in text:
        return int(before + after.ljust(MAP_SCALE, "0"))
    return int(Decimal(text).scaleb(MAP_SCALE))


def entry_text(value: MapValue) -> str:
    """The value as text, a number without trailing zeros."""
    if isinstance(value, str):
        return value
    before, after = divmod(abs(value), _UNIT)
    text = f"{before}.{after:06d}".rstrip("0").rstrip(".")
    return f"-{text}" if value < 0 else text


def _columns(map_type: MapType, keys: Iterable[MapKey]) -> Ints | list[str]:
    if map_type.key is ListType.LONG:
        return np.fromiter(keys, dtype=np.int64)
    return [str(key) for key in keys]


def _values(map_type: MapType, values: Iterable[MapValue | None]) -> Ints | list[str]:
    if map_type.value is MapValueType.DECIMAL:
        return np.fromiter(values, dtype=np.int64)
    return [str(value) for value in values]


def _bytes_of(entries: Mapping[MapKey, MapValue]) -> int:
    parts = (*entries, *entries.values())
    return sum(len(each.encode()) if isinstance(each, str) else _NUMBER_BYTES for each in parts)
