"""Collects the measured CPU time of rules on the driver, and reports it from time to time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fraud_rules.logs.detector_status import RuleCpu
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.ruleset import RuleSet

INTERVAL_MS: Final = 10_000
"""The least time between two reports."""

_MOST_REPORTED: Final = 500
_MEMORY: Final = 200_000
"""The number of transactions over which an average extends. Older measurements fade."""


class RuleCosts:
    """The average CPU time of each version of a rule for each transaction of its grouping, since this start."""

    def __init__(self) -> None:
        # By version: the CPU time of the measured transactions in ns, and their number.
        self._sums: dict[int, tuple[float, float]] = {}
        self._due_ms: int | None = None

    def add(self, outputs: Iterable[KeyGroupOutput]) -> None:
        """Add the measurements of a batch."""
        for output in outputs:
            for cost in output.costs:
                spent_ns, transactions = self._sums.get(cost.version, (0.0, 0.0))
                spent_ns += cost.cpu_ns * cost.transactions
                transactions += cost.transactions
                kept = min(1.0, _MEMORY / transactions)
                self._sums[cost.version] = spent_ns * kept, transactions * kept

    def due_report(self, in_force: RuleSet, steady_ms: int) -> list[RuleCpu]:
        """The costs of the rules in force, the most expensive first, if a report is due; otherwise nothing.

        `steady_ms` is the time of the steady clock.
        """
        if not self._sums or (self._due_ms is not None and steady_ms < self._due_ms):
            return []
        self._due_ms = steady_ms + INTERVAL_MS
        versions = {each.version: rule_id for rule_id, each in in_force.rules.items()}
        self._sums = {version: sums for version, sums in self._sums.items() if version in versions}
        found = [
            RuleCpu(versions[version], version, round(spent_ns / transactions, 1))
            for version, (spent_ns, transactions) in self._sums.items()
        ]
        return sorted(found, key=lambda each: (-each.cpu_ns, each.rule_id))[:_MOST_REPORTED]
