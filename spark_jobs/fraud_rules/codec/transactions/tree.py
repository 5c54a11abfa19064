"""Records as trees of decoded values, and the values at the places that a schema declares.

A tree consists of dicts, lists, str, bool and None. A number of a JSON text is a `Number` with its exact text. Other
formats also have int, Decimal, bytes and `EpochMs`.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias

import msgspec

from fraud_rules.codec.nesting import MAX_DEPTH, is_deep
from fraud_rules.codec.transactions.field_value import Number, printable
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import Path, path_text

Tree: TypeAlias = object

ABSENT: Final = object()
"""The value of a place that a record does not have."""

decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Splits a JSON object into its undecoded members. It keeps the last of several members with the same name."""


class _Repeating(dict[str, object]):
    """An object of which some members occur more than once, with the names of these."""

    repeated: frozenset[str] = frozenset()


def parse_object(body: bytes, text: str) -> dict[str, object]:
    """Parse a JSON object, which is given as bytes and as text. Raises RecordRejected."""
    if is_deep(text):
        raise RecordRejected("too_deep", f"nested deeper than {MAX_DEPTH}")
    try:
        # msgspec decides which texts are well-formed, as in the quick reader. Python's parser accepts some more.
        decode_members(body)
        tree = json.loads(text, object_pairs_hook=_object, parse_int=Number, parse_float=Number)
    except (msgspec.DecodeError, json.JSONDecodeError) as error:
        raise RecordRejected("malformed_json", printable(str(error))) from None
    return dict(tree) if type(tree) is dict else tree


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    names = [name for name, _ in pairs]
    repeating = _Repeating(members)
    repeating.repeated = frozenset(name for name in members if names.count(name) > 1)
    return repeating


def member_of(tree: dict[str, object], name: str) -> object:
    """The member with this name, ABSENT without one. Raises RecordRejected if it occurs more than once."""
    if isinstance(tree, _Repeating) and name in tree.repeated:
        raise RecordRejected("duplicate_field", printable(f"member {name!r} occurs twice"))
    return tree.get(name, ABSENT)


def value_at(tree: object, path: Path, field: str) -> object:
    """The value at a path. ABSENT if the record ends before it, or has a null on the way to it.

    Raises RecordRejected for a place of another shape: a member of a number, an element of an object.
    """
    for depth, part in enumerate(path):
        if tree is None or tree is ABSENT:
            return ABSENT
        if isinstance(part, str) and isinstance(tree, dict):
            tree = member_of(tree, part)
        elif isinstance(part, int) and isinstance(tree, list):
            tree = tree[part] if part < len(tree) else ABSENT
        else:
            expected = "an object" if isinstance(part, str) else "an array"
            place = path_text(path[:depth]) or "the record"
            raise RecordRejected(f"wrong_shape:{field}", printable(f"{place} is {_shape(tree)}, not {expected}"))
    return tree


def _shape(tree: object) -> str:
    if isinstance(tree, dict):
        return "an object"
    return "an array" if isinstance(tree, list) else f"the value {tree}"
