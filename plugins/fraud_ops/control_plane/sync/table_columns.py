"""Names the columns of an external table's row. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

from fraud_rules.errors import Reason, RuleRejected

__all__ = ["UNCHANGED", "members_in", "plain_name"]

UNCHANGED: Final = "__debezium_unavailable_value"
"""The text that Debezium writes for a long column that an update did not change."""

_ALIKE: Final = 0.85


def members_in(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The columns that are members, under the names of the members, without nulls.

    Case and underscores do not count: `RULE_ID` is `ruleId`. Further columns are omitted, because real tables have
    columns of their own, such as `updated_at`. Raises RuleRejected for a column that is nearly a member, because a
    misspelled `filter` must not be omitted.
    """
    known = {plain_name(name): name for name in names}
    found: dict[str, Any] = {}
    faults: list[Reason] = []
    for column, value in row.items():
        name = known.get(plain_name(column))
        if name is None:
            alike = get_close_matches(plain_name(column), known, n=1, cutoff=_ALIKE)
            faults += [Reason(column[:40], f"is not a member; rename the column {known[each]}") for each in alike]
        elif value is not None:
            found[name] = value
    if faults:
        raise RuleRejected(faults)
    return found


def plain_name(column: str) -> str:
    """The name without case and underscores, which databases change."""
    return column.replace("_", "").lower()
