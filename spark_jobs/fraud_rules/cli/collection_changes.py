"""The changes and files of lists and maps: through the control plane, or with --direct in the rule log itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.display.api_answers import print_change, print_import, read_file, write_file
from fraud_rules.cli.display.collection_tables import MEMBERS, print_difference
from fraud_rules.cli.options import connect, control_plane, refuse
from fraud_rules.cli.rule_log import append, await_live, check_against_log, read_rule_log
from fraud_rules.codec.rules.collections.files import export_collections, read_seeds
from fraud_rules.codec.rules.collections.plan import plan_set
from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.errors import InputInvalid, NotFound
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.collection_history import CollectionType
from fraud_rules.model.value_list import CollectionKind, CollectionName, ListOperation, ListType
from fraud_rules.model.value_map import MapType, MapValueType

if TYPE_CHECKING:
    from fraud_rules.api_client import Client

_FILES_SOURCE: Final = "seed"
_DEFAULT_TYPES: Final[Mapping[CollectionKind, CollectionType]] = {
    CollectionKind.LIST: ListType.LONG,
    CollectionKind.MAP: MapType(ListType.LONG, MapValueType.DECIMAL),
}


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A requested change of a list or map: of one operation, with values or a file of values unless it is DELETE. The
    values of a map are texts `key=value`, or keys for REMOVE."""

    operation: ListOperation
    name: str
    values: list[str] | None = None
    file: Path | None = None
    of_type: CollectionType | None = None
    kind: CollectionKind = CollectionKind.LIST

    def __post_init__(self) -> None:
        if (self.file is None) is not bool(self.values) and self.operation is not ListOperation.DELETE:
            raise InputInvalid(f"give {MEMBERS[self.kind]}, or --file with one per line")


def make_change(change: RequestedChange, url: str | None, comment: str, *, as_json: bool) -> None:
    """Request a change, and print the result."""
    found, waits = _send(connect(url), change, comment)
    if found is None:
        found, line = {"name": change.name, "deleted": True}, f"{change.kind} {change.name}: deleted"
    else:
        size = f"{found['size']:,} {MEMBERS[change.kind]}"
        line = f"{change.kind} {found['name']}: {size}, revision {found['revision']}"
    print_change(found, line, waits=waits, as_json=as_json)


def _send(client: Client, change: RequestedChange, comment: str) -> tuple[Any, bool]:
    """Request a change, or a new list or map from `set`. Return the answer, None for a deleted one, and whether it
    waits."""
    content: dict[str, object] = {"comment": comment}
    if change.operation is not ListOperation.DELETE:
        content |= _content(change) if change.file is None else {"content": read_file(change.file)}
    path, known = collection_path(change.kind, change.name), None
    if change.operation in (ListOperation.SET, ListOperation.DELETE):
        try:
            known = client.get(path)
        except NotFound:
            if change.operation is ListOperation.DELETE:
                raise
            types = _types(change.of_type or _DEFAULT_TYPES[change.kind])
            return client.change("POST", f"/{change.kind}s", content | {"name": change.name, **types})
        if change.of_type is not None and any(known[each] != text for each, text in _types(change.of_type).items()):
            raise InputInvalid(f"{change.kind} {change.name} has another type than {change.of_type}: delete it first")
    revision = None if known is None else known["revision"]
    return client.change("POST", f"{path}/changes", content | {"operation": change.operation.value}, revision)


def _content(change: RequestedChange) -> dict[str, object]:
    if change.kind is CollectionKind.LIST:
        return {"values": change.values}
    if change.operation is ListOperation.REMOVE:
        return {"keys": change.values}
    return {"entries": dict(_key_and_value(text) for text in change.values or [])}


def _types(of_type: CollectionType) -> dict[str, str]:
    """The types of a new list or map, as members of a request."""
    if isinstance(of_type, MapType):
        return {"keyType": of_type.key.value, "valueType": of_type.value.value}
    return {"type": of_type.value}


def save_files(
    kind: CollectionKind,
    paths: Sequence[Path],
    kafka: KafkaConnection,
    url: str | None,
    comment: str,
    wait: float,
    *,
    direct: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give lists or maps the content of files, and print the effects."""
    client = control_plane(url, direct=direct, writes=not dry_run)
    if client is None:
        refuse("with --direct", comment=comment, json=as_json)
        _save_directly(kind, paths, kafka, wait, dry_run=dry_run)
        return
    refuse("without --direct", wait=wait)
    columns = ("place", kind.value, "effect", "reasons")
    print_import(client, f"/import/{kind}s", paths, comment, (columns, "name"), dry_run=dry_run, as_json=as_json)


def export_file(
    kind: CollectionKind,
    kafka: KafkaConnection,
    url: str | None,
    form: RuleFormat,
    output: Path | None,
    *,
    direct: bool,
) -> None:
    """Write all lists or maps to a file."""
    client = control_plane(url, direct=direct)
    if client is not None:
        write_file(client.text(f"/export/{kind}s", format=form.value), output)
        return
    known = read_rule_log(load_context(), kafka).timeline.collections.by_name()
    found = [each for (of_kind, _), each in sorted(known.items()) if of_kind is kind]
    write_file(export_collections(found, form).encode(), output)


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputInvalid(f"{text[:40]!r} must have the form key=value")
    return key, value


def collection_path(kind: CollectionKind, name: str) -> str:
    """The path of a list or map in the API."""
    return f"/{kind}s/{quote(name, safe='')}"


def _save_directly(
    kind: CollectionKind, paths: Sequence[Path], kafka: KafkaConnection, wait: float, *, dry_run: bool
) -> None:
    """Give lists or maps the content of files, in the rule log."""
    context = load_context()
    limits = context.settings.limits
    seeds = read_seeds(kind, paths, limits)
    log = read_rule_log(context, kafka, settled=True).timeline
    known = {seed.name: log.collections.of((kind, seed.name)) for seed in seeds}
    planned = [
        (seed, plan_set(known[seed.name], seed.name, seed.type, seed.entries, _FILES_SOURCE, limits)) for seed in seeds
    ]
    check_against_log(context, log, [("", record) for _, records in planned for record in records])
    if dry_run:
        for seed, records in planned:
            print_difference(known[seed.name], kind, seed.name, seed.entries if records else None)
        return
    written = [each for seed, records in planned for each in _append(context, kafka, (kind, seed.name), records)]
    if wait > 0 and written:
        await_live(context, kafka, set(written), wait)


def _append(
    context: CommandContext, kafka: KafkaConnection, name: CollectionName, records: Sequence[bytes]
) -> list[int]:
    """Write the records of a list or map, and return their versions."""
    versions = append(context, kafka, [(collection_key(*name), record) for record in records])
    shown = f"{name[0]} {name[1]}"
    print(f"{shown}: version {versions[-1]}" if versions else f"{shown} is unchanged")
    return versions
