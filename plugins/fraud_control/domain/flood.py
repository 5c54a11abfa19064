"""Decides when a rule's alerts become a flood and when the flood ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FloodChange:
    """A flood of a rule began (`began`) or ended; `per_minute` is the number of its alerts in the last minute."""

    rule_id: int
    began: bool
    per_minute: int


@dataclass(slots=True)
class FloodWatch:
    """A flood begins above `alerts_per_minute` and ends at half of that, so that a flood raises one alarm only."""

    alerts_per_minute: int
    flooding: set[int] = field(default_factory=set)

    def update(self, rates: Mapping[int, float]) -> Iterable[FloodChange]:
        """List the floods that began or ended, from each rule's alerts of the last minute. An absent rule has none."""
        changes = []
        for rule_id, rate in rates.items():
            if rule_id not in self.flooding and rate > self.alerts_per_minute:
                changes.append(FloodChange(rule_id, began=True, per_minute=int(rate)))
        for rule_id in self.flooding:
            rate = rates.get(rule_id, 0.0)
            if rate <= self.alerts_per_minute / 2:
                changes.append(FloodChange(rule_id, began=False, per_minute=int(rate)))
        for change in changes:
            (self.flooding.add if change.began else self.flooding.discard)(change.rule_id)
        return changes
