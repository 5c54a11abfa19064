"""Limits the groupings in force by the files that a worker may map into its memory.

A worker maps the views of all key groups, because Spark gives a task to any free worker. Each grouping state is a
mapping of its own (see `state.arrays`), and a clear doubles the states until the earlier ones are removed. Only the
driver decides. It stores its refusals in the pin, where the workers read them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from fraud_rules.errors import Reason
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import Grouping

LINUX_MAPPINGS: Final = 65_530
"""The default of vm.max_map_count."""

_RESERVED: Final = 15_000
"""The mappings that are left for the code of a worker, and for large arrays, which have files of their own."""


def over_mapping_limit(rule: Rule, groupings: Collection[Grouping], key_groups: int, mappings: int) -> Reason | None:
    """Return the reason why a worker could not map the views with the rule in force, or None.

    `groupings` are those in force. `mappings` is the number that the system allows a process. A rule of a grouping in
    force passes. `force` does not help, because the detector would end.
    """
    most = (mappings - _RESERVED) // (2 * key_groups)
    if rule.grouping in groupings or len(groupings) < most:
        return None
    return Reason(
        "groupingKeyNames",
        f"would be a grouping more than the {max(most, 0):,} that a worker can map in {key_groups:,} key groups; use a "
        f"grouping already in force, delete the rules of another one, or raise vm.max_map_count ({mappings:,}) on the "
        "driver's host and all worker hosts and start the detector again",
    )


def system_mappings() -> int:
    """The mappings that this host allows a process (vm.max_map_count)."""
    return int(Path("/proc/sys/vm/max_map_count").read_text(encoding="ascii"))
