"""Estimates the state that a new rule would add, from the observed traffic.

A grouping keeps every transaction of its widest window plus the allowed lateness, once for all rules that share it.
COUNT_DISTINCT also keeps a multiset for each filter, window and set of fields: its view has room for one entry per
retained transaction. A rule with a long window keeps sums of older transactions. The estimate counts one sum for each
transaction, because it cannot know how many share a step. So a rule adds state only if it starts a grouping, widens
one, or brings a new multiset or new sums.

The marks of alerts and the strings count with the retained state. A transaction's share of the strings is observed,
because it depends on the payments: a payment has a string id of its own, and a type in common with others. The estimate
cannot know how many marks a rule will add, because that depends on its alerts. Only the driver estimates. It stores its
refusals in the pin, where the workers read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fraud_rules.engine.admission.event_rate import EventRate
from fraud_rules.engine.window.aggregates import aggregate_of
from fraud_rules.errors import Reason
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import Grouping, RuleInForce
from fraud_rules.model.window import Window

BYTES_PER_MARK: Final = 192
"""The bytes of one mark in a view: a row of seven words, an entry of the hash table, and the free room of both. With
ten new alerting keys per second, the marks were measured at 160 MB per day."""

BYTES_PER_DISTINCT: Final = 96
"""The bytes of a multiset in a view, per retained transaction: an entry of four words, its place in the hash table and
in the key's list, and the free room of all three. 300 multisets over 5,000 transactions of one key were measured at
144 MB."""

BYTES_PER_SUM: Final = 72
"""The bytes of a sum in a view: a row of the pool, with five totals or extremes of its own, and the free room."""

_LEAST_EVENTS: Final = 10_000
"""The strings of fewer transactions count as those of so many, because strings leave later than their transactions."""

_Multiset: TypeAlias = tuple[Predicate | None, Window, tuple[str, ...]]
"""The filter, the window and the fields of a COUNT_DISTINCT. Rules that have these in common share a multiset."""


@dataclass(frozen=True, slots=True)
class _GroupingNeed:
    """What the rules of a grouping keep: its widest window in ms, the number of its multisets, the rows of a
    transaction, one for each role of an entity, and the reach in ms of each rule with sums, once for each of its
    aggregates."""

    widest_ms: int
    multisets: int
    roles: int
    sum_reaches_ms: tuple[int, ...]


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


class StateLoad:
    """What the groupings of the rules in force keep. It changes with these rules."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._users: dict[Grouping, _Users] = {}

    def follow(self, in_force: Mapping[int, RuleInForce], changed: Iterable[int] | None = None) -> None:
        """Take the rules in force. `changed` has the ids of all rules that can differ since the last call; None means
        that any rule can."""
        for rule_id in {*self._rules, *in_force} if changed is None else changed:
            each = in_force.get(rule_id)
            self._replace(rule_id, None if each is None else each.rule)

    @property
    def groupings(self) -> Collection[Grouping]:
        """The groupings in force."""
        return self._users.keys()

    def need_of(self, fields: Grouping) -> _GroupingNeed | None:
        """The need of a grouping; None without rules."""
        users = self._users.get(fields)
        return None if users is None else users.need()

    def total_bytes(self, traffic: ObservedTraffic) -> int:
        """The expected state of all groupings."""
        return sum(_bytes_of(users.need(), traffic) for users in self._users.values())

    def added_bytes(self, rule: Rule, traffic: ObservedTraffic) -> int:
        """The state that all groupings keep more with the rule in place of the present rule of the same id."""
        present = self._rules.get(rule.rule_id)
        changed = {rule.grouping} if present is None else {rule.grouping, present.grouping}
        before = sum(_bytes_of(self.need_of(fields), traffic) for fields in changed)
        self._replace(rule.rule_id, rule)
        after = sum(_bytes_of(self.need_of(fields), traffic) for fields in changed)
        self._replace(rule.rule_id, present)
        return after - before

    def _replace(self, rule_id: int, rule: Rule | None) -> None:
        present = self._rules.pop(rule_id, None)
        if rule is not None:
            self._rules[rule_id] = rule
        if present is rule:
            return
        if present is not None:
            users = self._users[present.grouping]
            users.add(present, -1)
            if not users.reaches_ms:
                del self._users[present.grouping]
        if rule is not None:
            self._users.setdefault(rule.grouping, _Users()).add(rule, 1)


class _Users:
    """The rules of a grouping that use each reach and each multiset."""

    def __init__(self) -> None:
        self._roles = 1
        self.reaches_ms: Counter[int] = Counter()
        self._sum_reaches_ms: Counter[int] = Counter()
        self._multisets: Counter[_Multiset] = Counter()
        self._need: _GroupingNeed | None = None

    def add(self, rule: Rule, count: int) -> None:
        """Add a rule, or remove it with a `count` of -1."""
        self._need = None
        self._roles = rule.roles
        _count(self.reaches_ms, rule.retained_ms, count)
        if rule.window.is_long:
            _count(self._sum_reaches_ms, rule.whole_window.reach_ms, count * (1 if rule.baseline is None else 2))
        for each in rule.aggregates:
            if aggregate_of(each).is_distinct:
                _count(self._multisets, (each.filter, each.window, each.unique), count)

    def need(self) -> _GroupingNeed:
        if self._need is None:
            sum_reaches_ms = tuple(self._sum_reaches_ms.elements())
            self._need = _GroupingNeed(max(self.reaches_ms), len(self._multisets), self._roles, sum_reaches_ms)
        return self._need


def _count(counter: Counter[Any], item: Hashable, count: int) -> None:
    counter[item] += count
    if not counter[item]:
        del counter[item]


def over_budget(rule: Rule, load: StateLoad, traffic: ObservedTraffic, budget_bytes: int) -> Reason | None:
    """Return the reason why a rule is too expensive, or None.

    The budget limits the state of all groupings with the new rule in force: their retained or their expected state,
    whichever is larger, plus the marks, plus the state that the rule adds. A rule that adds no state passes even if the
    traffic has outgrown the budget, so that people can always edit, pause and narrow rules. A rule with `force` always
    passes.
    """
    added = load.added_bytes(rule, traffic)
    if rule.force or added <= 0:
        return None
    total = max(load.total_bytes(traffic), traffic.retained_bytes) + traffic.mark_bytes + added
    if total <= budget_bytes:
        return None
    member = "windowSeconds" if "windowSeconds" in rule.document else "windowMinutes"
    message = (
        f"would keep about {_mebibytes(added)} MiB more ({traffic.rows_kept(rule.reach_ms):,} transactions in its "
        f"window), {_mebibytes(total)} MiB in all, over the budget of {_mebibytes(budget_bytes)} MiB; "
        f"shorten the window, use {_shareable(rule, load.need_of(rule.grouping))} already in force, or set force: true"
    )
    return Reason(member, message)


def _bytes_of(need: _GroupingNeed | None, traffic: ObservedTraffic) -> int:
    if need is None:
        return 0
    sums = sum(traffic.rows_kept(reach_ms) for reach_ms in need.sum_reaches_ms)
    rows_bytes = estimate_state_bytes(need.widest_ms, traffic, need.multisets)
    return need.roles * (rows_bytes + sums * BYTES_PER_SUM)


def _shareable(rule: Rule, need: _GroupingNeed | None) -> str:
    """Name what the rule could share with rules in force to need less."""
    only_multiset = need is not None and need.widest_ms >= rule.retained_ms
    return "the window, filter and fields of a COUNT_DISTINCT rule" if only_multiset else "a grouping"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f}"
