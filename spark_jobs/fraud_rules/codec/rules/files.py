"""Reads files of rules: JSON, YAML, or the one-line text form; one rule, a list of rules, or `{rules: [...]}`.

A file is split into records for the rule log, each with its place in the file. `codec` validates them. Numbers
keep their digits: `limit: 0.30` is the decimal 0.30 in YAML too, not a float near it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.errors import InputInvalid
from fraud_rules.runtime.safe_text import quote

MAX_FILE_BYTES = 16_777_216

YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,63})(\.[0-9]{1,64})?([eE][+-]?[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RuleFileRecord:
    """One record to append to the rule log, and its origin (`seed.yaml, rule 2`)."""

    where: str
    value: bytes


def read_rule_file(path: Path) -> tuple[RuleFileRecord, ...]:
    """Read every record of a file, in order. Raises `InputInvalid` for a file that is unreadable or has no rules."""
    return read_rule_text(path, read_file_text(path))


def read_rule_text(named: Path, text: str, noun: str = "rule") -> tuple[RuleFileRecord, ...]:
    """Read every record of a text as if it were the file `named`. Its places name the records by `noun`.

    Raises `InputInvalid`, as `read_rule_file` does.
    """
    try:
        values = list(_records(named.suffix, text))
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise InputInvalid(f"{named}: {' '.join(str(error).split())}") from error
    if not values:
        raise InputInvalid(f"{named}: holds no {noun}s")
    return tuple(RuleFileRecord(f"{named.name}, {noun} {place}", value) for place, value in enumerate(values, 1))


def read_file_text(path: Path) -> str:
    """The text of a file. Raises `InputInvalid` for a file that is unreadable or too large."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputInvalid(f"{path}: is larger than {MAX_FILE_BYTES} bytes")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputInvalid(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _records(suffix: str, text: str) -> Iterator[bytes]:
    """Split a file's text into records. Raises ValueError, TypeError or YAMLError for content that JSON cannot hold."""
    if suffix in YAML_SUFFIXES:
        yield from _encode_rules(yaml.load(text, _ExactLoader))  # noqa: S506 - a SafeLoader, stricter
    elif text.lstrip().startswith(("{", "[")):
        yield from _json_records(text)
    else:
        lines = (line.strip() for line in text.splitlines())
        yield from (line.encode() for line in lines if line and not line.startswith("#"))


def _json_records(text: str) -> Iterator[bytes]:
    """Split JSON values that follow one another, as in JSON lines. A rule outside a list keeps its exact text."""
    position = 0
    while rest := text[position:].lstrip():
        position = len(text) - len(rest)
        value, end = _EXTENT.raw_decode(text, position)
        if isinstance(value, dict) and set(value) != {"rules"}:
            yield text[position:end].encode()
        else:
            yield from _encode_rules(_EXACT.decode(text[position:end]))
        position = end


def _encode_rules(loaded: object) -> Iterator[bytes]:
    """Encode the rules of a decoded file: one rule, a list, or the rules under `rules`."""
    if isinstance(loaded, dict) and set(loaded) == {"rules"}:
        loaded = loaded["rules"]
    documents = loaded if isinstance(loaded, list) else [loaded]
    for place, document in enumerate(documents, 1):
        if not isinstance(document, Mapping) or not all(isinstance(name, str) for name in document):
            raise ValueError(f"rule {place} is not a mapping of members")
        yield encode_document(document)


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{quote(next(name for name in names if names.count(name) > 1))} is given twice")
    return members


def _number(text: str) -> int | Decimal:
    """Parse a number exactly. Raises ValueError for numbers that JSON lacks (`0x1F`, `1_000`, `.inf`) or huge ones."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{quote(text)} is not a number that a rule can hold; to use it as text, quote it")
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)


_EXTENT = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
_EXACT = json.JSONDecoder(
    object_pairs_hook=_unique_members, parse_float=_number, parse_int=_number, parse_constant=_number
)


class _ExactLoader(yaml.SafeLoader):
    """Loads YAML's safe types, with exact numbers and dates as text. It rejects repeated keys and aliases, because
    aliases can expand without end."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("holds a YAML alias (*name); write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        pairs = [(str(key.value), value) for key, value in node.value]
        _unique_members(pairs)
        return super().construct_mapping(node, deep)


def _construct_number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int | Decimal:
    return _number(str(loader.construct_scalar(node)))


def _construct_text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_ExactLoader.add_constructor("tag:yaml.org,2002:int", _construct_number)
_ExactLoader.add_constructor("tag:yaml.org,2002:float", _construct_number)
_ExactLoader.add_constructor("tag:yaml.org,2002:timestamp", _construct_text)
