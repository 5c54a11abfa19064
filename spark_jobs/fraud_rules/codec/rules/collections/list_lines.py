"""The text form of lists: one value per line, as `mules,long,1001`. A line `mules,long` is a list without values. Pure.

A value is quoted as in CSV if it contains a comma, a quote, or spaces at an end. Blank lines and lines from `#` on do
not count.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from fraud_rules.codec.rules.collections.lists import value_fault
from fraud_rules.codec.rules.collections.records import COLLECTION_NAME
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListType, ListValue, ValueList
from fraud_rules.runtime.safe_text import quote

__all__ = ["WHOLE_NUMBER", "LinesOfList", "as_value", "content_lines", "format_lines", "line_reasons", "lists_of_lines"]

WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)

_FORM: Final = "a line has the form name,type,value"
_NAME: Final = re.compile(COLLECTION_NAME, re.ASCII)
_TYPES: Final = {each.value: each for each in ListType}
_QUOTED: Final = re.compile(r'[",]|^\s|\s$|^$')
_MAX_REASONS: Final = 20


@dataclass(slots=True)
class LinesOfList:
    """The lines of one list. `line` is the first one, and `faults` are the lines with their faults."""

    name: str | None
    type: ListType
    line: int
    values: list[ListValue] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)


def lists_of_lines(text: str, limits: RuleLimits) -> Sequence[LinesOfList]:
    """Read every list, in the order of the first lines. The lines that name no list are in one without a name."""
    lists: dict[str, LinesOfList] = {}
    nameless = LinesOfList(None, ListType.LONG, 0)
    for number, line in content_lines(text):
        fields = _fields(line)
        fault = _fault(fields)
        if fault is not None:
            nameless.faults.append((number, fault))
            continue
        name, value_type = fields[0], _TYPES[fields[1]]
        known = lists.setdefault(name, LinesOfList(name, value_type, number))
        if value_type is not known.type:
            known.faults.append((number, f"has the type {value_type}, but line {known.line} has {known.type}"))
        elif len(fields) == 3:
            value = as_value(fields[2], value_type)
            problem = value_fault(value, value_type, limits)
            known.faults += [(number, problem)] if problem else []
            known.values.append(value)
    if nameless.faults:
        nameless.line = nameless.faults[0][0]
        return (*lists.values(), nameless)
    return tuple(lists.values())


def as_value(text: str, value_type: ListType | None) -> ListValue:
    """Convert a text to a value. A text that is no whole number stays a text, which a list of longs rejects."""
    return int(text) if value_type is not ListType.STRING and WHOLE_NUMBER.fullmatch(text) else text


def line_reasons(faults: Sequence[tuple[int, str]]) -> list[Reason]:
    """The faults as reasons by line; at most 20, and the number of the others."""
    shown = [Reason(f"line {number}", problem) for number, problem in faults[:_MAX_REASONS]]
    more = len(faults) - len(shown)
    return [*shown, Reason("lines", f"{more} more lines have faults")] if more else shown


def format_lines(lists: Iterable[ValueList]) -> str:
    """Format lists in the text form. Raises InputInvalid for a value that needs more than one line."""
    return "".join(f"{line}\n" for each in lists for line in _formatted(each))


def _formatted(each: ValueList) -> Iterator[str]:
    head, values = f"{each.name},{each.type}", each.values()
    if not values:
        yield head
    for value in values:
        text = str(value)
        if "".join(text.splitlines()) != text:
            raise InputInvalid(
                f"the list {each.name} has the value {quote(text)}, which the text form cannot express: "
                "export json or yaml"
            )
        if _QUOTED.search(text):
            text = '"' + text.replace('"', '""') + '"'
        yield f"{head},{text}"


def content_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers, without blank lines and lines from `#` on."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _fields(line: str) -> list[str]:
    if '"' not in line:
        return [part.strip() for part in line.split(",")]
    try:
        return next(csv.reader([line], skipinitialspace=True, strict=True))
    except csv.Error:
        return []


def _fault(fields: Sequence[str]) -> str | None:
    """The fault of a line that names no list."""
    if not 2 <= len(fields) <= 3:
        return _FORM
    if not _NAME.fullmatch(fields[0]):
        return f"has the list name {quote(fields[0])}; a list's name has the form {COLLECTION_NAME}"
    if fields[1] not in _TYPES:
        return f"has the type {quote(fields[1])}; a type is one of {', '.join(_TYPES)}"
    return None
