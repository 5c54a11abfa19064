"""The text form of lists and maps: one member per line. Pure.

A list has lines as `mules,long,1001`, a map as `limits,long,decimal,7,250`. A line without a member, `mules,long`, is
a collection without any. A value is quoted as in CSV if it contains a comma, a quote, or spaces at an end, or begins
with `#`. Blank lines and lines from `#` on do not count.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fraud_rules.codec.rules.collections.lists import value_fault
from fraud_rules.codec.rules.collections.maps import key_fault, map_value_fault
from fraud_rules.codec.rules.collections.records import COLLECTION_NAME
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.collection_history import Collection, CollectionType
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind, ListType, ListValue, ValueList
from fraud_rules.model.value_map import MapKey, MapType, MapValue, MapValueType, entry_text, unscaled_of
from fraud_rules.runtime.safe_text import quote

WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)

_NAME: Final = re.compile(COLLECTION_NAME, re.ASCII)
_TYPES: Final = {each.value: each for each in ListType}
_VALUE_TYPES: Final = {each.value: each for each in MapValueType}
_QUOTED: Final = re.compile(r'[",]|^[\s#]|\s$|^$')
_MAX_REASONS: Final = 20
_FORMS: Final = {CollectionKind.LIST: "name,type,value", CollectionKind.MAP: "name,key type,value type,key,value"}
_HEADS: Final = {CollectionKind.LIST: 2, CollectionKind.MAP: 3}


@dataclass(slots=True)
class LinesOfCollection:
    """The lines of one list or map. `line` is the first one, and `faults` are the lines with their faults. The values
    of `entries` are None in a list."""

    name: str | None
    type: CollectionType
    line: int
    entries: dict[Any, Any] = field(default_factory=dict)
    faults: list[tuple[int, str]] = field(default_factory=list)


def collections_of_lines(kind: CollectionKind, text: str, limits: RuleLimits) -> Sequence[LinesOfCollection]:
    """Read every list or map, in the order of the first lines. The lines that name none are in one without a name."""
    found: dict[str, LinesOfCollection] = {}
    nameless = LinesOfCollection(None, ListType.LONG, 0)
    for number, line in content_lines(text):
        fields = fields_of(line)
        fault = _fault(kind, fields)
        if fault is not None:
            nameless.faults.append((number, fault))
            continue
        name, of_type = fields[0], _type_of(kind, fields)
        known = found.setdefault(name, LinesOfCollection(name, of_type, number))
        if of_type != known.type:
            known.faults.append((number, f"has the type {of_type}, but line {known.line} has {known.type}"))
        elif len(fields) > _HEADS[kind]:
            key, value, problem = read_entry_fields(of_type, fields[_HEADS[kind] :], limits)
            if problem is None and isinstance(of_type, MapType) and key in known.entries:
                problem = f"has the key {quote(str(key))} again"
            known.faults += [(number, problem)] if problem else []
            known.entries[key] = value
    if nameless.faults:
        nameless.line = nameless.faults[0][0]
        return (*found.values(), nameless)
    return tuple(found.values())


def read_entry_fields(
    of_type: CollectionType, fields: Sequence[str], limits: RuleLimits
) -> tuple[MapKey, MapValue | None, str | None]:
    """The member of a line, its value (None in a list), and its fault (None for a valid one)."""
    if not isinstance(of_type, MapType):
        value = as_value(fields[0], of_type)
        return value, None, value_fault(value, of_type, limits)
    fault = key_fault(fields[0], of_type.key, limits) or map_value_fault(fields[1], of_type.value, limits)
    if fault is not None:
        return fields[0], fields[1], fault
    key: MapKey = int(fields[0]) if of_type.key is ListType.LONG else fields[0]
    return key, unscaled_of(fields[1]) if of_type.value is MapValueType.DECIMAL else fields[1], None


def as_value(text: str, value_type: ListType | None) -> ListValue:
    """Convert a text to a value. A text that is no whole number stays a text, which a list of longs rejects."""
    return int(text) if value_type is not ListType.STRING and WHOLE_NUMBER.fullmatch(text) else text


def line_reasons(faults: Sequence[tuple[int, str]]) -> list[Reason]:
    """The faults as reasons by line; at most 20, and the number of the others."""
    shown = [Reason(f"line {number}", problem) for number, problem in faults[:_MAX_REASONS]]
    more = len(faults) - len(shown)
    return [*shown, Reason("lines", f"{more} more lines have faults")] if more else shown


def format_lines(collections: Iterable[Collection]) -> str:
    """Format lists or maps in the text form. Raises InputInvalid for a text that needs more than one line."""
    return "".join(f"{line}\n" for each in collections for line in _formatted(each))


def entry_line(key: MapKey, value: MapValue | None) -> str:
    """A member as a line: `1001`, or `7,250` in a map. Raises InputInvalid for a text that needs more than one line."""
    return ",".join(_field(each) for each in ((key,) if value is None else (key, entry_text(value))))


def shown_entry(key: MapKey, value: MapValue | None) -> str:
    """A member for readers: a value of a list as it is, or an entry of a map as in CSV."""
    return str(key) if value is None else f"{_quoted(str(key))},{_quoted(entry_text(value))}"


def _formatted(each: Collection) -> Iterator[str]:
    head = f"{each.name},{each.type}" if isinstance(each, ValueList) else ",".join((each.name, *each.type))
    if not each.size:
        yield head
    for key, value in each.entries().items():
        yield f"{head},{entry_line(key, value)}"


def _field(value: MapKey) -> str:
    text = str(value)
    if "".join(text.splitlines()) != text:
        raise InputInvalid(f"the text form cannot express the value {quote(text)}: export json or yaml")
    return _quoted(text)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def content_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers, without blank lines and lines from `#` on."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def fields_of(line: str) -> list[str]:
    """The fields of a line, which are separated by commas. Empty for a line whose quotes do not match."""
    if '"' not in line:
        return [part.strip() for part in line.split(",")]
    try:
        return next(csv.reader([line], skipinitialspace=True, strict=True))
    except csv.Error:
        return []


def _fault(kind: CollectionKind, fields: Sequence[str]) -> str | None:
    """The fault of a line that names no list or map."""
    head = _HEADS[kind]
    if len(fields) not in (head, 2 * head - 1):
        return f"a line has the form {_FORMS[kind]}"
    if not _NAME.fullmatch(fields[0]):
        return f"has the {kind} name {quote(fields[0])}; a {kind}'s name has the form {COLLECTION_NAME}"
    possible: tuple[Mapping[str, object], ...] = (_TYPES, _VALUE_TYPES)
    for text, choices in zip(fields[1:head], possible, strict=False):
        if text not in choices:
            return f"has the type {quote(text)}; a type is one of {', '.join(choices)}"
    return None


def _type_of(kind: CollectionKind, fields: Sequence[str]) -> CollectionType:
    if kind is CollectionKind.LIST:
        return _TYPES[fields[1]]
    return MapType(_TYPES[fields[1]], _VALUE_TYPES[fields[2]])
