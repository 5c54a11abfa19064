"""Reads the values and files of lists, and plans the records that change a list. Pure except for reading.

A seed file (`config/lists/*.yaml`) has the members of a SET: `listName`, `listType` and `values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from fraud_rules.codec.rules.apply import rule_files
from fraud_rules.codec.rules.files import MAX_FILE_BYTES, read_rule_file
from fraud_rules.codec.rules.lists import encode_list_records, read_list_change
from fraud_rules.errors import InputInvalid, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListOperation, ListType, ListValue, ValueList

__all__ = ["SeedList", "parse_values", "plan_change", "plan_set", "read_seed_lists", "read_values"]

_LONG = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_MAX_FAULTS = 10


@dataclass(frozen=True, slots=True)
class SeedList:
    """One list of a seed file. `where` names the file."""

    where: str
    name: str
    type: ListType
    values: Sequence[ListValue]


def read_values(path: Path, text: str | None = None) -> list[str]:
    """The values in a file, or in `text` instead: one per line. Blank lines and lines from `#` on do not count.

    Raises InputInvalid for an unreadable file.
    """
    try:
        lines = (path.read_text(encoding="utf-8-sig") if text is None else text).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputInvalid(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def parse_values(texts: Sequence[str], value_type: ListType) -> list[ListValue]:
    """Convert texts to values of a list. Raises InputInvalid with the texts that are no whole numbers."""
    if value_type is ListType.STRING:
        return list(texts)
    wrong = [text for text in texts if not _LONG.fullmatch(text)]
    if wrong:
        shown = ", ".join(repr(text[:40]) for text in wrong[:_MAX_FAULTS])
        raise InputInvalid(f"{len(wrong)} of {len(texts)} values are not whole numbers: {shown}")
    return [int(text) for text in texts]


def read_seed_lists(paths: Iterable[Path], limits: RuleLimits) -> list[SeedList]:
    """Read seed files, and the files of folders. Raises InputInvalid with every fault."""
    found: dict[str, SeedList] = {}
    faults: list[str] = []
    for path in rule_files(paths):
        for record in read_rule_file(path):
            try:
                each = _seed_list(record.where.replace(", rule ", ", list "), record.value, limits)
            except RuleRejected as rejected:
                faults += [f"{record.where.replace(', rule ', ', list ')}: {reason}" for reason in rejected.reasons]
                continue
            if each.name in found:
                faults.append(f"{each.where}: {found[each.name].where} has the list {each.name} too")
            found[each.name] = each
    if faults:
        raise InputInvalid("; ".join(faults))
    return list(found.values())


def plan_set(
    known: ValueList | None,
    name: str,
    value_type: ListType,
    values: Iterable[ListValue],
    source: str,
    limits: RuleLimits,
) -> list[bytes]:
    """The records that give a list these values. Nothing if it has them.

    A list in force gets ADDs and REMOVEs if they are shorter than the list, so that it is never incomplete in between.
    """
    wanted = list(dict.fromkeys(values))
    if known is None or known.type is not value_type:
        return _encode(name, ListOperation.SET, value_type, wanted, source, limits)
    before, after = set(known.values()), set(wanted)
    added = [value for value in wanted if value not in before]
    removed = [value for value in known.values() if value not in after]
    if len(added) + len(removed) > len(wanted):
        return _encode(name, ListOperation.SET, value_type, wanted, source, limits)
    return [
        record
        for operation, part in ((ListOperation.ADD, added), (ListOperation.REMOVE, removed))
        if part
        for record in _encode(name, operation, value_type, part, source, limits)
    ]


def plan_change(
    known: ValueList, operation: ListOperation, values: Iterable[ListValue], source: str, limits: RuleLimits
) -> list[bytes]:
    """The records of an ADD or REMOVE. Values that change nothing are left out."""
    adds = operation is ListOperation.ADD
    chosen = [value for value in dict.fromkeys(values) if known.contains(value) is not adds]
    return _encode(known.name, operation, known.type, chosen, source, limits) if chosen else []


def _encode(
    name: str,
    operation: ListOperation,
    value_type: ListType,
    values: Sequence[ListValue],
    source: str,
    limits: RuleLimits,
) -> list[bytes]:
    return encode_list_records(name, operation, value_type, values, source, limits.max_list_record_bytes)


def _seed_list(where: str, value: bytes, limits: RuleLimits) -> SeedList:
    """Decode a seed list of any length. Raises RuleRejected with every reason."""
    members = msgspec.json.decode(value)
    given = {"listOperation": ListOperation.SET.value, **members} if isinstance(members, dict) else members
    change = read_list_change(msgspec.json.encode(given), replace(limits, max_list_record_bytes=MAX_FILE_BYTES))
    assert change.type is not None  # a SET has a type
    return SeedList(where, change.name, change.type, change.values())
