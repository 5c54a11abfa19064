"""The maps of the rule log: their records, and the maps after them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

from fraud_rules.model.schema import FieldType
from tests.support.oracle.refusal import Refused

MOST_MAPS = 100
MOST_ENTRIES = 1_000_000
MOST_CHARS = 256
MEMBERS = frozenset({"mapName", "mapOperation", "keyType", "valueType", "entries", "keys", "source"})

Entry: TypeAlias = int | str | Fraction

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LONG = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_KEY_TYPES = {"long": FieldType.LONG, "string": FieldType.STRING}
_VALUE_TYPES = {"decimal": FieldType.DECIMAL, "string": FieldType.STRING}


class MapOperation(Enum):
    """The change of a map."""

    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class MapChange:
    """A map record. A type is None where the record leaves it to the map; the content is then still to check."""

    name: str
    operation: MapOperation
    key_type: FieldType | None
    value_type: FieldType | None
    entries: Mapping[str, Any] = field(default_factory=dict)
    keys: Sequence[Any] = ()

    def typed_entries(self, key_type: FieldType, value_type: FieldType) -> dict[Entry, Entry]:
        """The entries as a map of these types has them. Raises Refused."""
        return {_key(key, key_type): _value(value, value_type) for key, value in self.entries.items()}

    def typed_keys(self, key_type: FieldType) -> set[Entry]:
        """The keys as a map of this type has them. Raises Refused."""
        return {_key(key, key_type) for key in self.keys}


@dataclass(frozen=True)
class FoldedMap:
    """A map: `version` is that of the last accepted record, which may have left the entries the same."""

    key_type: FieldType
    value_type: FieldType
    version: int
    entries: Mapping[Entry, Entry]


def read_map(members: Mapping[str, Any]) -> MapChange:
    """The change of a record with `mapName`. Raises Refused."""
    unknown = set(members) - MEMBERS
    if unknown:
        raise Refused(f"{min(unknown)}: is no member of a map record")
    name, operation = members["mapName"], members.get("mapOperation")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(f"mapName: {name!r} is no name")
    if operation not in [each.value for each in MapOperation]:
        raise Refused(f"mapOperation: {operation!r} is no operation")
    change = MapChange(
        name,
        MapOperation(operation),
        _type(members, "keyType", _KEY_TYPES),
        _type(members, "valueType", _VALUE_TYPES),
        members.get("entries", {}),
        members.get("keys", ()),
    )
    _check_content(change, members)
    return change


def _type(members: Mapping[str, Any], member: str, types: Mapping[str, FieldType]) -> FieldType | None:
    if member not in members:
        return None
    if members[member] not in types:
        raise Refused(f"{member}: is one of {list(types)}")
    return types[members[member]]


def _check_content(change: MapChange, members: Mapping[str, Any]) -> None:
    sets = change.operation in (MapOperation.SET, MapOperation.ADD)
    removes = change.operation is MapOperation.REMOVE
    if ("entries" in members) is not sets or not isinstance(change.entries, dict):
        raise Refused("entries: SET and ADD have them, an object")
    if ("keys" in members) is not removes or (removes and not isinstance(change.keys, list)):
        raise Refused("keys: REMOVE has them, a list")
    if change.operation is MapOperation.SET:
        if change.key_type is None or change.value_type is None:
            raise Refused("keyType: SET needs it, and valueType")
        change.typed_entries(change.key_type, change.value_type)


def reasons_against(change: MapChange, maps: Mapping[str, FoldedMap], *, used: bool) -> list[str]:
    """The reasons why the maps before a record speak against it. `used` says whether a rule in force names the map."""
    known = maps.get(change.name)
    if change.operation is MapOperation.SET:
        return _against_set(change, known, len(maps), used=used)
    if known is None:
        return [f"mapName: {change.name} is not there"]
    if change.key_type not in (None, known.key_type) or change.value_type not in (None, known.value_type):
        return [f"keyType: {change.name} has other types"]
    if change.operation is MapOperation.DELETE:
        return [f"mapName: a rule names {change.name}"] if used else []
    try:
        after = changed(change, known, known.version)
    except Refused as refusal:
        return [str(refusal)]
    return [] if len(after.entries) <= MOST_ENTRIES else ["entries: are too many"]


def _against_set(change: MapChange, known: FoldedMap | None, maps: int, *, used: bool) -> list[str]:
    if len(change.entries) > MOST_ENTRIES:
        return ["entries: are too many"]
    if known is None:
        return [] if maps < MOST_MAPS else ["mapName: there are too many maps"]
    same = (known.key_type, known.value_type) == (change.key_type, change.value_type)
    return [f"keyType: a rule names {change.name} with other types"] if used and not same else []


def apply(maps: dict[str, FoldedMap], version: int, change: MapChange) -> None:
    """Change the maps by an accepted record."""
    known = maps.pop(change.name, None)
    if change.operation is MapOperation.SET:
        assert change.key_type is not None and change.value_type is not None
        entries = change.typed_entries(change.key_type, change.value_type)
        maps[change.name] = FoldedMap(change.key_type, change.value_type, version, entries)
    elif change.operation is not MapOperation.DELETE:
        assert known is not None
        maps[change.name] = changed(change, known, version)


def changed(change: MapChange, known: FoldedMap, version: int) -> FoldedMap:
    """The map after ADD or REMOVE. Raises Refused for entries and keys of other types."""
    if change.operation is MapOperation.ADD:
        entries = {**known.entries, **change.typed_entries(known.key_type, known.value_type)}
    else:
        removed = change.typed_keys(known.key_type)
        entries = {key: value for key, value in known.entries.items() if key not in removed}
    return FoldedMap(known.key_type, known.value_type, version, entries)


def _key(raw: Any, key_type: FieldType) -> Entry:
    """A key of `entries`, which is a text there, or of `keys`."""
    if key_type is FieldType.STRING:
        return _text(raw, "keys")
    number = int(raw) if isinstance(raw, str) and _LONG.fullmatch(raw) else raw
    if not isinstance(number, int) or isinstance(number, bool) or not -(2**63) <= number < 2**63:
        raise Refused(f"keys: {raw!r} is no long")
    return number


def _value(raw: Any, value_type: FieldType) -> Entry:
    if value_type is FieldType.STRING:
        return _text(raw, "entries")
    if isinstance(raw, bool) or not _DECIMAL.fullmatch(str(raw)):
        raise Refused(f"entries: {raw!r} is no decimal")
    number = Fraction(str(raw))
    if abs(number) >= 10**12 or (number * 10**6).denominator != 1:
        raise Refused(f"entries: {raw} has more than 12 digits before or 6 after the point")
    return number


def _text(raw: Any, member: str) -> str:
    if not isinstance(raw, str) or len(raw) > MOST_CHARS:
        raise Refused(f"{member}: {raw!r} is no text of at most {MOST_CHARS} characters")
    return raw
