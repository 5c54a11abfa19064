"""Estimates the state that a new rule would add, from the observed traffic.

A grouping keeps every transaction of its widest window plus the allowed lateness, once for all rules that share it.
COUNT_DISTINCT also keeps a multiset for each filter, window and set of fields: its view has room for one entry per
retained transaction. So a rule adds state only if it starts a grouping, widens one, or brings a new multiset. The marks
of alerts and the strings count with the retained state. A transaction's share of the strings is observed, because it
depends on the payments: a payment has a string id of its own, and a type in common with others. The estimate cannot
know how many marks a rule will add, because that depends on its alerts. Only the driver estimates. It
stores its refusals in the pin, where the workers read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from fraud_rules.engine.event_rate import EventRate
from fraud_rules.errors import Reason
from fraud_rules.model.predicate import Predicate
from fraud_rules.model.rule import AggregateFunction, Rule
from fraud_rules.model.ruleset import GroupingInForce, RuleSet

BYTES_PER_MARK: Final = 192
"""The bytes of one mark in a view: a row of seven words, an entry of the hash table, and the free room of both. With
ten new alerting keys per second, the marks were measured at 160 MB per day."""

BYTES_PER_DISTINCT: Final = 96
"""The bytes of a multiset in a view, per retained transaction: an entry of four words, its place in the hash table and
in the key's list, and the free room of all three. 300 multisets over 5,000 transactions of one key were measured at
144 MB."""

_LEAST_EVENTS: Final = 10_000
"""The strings of fewer transactions count as those of so many, because strings leave later than their transactions."""

_Multiset: TypeAlias = tuple[Predicate | None, int, tuple[str, ...]]
"""The filter, the window in ms and the fields of a COUNT_DISTINCT. Rules that have these in common share a multiset."""


@dataclass(frozen=True, slots=True)
class _GroupingNeed:
    """What the rules of a grouping keep: its widest window in ms, and its multisets."""

    widest_ms: int = 0
    multisets: frozenset[_Multiset] = frozenset()

    def with_rule(self, rule: Rule) -> _GroupingNeed:
        return _GroupingNeed(max(self.widest_ms, rule.reach_ms), self.multisets | _multisets_of([rule]))


@dataclass(frozen=True, slots=True)
class RetainedState:
    """The present state: the number of retained transactions, counted once per grouping, the number of marks, counted
    once per rule and key, and the bytes of the strings of both."""

    events: int = 0
    marks: int = 0
    string_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ObservedTraffic:
    """The input of an estimate: the event rate, the bytes of a retained transaction in one grouping without its
    strings, the allowed lateness, and the present state."""

    rate: EventRate
    row_bytes: int
    lateness_ms: int
    retained: RetainedState = RetainedState()

    @property
    def bytes_per_event(self) -> int:
        """The bytes of a retained transaction in one grouping, with its share of the strings."""
        return self.row_bytes + self.retained.string_bytes // max(self.retained.events, _LEAST_EVENTS)

    @property
    def retained_bytes(self) -> int:
        """The bytes of the retained transactions."""
        return self.retained.events * self.row_bytes + self.retained.string_bytes

    @property
    def mark_bytes(self) -> int:
        """The bytes of the retained marks."""
        return self.retained.marks * BYTES_PER_MARK

    def rows_kept(self, window_ms: int) -> int:
        """The number of transactions that a grouping with this widest window retains."""
        return self.rate.rows_in(window_ms + self.lateness_ms)


def estimate_state_bytes(window_ms: int, traffic: ObservedTraffic, multisets: int = 0) -> int:
    """The state of one grouping whose widest window is `window_ms`, with so many multisets, in bytes."""
    return traffic.rows_kept(window_ms) * (traffic.bytes_per_event + multisets * BYTES_PER_DISTINCT)


def over_budget(rule: Rule, in_force: RuleSet, traffic: ObservedTraffic, budget_bytes: int) -> Reason | None:
    """Return the reason why a rule is too expensive, or None.

    The budget limits the state of all groupings with the new rule in force: their retained or their expected state,
    whichever is larger, plus the marks, plus the state that the rule adds. A rule that adds no state passes even if the
    traffic has outgrown the budget, so that people can always edit, pause and narrow rules. A rule with `force` always
    passes.
    """
    before = _needs(in_force)
    after = _needs_with(rule, in_force, before)
    expected = _total_bytes(before, traffic)
    added = _total_bytes(after, traffic) - expected
    total = max(expected, traffic.retained_bytes) + traffic.mark_bytes + added
    if rule.force or added <= 0 or total <= budget_bytes:
        return None
    member = "windowSeconds" if "windowSeconds" in rule.document else "windowMinutes"
    message = (
        f"would keep about {_mebibytes(added)} MiB more ({traffic.rows_kept(rule.reach_ms):,} transactions in its "
        f"window), {_mebibytes(total)} MiB in all, over the budget of {_mebibytes(budget_bytes)} MiB; "
        f"shorten the window, use {_shareable(rule, before)} already in force, or set force: true"
    )
    return Reason(member, message)


def _needs(in_force: RuleSet) -> dict[tuple[str, ...], _GroupingNeed]:
    """The needs of the groupings in force."""
    return {fields: _need_of(grouping) for fields, grouping in in_force.groupings.items()}


_known_needs: dict[int, tuple[GroupingInForce, _GroupingNeed]] = {}
_CACHED_NEEDS: Final = 4096


def _need_of(grouping: GroupingInForce) -> _GroupingNeed:
    """The need of a grouping.

    The needs are cached by the ids of the groupings, because rule sets share the objects of unchanged groupings.
    Otherwise the estimates for many new rules would read all rules for each of them. An entry holds its grouping, so
    that no other object can get its id.
    """
    known = _known_needs.get(id(grouping))
    if known is None:
        if len(_known_needs) >= _CACHED_NEEDS:
            _known_needs.clear()
        need = _GroupingNeed(grouping.widest_window_ms, _multisets_of(each.rule for each in grouping.rules))
        known = _known_needs[id(grouping)] = grouping, need
    return known[1]


def _needs_with(
    rule: Rule, in_force: RuleSet, before: Mapping[tuple[str, ...], _GroupingNeed]
) -> dict[tuple[str, ...], _GroupingNeed]:
    """The needs with the new rule in place of the present rule of the same id."""
    needs = dict(before)
    known = in_force.rules.get(rule.rule_id)
    if known is not None:
        left = known.rule.grouping
        others = [other.rule for other in in_force.groupings[left].rules if other.rule.rule_id != rule.rule_id]
        del needs[left]
        if others:
            needs[left] = _GroupingNeed(max(each.reach_ms for each in others), _multisets_of(others))
    needs[rule.grouping] = needs.get(rule.grouping, _GroupingNeed()).with_rule(rule)
    return needs


def _multisets_of(rules: Iterable[Rule]) -> frozenset[_Multiset]:
    distinct = AggregateFunction.COUNT_DISTINCT
    return frozenset(
        (rule.filter, rule.window_ms, rule.unique) for rule in rules if rule.aggregate_function is distinct
    )


def _shareable(rule: Rule, before: Mapping[tuple[str, ...], _GroupingNeed]) -> str:
    """Name what the rule could share with rules in force to need less."""
    need = before.get(rule.grouping)
    only_multiset = need is not None and need.widest_ms >= rule.reach_ms
    return "the window, filter and fields of a COUNT_DISTINCT rule" if only_multiset else "a grouping"


def _total_bytes(needs: Mapping[tuple[str, ...], _GroupingNeed], traffic: ObservedTraffic) -> int:
    return sum(estimate_state_bytes(need.widest_ms, traffic, len(need.multisets)) for need in needs.values())


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f}"
