"""When a rule's alerts are a flood, and when it is over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["FloodWatch", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A rule has begun to flood (`began`), or has ended; `per_minute` is how often it fired in the last minute."""

    rule_id: int
    began: bool
    per_minute: int


@dataclass(slots=True)
class FloodWatch:
    """A flood begins above `alerts_per_minute`, and ends at half of that: one alarm each, not one for every look."""

    alerts_per_minute: int
    flooding: set[int] = field(default_factory=set)

    def look(self, rates: Mapping[int, float]) -> Iterable[Turn]:
        """What has changed, by alerts of the last minute and rule. Rules that are not named have given none."""
        turns = []
        for rule_id, rate in rates.items():
            if rule_id not in self.flooding and rate > self.alerts_per_minute:
                turns.append(Turn(rule_id, began=True, per_minute=int(rate)))
        for rule_id in self.flooding:
            rate = rates.get(rule_id, 0.0)
            if rate <= self.alerts_per_minute / 2:
                turns.append(Turn(rule_id, began=False, per_minute=int(rate)))
        for turn in turns:
            (self.flooding.add if turn.began else self.flooding.discard)(turn.rule_id)
        return turns
