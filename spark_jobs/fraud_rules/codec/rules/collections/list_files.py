"""Reads and writes files of lists. Pure except for reading.

A file is JSON, YAML, or the text form (`list_lines`). Each list of a JSON or YAML file has the members of a SET:
`listName`, `listType` and `values`. Seed files (`config/lists/*.yaml`) and exports have this form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from fraud_rules.codec.rules.apply import rule_files
from fraud_rules.codec.rules.collections.list_lines import (
    WHOLE_NUMBER,
    LinesOfList,
    content_lines,
    format_lines,
    line_reasons,
    lists_of_lines,
)
from fraud_rules.codec.rules.collections.lists import read_list_change
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.codec.rules.files import MAX_FILE_BYTES, YAML_SUFFIXES, read_file_text, read_rule_text
from fraud_rules.errors import InputInvalid, Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListOperation, ListType, ListValue, ValueList

__all__ = [
    "RejectedList",
    "SeedList",
    "export_lists",
    "parse_values",
    "read_list_text",
    "read_seed_lists",
    "read_values",
]

_MAX_FAULTS: Final = 10
_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""The characters that YAML does not allow, or does not keep, in a quoted text."""


@dataclass(frozen=True, slots=True)
class SeedList:
    """One list of a file. `where` names its place."""

    where: str
    name: str
    type: ListType
    values: Sequence[ListValue]


@dataclass(frozen=True, slots=True)
class RejectedList:
    """A list of a file that is invalid, with every reason by line or member. `name` is None if it is unreadable."""

    where: str
    name: str | None
    reasons: Sequence[Reason]


def read_values(path: Path, text: str | None = None) -> list[tuple[int, str]]:
    """The values in a file, or in `text` instead, each with its line. Blank lines and lines from `#` on do not count.

    Raises InputInvalid for an unreadable file.
    """
    try:
        content = path.read_text(encoding="utf-8-sig") if text is None else text
    except (OSError, UnicodeDecodeError) as error:
        raise InputInvalid(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return list(content_lines(content))


def parse_values(texts: Sequence[str], value_type: ListType, lines: Sequence[int] = ()) -> list[ListValue]:
    """Convert texts to values of a list. `lines` are their lines in a file, empty for texts without a file.

    Raises InputInvalid with the texts that are no whole numbers.
    """
    if value_type is ListType.STRING:
        return list(texts)
    wrong = [place for place, text in enumerate(texts) if not WHOLE_NUMBER.fullmatch(text)]
    if wrong:
        named = [(f"line {lines[place]}: " if lines else "") + repr(texts[place][:40]) for place in wrong[:_MAX_FAULTS]]
        raise InputInvalid(f"{len(wrong)} of {len(texts)} values are not whole numbers: {', '.join(named)}")
    return [int(text) for text in texts]


def read_seed_lists(paths: Iterable[Path], limits: RuleLimits) -> list[SeedList]:
    """Read files of lists, and the files of folders. Raises InputInvalid with every fault."""
    found: dict[str, SeedList] = {}
    faults: list[str] = []
    for path in rule_files(paths):
        for each in read_list_text(path, read_file_text(path), limits):
            if isinstance(each, RejectedList):
                faults += [f"{each.where}: {reason}" for reason in each.reasons]
                continue
            if each.name in found:
                faults.append(f"{each.where}: {found[each.name].where} has the list {each.name} too")
            found[each.name] = each
    if faults:
        raise InputInvalid("; ".join(faults))
    return list(found.values())


def read_list_text(named: Path, text: str, limits: RuleLimits) -> list[SeedList | RejectedList]:
    """Read every list of a text as if it were the file `named`. Raises InputInvalid for a text without lists."""
    if named.suffix not in YAML_SUFFIXES and not text.lstrip().startswith(("{", "[")):
        lists = lists_of_lines(text, limits)
        if not lists:
            raise InputInvalid(f"{named}: has no lists")
        return [_of_lines(named, each) for each in lists]
    records = read_rule_text(named, text, "list")
    return [_of_record(record.where, record.value, limits) for record in records]


def export_lists(lists: Iterable[ValueList], form: RuleFormat) -> str:
    """Format lists as a file. Raises InputInvalid for a value that the text form cannot express."""
    match form:
        case RuleFormat.TEXT:
            return format_lines(lists)
        case RuleFormat.JSON:
            return "[" + ",".join("\n  " + msgspec.json.encode(_document(each)).decode() for each in lists) + "\n]\n"
        case RuleFormat.YAML:
            return "".join(line for each in lists for line in _yaml(each)) or "[]\n"


def _of_lines(named: Path, each: LinesOfList) -> SeedList | RejectedList:
    where = f"{named.name}, line {each.line}"
    if each.name is None or each.faults:
        return RejectedList(where, each.name, line_reasons(each.faults))
    return SeedList(where, each.name, each.type, each.values)


def _of_record(where: str, value: bytes, limits: RuleLimits) -> SeedList | RejectedList:
    """Decode a list of any length."""
    members = msgspec.json.decode(value)
    given = {"listOperation": ListOperation.SET.value, **members}
    try:
        change = read_list_change(msgspec.json.encode(given), replace(limits, max_list_record_bytes=MAX_FILE_BYTES))
    except RuleRejected as rejected:
        return RejectedList(where, rejected.list_name, rejected.reasons)
    if change.operation is not ListOperation.SET or change.type is None:
        return RejectedList(where, change.name, [Reason("listOperation", "is SET in a file: it has the whole list")])
    return SeedList(where, change.name, change.type, change.values())


def _document(each: ValueList) -> dict[str, object]:
    return {"listName": each.name, "listType": each.type.value, "values": each.values()}


def _yaml(each: ValueList) -> Iterator[str]:
    """One value per line, so that versions of a file can be compared. A JSON text is a quoted text in YAML."""
    values = each.values()
    yield f"- listName: {each.name}\n  listType: {each.type}\n  values:{'' if values else ' []'}\n"
    for value in values:
        text = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(value).decode())
        yield f"    - {text}\n"
