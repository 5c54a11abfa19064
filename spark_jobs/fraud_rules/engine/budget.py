"""Estimates the state that a new rule would add, from the observed traffic.

A grouping keeps every transaction of its widest window plus the allowed lateness, once for all rules that share it. So
a rule adds state only if it starts a grouping or widens one. The marks of alerts count with the retained state. The
estimate cannot know how many marks a rule will add, because that depends on its alerts. Only the driver estimates. It
stores its refusals in the pin, where the workers read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fraud_rules.engine.event_rate import EventRate
from fraud_rules.errors import Reason
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleSet

BYTES_PER_MARK: Final = 192
"""The bytes of one mark in a view: a row of seven words, an entry of the hash table, and the free room of both. With
ten new alerting keys per second, the marks were measured at 160 MB per day."""


@dataclass(frozen=True, slots=True)
class ObservedTraffic:
    """The input of an estimate: the event rate, the bytes per retained transaction and grouping, the allowed lateness,
    the number of retained transactions, counted once per grouping, and the number of marks, counted once per rule and
    key."""

    rate: EventRate
    bytes_per_event: int
    lateness_ms: int
    retained_events: int = 0
    retained_marks: int = 0

    @property
    def retained_bytes(self) -> int:
        """The bytes of the retained transactions."""
        return self.retained_events * self.bytes_per_event

    @property
    def mark_bytes(self) -> int:
        """The bytes of the retained marks."""
        return self.retained_marks * BYTES_PER_MARK

    def rows_kept(self, window_ms: int) -> int:
        """The number of transactions that a grouping with this widest window retains."""
        return self.rate.rows_in(window_ms + self.lateness_ms)


def estimate_state_bytes(window_ms: int, traffic: ObservedTraffic) -> int:
    """The state of one grouping whose widest window is `window_ms`, in bytes."""
    return traffic.rows_kept(window_ms) * traffic.bytes_per_event


def over_budget(rule: Rule, in_force: RuleSet, traffic: ObservedTraffic, budget_bytes: int) -> Reason | None:
    """Return the reason why a rule is too expensive, or None.

    The budget limits the state of all groupings with the new rule in force: their retained or their expected state,
    whichever is larger, plus the marks, plus the state that the rule adds. A rule that adds no state passes even if the
    traffic has outgrown the budget, so that people can always edit, pause and narrow rules. A rule with `force` always
    passes.
    """
    before = {fields: grouping.widest_window_ms for fields, grouping in in_force.groupings.items()}
    expected = _total_bytes(before, traffic)
    added = _total_bytes(_widest_with(rule, in_force), traffic) - expected
    total = max(expected, traffic.retained_bytes) + traffic.mark_bytes + added
    if rule.force or added <= 0 or total <= budget_bytes:
        return None
    member = "windowSeconds" if "windowSeconds" in rule.document else "windowMinutes"
    message = (
        f"would keep about {_mebibytes(added)} MiB more ({traffic.rows_kept(rule.reach_ms):,} transactions in its "
        f"window), {_mebibytes(total)} MiB in all, over the budget of {_mebibytes(budget_bytes)} MiB; "
        "shorten the window, use a grouping already in force, or set force: true"
    )
    return Reason(member, message)


def _widest_with(rule: Rule, in_force: RuleSet) -> dict[tuple[str, ...], int]:
    """The widest window by grouping, with the new rule in place of the present rule of the same id."""
    widest = {fields: grouping.widest_window_ms for fields, grouping in in_force.groupings.items()}
    known = in_force.rules.get(rule.rule_id)
    if known is not None:
        left = known.rule.grouping
        others = [other.rule.reach_ms for other in in_force.groupings[left].rules if other.rule.rule_id != rule.rule_id]
        widest[left] = max(others, default=0)
        if not others:
            del widest[left]
    widest[rule.grouping] = max(widest.get(rule.grouping, 0), rule.reach_ms)
    return widest


def _total_bytes(widest: dict[tuple[str, ...], int], traffic: ObservedTraffic) -> int:
    return sum(estimate_state_bytes(window_ms, traffic) for window_ms in widest.values())


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f}"
