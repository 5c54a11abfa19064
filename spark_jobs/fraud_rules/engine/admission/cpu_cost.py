"""Estimates the CPU time that rules need for each transaction, and compares it with the CPU budget.

The estimate depends only on the rules, not on traffic or on the machine. So the driver admits the same rules in every
run, and the author of a rule can compute the cost beforehand. The constants are nanoseconds of one core of the machine
in docs/benchmarks.md, in large batches. Rules share work: each grouping, filter, condition and window, and each extreme
and multiset of distinct values, counts once. The construction of alerts does not count, because their number depends on
the traffic; a cool-down limits it. Pure, except `CpuLoad`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from fraud_rules.engine.window.aggregates import aggregate_of
from fraud_rules.errors import Reason
from fraud_rules.model.expressions.expression import Arithmetic, Constant, Expression, FieldRef, Negation
from fraud_rules.model.expressions.functions import FUNCTIONS, FunctionCall
from fraud_rules.model.expressions.lookups import ListMembership, MapLookup
from fraud_rules.model.expressions.own import OwnValue
from fraud_rules.model.expressions.predicate import And, Comparison, Membership, Not, Or
from fraud_rules.model.expressions.previous import PreviousValue
from fraud_rules.model.expressions.rollout import Rollout
from fraud_rules.model.rule import AggregateCondition, Baseline, Rule
from fraud_rules.model.ruleset import RuleInForce
from fraud_rules.model.window import Window

GROUPING_NS: Final = 1_500
"""The fan-out of a transaction to a grouping, the duplicate check, and the storage of its row."""

_WINDOW_NS: Final = 25
_CALENDAR_NS: Final = 25
_FILTER_TOTALS_NS: Final = 10
_SQUARE_TOTALS_NS: Final = 20
_EXTREME_NS: Final = 80
_DISTINCT_NS: Final = 300
_BASELINE_NS: Final = 40
_PREVIOUS_NS: Final = 450
"""The search of the previous payment among the rows of a filter and a window."""
_PREVIOUS_FIELD_NS: Final = 40
_SERIES_NS: Final = 40
"""The totals of a series, which no other rule shares, at the price of those of a filter."""
_OWN_LIMIT_NS: Final = 80
"""The limit of each row in the form in which the kernel compares with it, for a limit that is an expression."""

_OWN_VALUE_NS: Final = 80_000
"""The limit of a condition that reads the own aggregate. It is computed for each row whose own aggregate holds."""

_COMPARISON_NS: Final = 20
_FIELD_COMPARISON_NS: Final = 30
_LITERAL_NS: Final = 2
_LOOKUP_NS: Final = 100
_ROLLOUT_NS: Final = 500
_ARITHMETIC_NS: Final = 5
_DIVISION_NS: Final = 10

_Part: TypeAlias = tuple[Hashable, ...]
"""A part of the work that rules share: its kind, its grouping, and what distinguishes it from others of the kind."""


def estimate_cpu_ns(rule: Rule) -> int:
    """The CPU time that the rule needs for each transaction beside its grouping, if it shares no work with other rules,
    in ns."""
    return _evaluation_ns(rule) + sum(dict(_shared_parts(rule)).values()) - rule.roles * GROUPING_NS


class CpuLoad:
    """The estimated CPU time of rules for each transaction. It changes with the rules in force."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._users: Counter[_Part] = Counter()
        self._total_ns = 0

    @property
    def total_ns(self) -> int:
        """The CPU time of all rules for each transaction, in ns. Shared work counts once."""
        return self._total_ns

    def follow(self, in_force: Mapping[int, RuleInForce], changed: Iterable[int] | None = None) -> None:
        """Take the rules in force. `changed` has the ids of all rules that can differ since the last call; None means
        that any rule can."""
        for rule_id in {*self._rules, *in_force} if changed is None else changed:
            each = in_force.get(rule_id)
            self._replace(rule_id, None if each is None else each.rule)

    def total_with_ns(self, rule: Rule) -> int:
        """The total with the rule in place of the present rule of the same id, in ns."""
        present = self._rules.get(rule.rule_id)
        self._replace(rule.rule_id, rule)
        total_ns = self._total_ns
        self._replace(rule.rule_id, present)
        return total_ns

    def _replace(self, rule_id: int, rule: Rule | None) -> None:
        present = self._rules.pop(rule_id, None)
        if rule is not None:
            self._rules[rule_id] = rule
        if present is rule:
            return
        if present is not None:
            self._add(present, -1)
        if rule is not None:
            self._add(rule, 1)

    def _add(self, rule: Rule, users: int) -> None:
        self._total_ns += users * _evaluation_ns(rule)
        for part, cost_ns in _shared_parts(rule):
            before = self._users[part]
            after = before + users
            if not before or not after:
                self._total_ns += users * cost_ns
            if after:
                self._users[part] = after
            else:
                del self._users[part]


def over_cpu_budget(rule: Rule, load: CpuLoad, budget_ns: int) -> Reason | None:
    """Return the reason why a rule needs too much CPU time, or None.

    The budget limits the CPU time of all rules for each transaction, with the new rule in force. A rule that adds no
    cost passes even if the rules in force exceed the budget, so that people can always pause, edit and narrow rules. A
    rule with `force` always passes.
    """
    total_ns = load.total_with_ns(rule)
    added_ns = total_ns - load.total_ns
    if rule.force or added_ns <= 0 or total_ns <= budget_ns:
        return None
    return Reason(
        "aggregatorFunctionType",
        f"would need about {_microseconds(added_ns)} us of CPU time more for each transaction, "
        f"{_microseconds(total_ns)} us in all, over the budget of {_microseconds(budget_ns)} us; use the grouping, "
        "window and filter of a rule already in force, delete a rule, or set force: true",
    )


def _evaluation_ns(rule: Rule) -> int:
    """The work that no other rule shares. A paused rule is not evaluated, but its rows and totals are kept."""
    if not rule.evaluated:
        return 0
    compared_ns = sum(
        each.aggregate_function.traits.evaluation_ns + (0 if each.limit_expression is None else _OWN_LIMIT_NS)
        for each in rule.aggregates
    )
    return rule.roles * (compared_ns + (0 if rule.baseline is None else _BASELINE_NS))


def _shared_parts(rule: Rule) -> Iterator[tuple[_Part, int]]:
    """The parts of the rule's work that other rules of its grouping can share, each with its cost in ns: that of all
    rows of a transaction."""
    return ((part, rule.roles * cost_ns) for part, cost_ns in _parts_of_row(rule))


def _parts_of_row(rule: Rule) -> Iterator[tuple[_Part, int]]:
    """`_shared_parts` for one row."""
    fields = rule.grouping
    yield ("grouping", fields), GROUPING_NS
    if rule.window.is_long:
        yield ("series", fields, rule.rule_id), _SERIES_NS
    if rule.selection is not None:
        yield ("condition", fields, rule.selection), _expression_ns(rule.selection)
    if rule.previous_fields:
        yield ("previous", fields, rule.filter, rule.window), _PREVIOUS_NS
        for name in rule.previous_fields:
            yield ("previous field", fields, rule.filter, rule.window, name), _PREVIOUS_FIELD_NS
    for each in rule.aggregates:
        yield from _aggregate_parts(fields, each)
    if rule.baseline is not None:
        reach = rule.whole_window
        yield ("window", fields, reach), _window_ns(reach)
        yield from _source_parts(fields, rule.baseline, reach)


def _aggregate_parts(fields: tuple[str, ...], of: Rule | AggregateCondition) -> Iterator[tuple[_Part, int]]:
    """The parts of an aggregate and its limit."""
    yield ("window", fields, of.window), _window_ns(of.window)
    if of.limit_expression is not None:
        yield ("limit", fields, of.limit_expression), _expression_ns(of.limit_expression)
    if aggregate_of(of).is_distinct:
        yield ("distinct", fields, of.filter, of.window, of.unique), _DISTINCT_NS
    yield from _source_parts(fields, of, of.window)


def _window_ns(window: Window) -> int:
    """The search of a window's left end. The start of a calendar window is computed first."""
    return _WINDOW_NS if window.calendar is None else _WINDOW_NS + _CALENDAR_NS


def _source_parts(
    fields: tuple[str, ...], of: Rule | Baseline | AggregateCondition, window: Window
) -> Iterator[tuple[_Part, int]]:
    """The parts from which an aggregate is computed: its filter, and the totals or the tree of its field."""
    aggregate = aggregate_of(of)
    if of.filter is not None:
        yield ("filter", fields, of.filter), _expression_ns(of.filter) + _FILTER_TOTALS_NS
    if aggregate.extreme is not None:
        yield ("extreme", fields, aggregate.extreme, of.aggregate_field, of.filter, window), _EXTREME_NS
    elif aggregate.totals:
        cost_ns = _SQUARE_TOTALS_NS if aggregate.needs_squares else _FILTER_TOTALS_NS
        yield ("totals", fields, cost_ns, of.aggregate_field, of.filter), cost_ns


def _expression_ns(expression: Expression) -> int:
    """The evaluation of an expression for one row of a large batch."""
    return _own_ns(expression) + sum(map(_expression_ns, expression.operands))


def _own_ns(expression: Expression) -> int:
    """The evaluation of an expression without its operands."""
    match expression:
        case FieldRef() | PreviousValue() | Constant() | And() | Or() | Not():
            return 0
        case OwnValue():
            return _OWN_VALUE_NS
        case Arithmetic(operator="/"):
            return _DIVISION_NS
        case Arithmetic() | Negation():
            return _ARITHMETIC_NS
        case FunctionCall(name=name):
            return FUNCTIONS[name].cost_ns
        case Membership(literals=literals):
            return _COMPARISON_NS + _LITERAL_NS * len(literals)
        case Comparison(right=right) if not isinstance(right, Constant):
            return _FIELD_COMPARISON_NS
        case ListMembership() | MapLookup():
            return _LOOKUP_NS
        case Rollout():
            return _ROLLOUT_NS
        case _:
            return _COMPARISON_NS


def _microseconds(duration_ns: int) -> str:
    return f"{duration_ns / 1_000:,.3f}".rstrip("0").rstrip(".")
