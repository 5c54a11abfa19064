"""Reads and writes files of lists or maps. Pure except for reading.

A file is JSON, YAML, or the text form (`lines`). Each list or map of a JSON or YAML file has the members of a SET:
`listName`, `listType` and `values`, or `mapName`, `keyType`, `valueType` and `entries`. Seed files
(`config/lists/*.yaml`, `config/maps/*.yaml`) and exports have this form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from fraud_rules.codec.rules.apply import rule_files
from fraud_rules.codec.rules.collections.lines import (
    LinesOfCollection,
    collections_of_lines,
    format_lines,
    line_reasons,
)
from fraud_rules.codec.rules.collections.plan import Entries, read_change
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.codec.rules.files import MAX_FILE_BYTES, YAML_SUFFIXES, read_file_text, read_rule_text
from fraud_rules.errors import InputInvalid, Reason, RuleRejected
from fraud_rules.model.collection_history import Collection, CollectionType
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind, ListOperation, ValueList
from fraud_rules.model.value_map import MapKey, entry_text

_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""The characters that YAML does not allow, or does not keep, in a quoted text."""


@dataclass(frozen=True, slots=True)
class SeedCollection:
    """One list or map of a file. `where` names its place. The values of `entries` are None in a list."""

    where: str
    name: str
    type: CollectionType
    entries: Entries

    @property
    def values(self) -> Sequence[Any]:
        """The members."""
        return list(self.entries)


@dataclass(frozen=True, slots=True)
class RejectedCollection:
    """An invalid list or map of a file, with every reason by line or member. `name` is None if it is unreadable."""

    where: str
    name: str | None
    reasons: Sequence[Reason]


def read_seeds(kind: CollectionKind, paths: Iterable[Path], limits: RuleLimits) -> list[SeedCollection]:
    """Read files of lists or maps, and the files of folders. Raises InputInvalid with every fault."""
    found: dict[str, SeedCollection] = {}
    faults: list[str] = []
    for path in rule_files(paths):
        for each in read_collections(kind, path, read_file_text(path), limits):
            if isinstance(each, RejectedCollection):
                faults += [f"{each.where}: {reason}" for reason in each.reasons]
                continue
            if each.name in found:
                faults.append(f"{each.where}: {found[each.name].where} has the {kind} {each.name} too")
            found[each.name] = each
    if faults:
        raise InputInvalid("; ".join(faults))
    return list(found.values())


def read_seed_folder(kind: CollectionKind, config: Path, limits: RuleLimits) -> list[SeedCollection]:
    """Read the seed files of lists (`config/lists`) or maps (`config/maps`). The folder may be missing or empty."""
    folder = config / f"{kind}s"
    return read_seeds(kind, [folder], limits) if folder.is_dir() and any(folder.iterdir()) else []


def read_collections(
    kind: CollectionKind, named: Path, text: str, limits: RuleLimits
) -> list[SeedCollection | RejectedCollection]:
    """Read every list or map of a text as if it were the file `named`. Raises InputInvalid for a text without any."""
    if named.suffix not in YAML_SUFFIXES and not text.lstrip().startswith(("{", "[")):
        found = collections_of_lines(kind, text, limits)
        if not found:
            raise InputInvalid(f"{named}: has no {kind}s")
        return [_of_lines(named, each) for each in found]
    records = read_rule_text(named, text, kind.value)
    return [_of_record(kind, record.where, record.value, limits) for record in records]


def export_collections(collections: Iterable[Collection], form: RuleFormat) -> str:
    """Format lists or maps as a file. Raises InputInvalid for a text that the text form cannot express."""
    match form:
        case RuleFormat.TEXT:
            return format_lines(collections)
        case RuleFormat.JSON:
            documents = (msgspec.json.encode(_document(each)).decode() for each in collections)
            return "[" + ",".join("\n  " + document for document in documents) + "\n]\n"
        case RuleFormat.YAML:
            return "".join(line for each in collections for line in _yaml(each)) or "[]\n"


def _of_lines(named: Path, each: LinesOfCollection) -> SeedCollection | RejectedCollection:
    where = f"{named.name}, line {each.line}"
    if each.name is None or each.faults:
        return RejectedCollection(where, each.name, line_reasons(each.faults))
    return SeedCollection(where, each.name, each.type, each.entries)


def _of_record(
    kind: CollectionKind, where: str, value: bytes, limits: RuleLimits
) -> SeedCollection | RejectedCollection:
    """Decode a list or map of any length."""
    given = msgspec.json.encode({f"{kind}Operation": ListOperation.SET.value, **msgspec.json.decode(value)})
    unbounded = replace(limits, max_list_record_bytes=MAX_FILE_BYTES)
    try:
        change = read_change(kind, given, unbounded)
    except RuleRejected as rejected:
        return RejectedCollection(where, rejected.list_name or rejected.map_name, rejected.reasons)
    if change.operation is not ListOperation.SET or change.type is None:
        whole = Reason(f"{kind}Operation", f"is SET in a file: it has the whole {kind}")
        return RejectedCollection(where, change.name, [whole])
    return SeedCollection(where, change.name, change.type, change.updates(change.type))  # type: ignore[arg-type]


def _document(each: Collection) -> dict[str, object]:
    if isinstance(each, ValueList):
        return {"listName": each.name, "listType": each.type.value, "values": each.values()}
    entries = {str(key): entry_text(value) for key, value in each.entries().items()}
    return {"mapName": each.name, "keyType": each.type.key, "valueType": each.type.value, "entries": entries}


def _yaml(each: Collection) -> Iterator[str]:
    """One member per line, so that versions of a file can be compared. A JSON text is a quoted text in YAML."""
    if isinstance(each, ValueList):
        yield f"- listName: {each.name}\n  listType: {each.type}\n  values:{'' if each.size else ' []'}\n"
        for value in each.values():
            yield f"    - {_yaml_text(value)}\n"
        return
    yield f"- mapName: {each.name}\n  keyType: {each.type.key}\n  valueType: {each.type.value}\n"
    yield f"  entries:{'' if each.size else ' {}'}\n"
    for key, value in each.entries().items():
        yield f"    {_yaml_text(str(key))}: {_yaml_text(entry_text(value))}\n"


def _yaml_text(value: MapKey) -> str:
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(value).decode())
