"""What a sample's records contain: for each place, its values' kinds, range, number and examples.

Pure. A place is the path of a scalar in the decoded records. Elements of arrays are not places, because their number
differs from record to record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Final

from fraud_rules.codec.scalar import is_integer, is_number, parse_timestamp
from fraud_rules.codec.transactions.field_value import EpochMs, Number
from fraud_rules.model.declared.field_source import MAX_PATH_LENGTH, Path

_MOST_PLACES: Final = 500
_MOST_TEXT: Final = 256


class ValueKind(StrEnum):
    """The kind of a value in a record."""

    WHOLE = "whole number"
    FRACTION = "number with a fraction"
    WHOLE_TEXT = "whole number in quotes"
    FRACTION_TEXT = "number with a fraction in quotes"
    TIME_TEXT = "time"
    TEXT = "text"
    LONG_TEXT = "long text"
    BOOLEAN = "true or false"
    TIME = "time with a unit of its own"
    BYTES = "bytes"


@dataclass(slots=True)
class ValuePlace:
    """The values at one path. `values` are the texts of all values in the order of the records, None for none."""

    path: Path
    values: list[str | None] = field(default_factory=list)
    kinds: Counter[ValueKind] = field(default_factory=Counter)

    @property
    def present(self) -> list[str]:
        """The values without the absent ones and nulls."""
        return [value for value in self.values if value is not None]

    @property
    def null_share(self) -> float:
        """The share of records without a value here."""
        return self.values.count(None) / len(self.values)

    @property
    def distinct(self) -> int:
        """The number of different values."""
        return len(set(self.present))

    def is_only(self, *kinds: ValueKind) -> bool:
        """Whether each value is of one of these kinds, and there is one."""
        return bool(self.kinds) and set(self.kinds) <= set(kinds)


@dataclass(slots=True)
class Profile:
    """The places of `records` decoded records, and the paths of arrays among them."""

    records: int = 0
    places: dict[Path, ValuePlace] = field(default_factory=dict)
    arrays: set[Path] = field(default_factory=set)
    left_out: int = 0

    def add(self, tree: object) -> None:
        """Add one decoded record (see `codec.transactions.tree`)."""
        for path, value in self._scalars(tree, ()):
            place = self.places.get(path)
            if place is None:
                if len(self.places) >= _MOST_PLACES:
                    self.left_out += 1
                    continue
                place = self.places[path] = ValuePlace(path)
            place.values += [None] * (self.records - len(place.values))
            if value is not None:
                kind, text = _described(value)
                place.kinds[kind] += 1
                place.values.append(text)
        self.records += 1

    def close(self) -> Profile:
        """Complete the values of places that the last records did not have."""
        for place in self.places.values():
            place.values += [None] * (self.records - len(place.values))
        return self

    def _scalars(self, tree: object, path: Path) -> Iterator[tuple[Path, object]]:
        if isinstance(tree, Mapping):
            for name, value in tree.items():
                if len(path) < MAX_PATH_LENGTH:
                    yield from self._scalars(value, (*path, str(name)))
        elif isinstance(tree, list):
            self.arrays.add(path)
        elif path:
            yield path, tree


def profile_of(trees: Sequence[object]) -> Profile:
    """The profile of decoded records."""
    profile = Profile()
    for tree in trees:
        profile.add(tree)
    return profile.close()


def _described(value: object) -> tuple[ValueKind, str]:
    match value:
        case bool():
            return ValueKind.BOOLEAN, str(value).lower()
        case EpochMs():
            return ValueKind.TIME, str(int(value))
        case Number():
            return (ValueKind.WHOLE if is_integer(value) else ValueKind.FRACTION), str(value)
        case int():
            return ValueKind.WHOLE, str(value)
        case Decimal() | float():
            return ValueKind.FRACTION, format(value, "f")
        case str():
            return _kind_of_text(value), value[:_MOST_TEXT]
    return ValueKind.BYTES, ""


def _kind_of_text(text: str) -> ValueKind:
    if is_integer(text):
        return ValueKind.WHOLE_TEXT
    if is_number(text):
        return ValueKind.FRACTION_TEXT
    if parse_timestamp(text) is not None:
        return ValueKind.TIME_TEXT
    return ValueKind.TEXT if len(text) <= _MOST_TEXT else ValueKind.LONG_TEXT
