"""Changes of lists: as requests to the control plane, and as records of the rule log."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fraud_rules.cli.display.api_answers import read_file
from fraud_rules.codec.rules.apply import DEFAULT_SOURCE
from fraud_rules.codec.rules.collections.list_files import parse_values, read_values
from fraud_rules.codec.rules.collections.list_plan import plan_change, plan_set
from fraud_rules.codec.rules.collections.lists import encode_list_records
from fraud_rules.errors import InputInvalid, NotFound, RuleUnknown
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListOperation, ListType, ListValue, ValueList

if TYPE_CHECKING:
    from fraud_rules.api_client import Client
    from fraud_rules.model.ruleset import RuleTimeline

__all__ = ["RequestedChange", "known_list", "list_path", "planned_records", "send_change"]


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A requested change of a list: of one operation, with values or a file of values unless it is DELETE."""

    operation: ListOperation
    name: str
    values: list[str] | None = None
    file: Path | None = None
    kind: ListType | None = None

    def __post_init__(self) -> None:
        if (self.file is None) is not bool(self.values) and self.operation is not ListOperation.DELETE:
            raise InputInvalid("give values, or --file with one value per line")


def send_change(client: Client, change: RequestedChange, comment: str) -> tuple[Any, bool]:
    """Request a change, or a new list from `set`. Return the answer, None for a deleted list, and whether it waits."""
    content: dict[str, object] = {"comment": comment}
    if change.operation is not ListOperation.DELETE:
        content |= {"values": change.values} if change.file is None else {"content": read_file(change.file)}
    path, known = list_path(change.name), None
    if change.operation in (ListOperation.SET, ListOperation.DELETE):
        try:
            known = client.get(path)
        except NotFound:
            if change.operation is ListOperation.DELETE:
                raise
            kind = change.kind or ListType.LONG
            return client.change("POST", "/lists", content | {"name": change.name, "type": kind.value})
        if change.kind is not None and change.kind != known["type"]:
            raise InputInvalid(f"list {change.name} has values of the type {known['type']}: delete it first")
    revision = None if known is None else known["revision"]
    return client.change("POST", f"{path}/changes", content | {"operation": change.operation.value}, revision)


def planned_records(change: RequestedChange, log: RuleTimeline, limits: RuleLimits) -> Sequence[bytes]:
    """The records of a change. Raises InputInvalid, and RuleUnknown unless `set` creates the list."""
    name, operation = change.name, change.operation
    if operation is ListOperation.SET:
        in_force = log.lists.get(name)
        kind = change.kind or (ListType.LONG if in_force is None else in_force.type)
        return plan_set(in_force, name, kind, _values(change, kind), DEFAULT_SOURCE, limits)
    known = known_list(log, name)
    if operation is ListOperation.DELETE:
        return encode_list_records(name, operation, None, [], DEFAULT_SOURCE, limits.max_list_record_bytes)
    return plan_change(known, operation, _values(change, known.type), DEFAULT_SOURCE, limits)


def _values(change: RequestedChange, kind: ListType) -> list[ListValue]:
    if change.file is None:
        return parse_values(change.values or [], kind)
    found = read_values(change.file, sys.stdin.read() if str(change.file) == "-" else None)
    return parse_values([text for _, text in found], kind, [line for line, _ in found])


def list_path(name: str) -> str:
    """The path of a list in the API."""
    return f"/lists/{quote(name, safe='')}"


def known_list(log: RuleTimeline, name: str) -> ValueList:
    """The list in force. Raises RuleUnknown."""
    known = log.lists.get(name)
    if known is None:
        raise RuleUnknown(f"there is no list {name}: create it with fraud lists set {name}")
    return known
