"""Plans the records that change a list. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fraud_rules.codec.rules.collections.lists import encode_list_records
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import ListOperation, ListType, ListValue, ValueList

__all__ = ["plan_change", "plan_set"]


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
