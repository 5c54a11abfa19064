"""Turns the texts of a user into a change of a list, or rejects them with all reasons by field. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from fraud_ops.control_plane.domain.errors import Invalid
from fraud_ops.control_plane.domain.list_models import ListInput
from fraud_rules.codec.rules.list_files import read_values
from fraud_rules.codec.rules.lists import read_list_change
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ListValue

__all__ = ["check_expiry", "check_size", "list_change", "values_of_lines"]

_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_MOST_BYTES: Final = 1 << 30
_MOST_EXPIRY_MS: Final = 2**53


def values_of_lines(content: str) -> tuple[str, ...]:
    """The values of an uploaded or pasted text: one per line. Blank lines and lines from `#` on do not count."""
    return tuple(read_values(Path("values"), content.removeprefix("\ufeff")))


def check_size(list_input: ListInput, most_bytes: int) -> None:
    """Raise Invalid if the values of a change have too many bytes."""
    size = sum(len(text) + 1 for text in list_input.values)
    if size > most_bytes:
        raise Invalid([Reason("values", f"have {size} bytes, at most {most_bytes} are allowed: send several changes")])


def list_change(
    name: str, list_input: ListInput, value_type: ListType | None, source: str, limits: RuleLimits
) -> ListChange:
    """Build a change of any length from texts. Repeated values count once. Raises Invalid with all reasons."""
    members: dict[str, object] = {"listName": name, "listOperation": list_input.operation.value, "source": source}
    if value_type is not None:
        members["listType"] = value_type.value
    if list_input.operation is not ListOperation.DELETE:
        members["values"] = _values(list_input.values, value_type)
    try:
        # The bound on a record does not concern a change, which may consist of several records.
        return read_list_change(msgspec.json.encode(members), replace(limits, max_list_record_bytes=_MOST_BYTES))
    except RuleRejected as rejected:
        raise Invalid(rejected.reasons) from rejected


def check_expiry(operation: ListOperation, expires_at_ms: int | None, now_ms: int) -> None:
    """Raise Invalid if the values would expire in the past, or if the operation adds no values."""
    if expires_at_ms is None:
        return
    if operation not in (ListOperation.SET, ListOperation.ADD):
        raise Invalid([Reason("expiresAt", "is for SET and ADD only")])
    if not now_ms < expires_at_ms <= _MOST_EXPIRY_MS:
        raise Invalid([Reason("expiresAt", "must be in the future")])


def _values(texts: Sequence[str], value_type: ListType | None) -> list[ListValue]:
    """Convert texts. A text that is no whole number stays a text, so that the record is rejected with its place."""
    distinct = list(dict.fromkeys(texts))
    if value_type is ListType.STRING:
        return list(distinct)
    return list(dict.fromkeys(int(text) if _LONG.fullmatch(text) else text for text in distinct))
