"""Turns the texts of a user into a change of a list, or rejects them with all reasons by field. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.errors import Invalid
from fraud_rules.codec.rules.collections.files import read_values
from fraud_rules.codec.rules.collections.lines import as_value, line_reasons
from fraud_rules.codec.rules.collections.lists import read_list_change, value_fault
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ListValue

__all__ = ["change_of_values", "check_expiry", "check_size", "input_of_lines", "list_change"]

_MOST_BYTES: Final = 1 << 30
_MOST_EXPIRY_MS: Final = 2**53


def input_of_lines(
    operation: ListOperation, content: str, value_type: ListType | None = None, expires_at_ms: int | None = None
) -> CollectionInput:
    """The change of an uploaded or pasted text: one value per line. Blank lines and lines from `#` on do not count."""
    found = read_values(Path("values"), content.removeprefix("\ufeff"))
    values, lines = tuple(text for _, text in found), tuple(line for line, _ in found)
    return CollectionInput(operation, values, value_type, expires_at_ms, lines)


def check_size(collection_input: CollectionInput, most_bytes: int) -> None:
    """Raise Invalid if the values of a change have too many bytes."""
    size = sum(len(text) + 1 for text in collection_input.values)
    if size > most_bytes:
        raise Invalid([Reason("values", f"have {size} bytes, at most {most_bytes} are allowed: send several changes")])


def list_change(
    name: str, collection_input: CollectionInput, value_type: ListType | None, source: str, limits: RuleLimits
) -> ListChange:
    """Build a change of any length from texts. Repeated values count once. Raises Invalid with all reasons."""
    values = None
    if collection_input.operation is not ListOperation.DELETE:
        values = [as_value(text, value_type) for text in dict.fromkeys(collection_input.values)]
    try:
        return _change(name, collection_input.operation, value_type, values, source, limits)
    except RuleRejected as rejected:
        raise Invalid(_by_line(rejected.reasons, collection_input, value_type, limits)) from rejected


def change_of_values(
    name: str, value_type: ListType, values: Sequence[ListValue], source: str, limits: RuleLimits
) -> ListChange:
    """Build the SET of valid values. Repeated values count once."""
    return _change(name, ListOperation.SET, value_type, values, source, limits)


def check_expiry(operation: ListOperation, expires_at_ms: int | None, now_ms: int) -> None:
    """Raise Invalid if the values would expire in the past, or if the operation adds no values."""
    if expires_at_ms is None:
        return
    if operation not in (ListOperation.SET, ListOperation.ADD):
        raise Invalid([Reason("expiresAt", "is for SET and ADD only")])
    if not now_ms < expires_at_ms <= _MOST_EXPIRY_MS:
        raise Invalid([Reason("expiresAt", "must be in the future")])


def _by_line(
    reasons: Sequence[Reason], collection_input: CollectionInput, value_type: ListType | None, limits: RuleLimits
) -> Sequence[Reason]:
    """Name the faults of values by their lines, if the values are from a text."""
    if not collection_input.lines:
        return reasons
    values = (as_value(text, value_type) for text in collection_input.values)
    placed = zip(collection_input.lines, values, strict=True)
    faults = [(line, fault) for line, value in placed if (fault := value_fault(value, value_type, limits))]
    return [*(each for each in reasons if each.field != "values"), *line_reasons(faults)] if faults else reasons


def _change(
    name: str,
    operation: ListOperation,
    value_type: ListType | None,
    values: Sequence[ListValue] | None,
    source: str,
    limits: RuleLimits,
) -> ListChange:
    """Build a change. Raises RuleRejected with all reasons."""
    members: dict[str, object] = {"listName": name, "listOperation": operation.value, "source": source}
    if value_type is not None:
        members["listType"] = value_type.value
    if values is not None:
        members["values"] = list(dict.fromkeys(values))
    # The bound on a record does not concern a change, which may consist of several records.
    return read_list_change(msgspec.json.encode(members), replace(limits, max_list_record_bytes=_MOST_BYTES))
