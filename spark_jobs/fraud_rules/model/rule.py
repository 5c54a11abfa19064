"""A rule, and the changes that a rule record can make. Only `codec.rules` builds these objects, after validation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.decision import DEFAULT_WEIGHT
from fraud_rules.model.expressions.expression import Expression
from fraud_rules.model.expressions.lookups import ListMembership, Lookup, MapLookup
from fraud_rules.model.expressions.predicate import And, Predicate
from fraud_rules.model.expressions.rollout import Rollout
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionName, ListChange, ListType
from fraud_rules.model.value_map import MapChange, MapType
from fraud_rules.model.window import Window

__all__ = [
    "AggregateCondition",
    "Baseline",
    "Condition",
    "Control",
    "ControlType",
    "LogChange",
    "NamedRule",
    "Operator",
    "PreviousRows",
    "Rule",
    "RuleAction",
    "RuleChange",
    "RuleDeletion",
    "RuleLimits",
    "RuleState",
]


class RuleState(StrEnum):
    """The state of a rule in force.

    A `PAUSE` rule is not evaluated. Alerts of `SHADOW` rules go to their own topic. A `SIGNAL` rule is evaluated, but
    never alerts.
    """

    ACTIVE = "ACTIVE"
    PAUSE = "PAUSE"
    SHADOW = "SHADOW"
    SIGNAL = "SIGNAL"


class Operator(StrEnum):
    """The comparison of the aggregate with the limit. Its value is the symbol."""

    EQUAL = "="
    NOT_EQUAL = "!="
    GREATER_EQUAL = ">="
    LESS_EQUAL = "<="
    GREATER = ">"
    LESS = "<"


class RuleAction(StrEnum):
    """The consequence of an alert. `RESTRICT` also writes a restriction for the grouping key."""

    ALERT = "ALERT"
    RESTRICT = "RESTRICT"


class ControlType(StrEnum):
    """The type of a control: a record of the rule log that concerns all rules or all state."""

    CLEAR_STATE_ALL = "CLEAR_STATE_ALL"
    CLEAR_STATE_ALL_STOP = "CLEAR_STATE_ALL_STOP"
    DELETE_RULES_ALL = "DELETE_RULES_ALL"
    EXPORT_RULES_CURRENT = "EXPORT_RULES_CURRENT"

    @property
    def clears_state(self) -> bool:
        """Whether the control is a clear: no later window counts a transaction that arrived before it."""
        return self in (ControlType.CLEAR_STATE_ALL, ControlType.CLEAR_STATE_ALL_STOP)


class _ComparedAggregate:
    """An aggregate that is compared with a limit: the rule's own, or that of a condition."""

    __slots__ = ()

    aggregate_function: AggregateFunction
    aggregate_field: str | None
    unique: tuple[str, ...]
    limit: Decimal | Expression
    filter: Predicate | None

    @property
    def aggregates_ones(self) -> bool:
        """Whether the aggregated field is 1 in every row: AVG, MIN or MAX of `COUNT_FLINK` (Flink demo)."""
        return self.aggregate_function.needs_field and self.aggregate_field is None

    @property
    def limit_expression(self) -> Expression | None:
        """The limit if it is an expression. A rule with one has no baseline."""
        return self.limit if isinstance(self.limit, Expression) else None

    @property
    def limit_number(self) -> Decimal | None:
        """The limit if it is a number."""
        return self.limit if isinstance(self.limit, Decimal) else None

    @property
    def limit_text(self) -> str:
        """The limit as text: a number without an exponent, or the expression."""
        return str(self.limit) if self.limit_number is None else f"{self.limit_number:f}"

    @property
    def aggregate_fields(self) -> frozenset[str]:
        """The schema fields that the aggregate, its filter and its limit read."""
        aggregated = {self.aggregate_field} if self.aggregate_field is not None else set()
        read = [part.fields for part in (self.filter, self.limit_expression) if part is not None]
        return frozenset(self.unique).union(aggregated, *read)


@dataclass(frozen=True, slots=True)
class AggregateCondition(_ComparedAggregate):
    """A condition beside the rule's own aggregate: another aggregate over the grouping of the rule, with its own
    window, filter and limit. The fields have the meanings of those of `Rule`."""

    aggregate_function: AggregateFunction
    aggregate_field: str | None
    unique: tuple[str, ...]
    operator: Operator
    limit: Decimal | Expression
    window: Window
    filter: Predicate | None = None


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A condition that another rule, of any grouping, holds for the same transaction."""

    rule_id: int


Condition: TypeAlias = AggregateCondition | NamedRule


@dataclass(frozen=True, slots=True)
class Baseline:
    """The past of a grouping key that a rule compares its aggregate with: the `window_ms` right before its window.

    `filter` selects the rows, and `aggregate_field` is None for COUNT and for a field of ones. An evaluation needs at
    least `min_count` rows. With `deviations`, the rule's limit counts standard deviations above or below the mean;
    otherwise the limit is a factor.
    """

    window_ms: int
    aggregate_function: AggregateFunction
    aggregate_field: str | None
    filter: Predicate | None = None
    min_count: int = 1
    deviations: bool = False

    @property
    def aggregates_ones(self) -> bool:
        """Whether the aggregated field is 1 in every row."""
        return self.aggregate_function.needs_field and self.aggregate_field is None

    @property
    def is_proportional(self) -> bool:
        """Whether the value grows with the length of the baseline, so that the comparison scales it to the window."""
        return self.aggregate_function.traits.is_total

    @property
    def fields(self) -> frozenset[str]:
        """The schema fields that the baseline reads."""
        aggregated = frozenset() if self.aggregate_field is None else frozenset({self.aggregate_field})
        return aggregated if self.filter is None else aggregated | self.filter.fields


@dataclass(frozen=True, slots=True)
class PreviousRows:
    """The rows among which a rule finds the previous payment of a key: those in its window that pass its filter."""

    filter: Predicate | None
    window: Window


@dataclass(frozen=True, slots=True)
class Rule(_ComparedAggregate):
    """One valid rule.

    `grouping` and `unique` hold sorted canonical field names. The sorted names identify a grouping. An empty grouping
    has one key for all transactions. COUNT_DISTINCT counts the distinct values of the `unique` fields.
    `aggregate_field` is None for the three counts, and for a field of ones (`aggregates_ones`). `filter` selects the
    rows of a `window`. `when` selects the transactions that are evaluated; without it, these are the rows that pass the
    filter. `limit` is a number, or an expression that is computed for each evaluated transaction; if it is null, the
    condition does not hold. `rollout` restricts the evaluation to a share of the keys. `roles` is the largest number of
    rows that a transaction has in the grouping: that of the entity's roles. `source` names the writer of the rule
    record. `force` admits a rule over a budget. An alert adds `weight` to the score of its transaction's decision.
    `warm_up` requests the transactions before the rule (see `model.warm_up`). A rule with a long window keeps single
    rows for `detail_ms` only, and sums of the older ones. `document` is the rule record, ready for
    JSON: without null members, whole numbers as integers, and other numbers as `Decimal`. Alerts quote the document.

    The own aggregate and the `conditions` are one evaluation: the rule holds if its own aggregate meets the limit, and
    at least `required` conditions hold; 0 means that none may hold. If only the conditions decide, `has_aggregate` is
    False, and the own aggregate is COUNT >= 0 over a window of no length, which always holds.
    """

    rule_id: int
    state: RuleState
    grouping: tuple[str, ...]
    aggregate_function: AggregateFunction
    aggregate_field: str | None
    unique: tuple[str, ...]
    operator: Operator
    limit: Decimal | Expression
    window: Window
    cooldown_ms: int | None = None
    action: RuleAction = RuleAction.ALERT
    filter: Predicate | None = None
    when: Predicate | None = None
    baseline: Baseline | None = None
    conditions: tuple[Condition, ...] = ()
    required: int = 0
    has_aggregate: bool = True
    rollout: Rollout | None = None
    roles: int = 1
    source: str | None = None
    force: bool = False
    weight: int = DEFAULT_WEIGHT
    warm_up: bool = False
    detail_ms: int = 0
    document: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def whole_window(self) -> Window:
        """The window, and the baseline before it."""
        if self.baseline is None:
            return self.window
        return replace(self.window, reach_ms=self.window.reach_ms + self.baseline.window_ms)

    @property
    def reach_ms(self) -> int:
        """How far before a transaction its evaluation reads at most: the window, the baseline before it and the part of
        a step, or the window of a condition."""
        own_ms = self.whole_window.reach_ms + self.window.step_ms - 1
        return max(own_ms, *(each.window.reach_ms for each in self.aggregate_conditions), 0)

    @property
    def retained_ms(self) -> int:
        """How long the rule keeps single rows."""
        own_ms = self.whole_window.reach_ms
        if self.window.is_long:
            own_ms = min(own_ms, self.detail_ms)
        return max(own_ms, *(each.window.reach_ms for each in self.aggregate_conditions), 0)

    @property
    def series_members(self) -> Hashable:
        """The members that decide what the sums of a long window contain. Another value begins a series anew; None for
        a rule without sums."""
        if not self.window.is_long:
            return None
        return self.filter, self.aggregate_field, self.aggregate_function, self.window.step_ms, self.baseline

    @property
    def evaluated(self) -> bool:
        """Whether the engine evaluates the rule: all states but `PAUSE`."""
        return self.state is not RuleState.PAUSE

    @property
    def shadow(self) -> bool:
        """Whether alerts of the rule go to `shadow-alerts` only."""
        return self.state is RuleState.SHADOW

    @property
    def alerts(self) -> bool:
        """Whether the rule alerts where it holds: all states but `PAUSE` and `SIGNAL`."""
        return self.state not in (RuleState.PAUSE, RuleState.SIGNAL)

    @property
    def aggregates(self) -> tuple[Rule | AggregateCondition, ...]:
        """The aggregates of an evaluation: the own one, then those of the conditions."""
        return (self, *self.aggregate_conditions)

    @property
    def aggregate_conditions(self) -> tuple[AggregateCondition, ...]:
        """The conditions that are aggregates, in order."""
        return tuple(each for each in self.conditions if isinstance(each, AggregateCondition))

    @property
    def named_rules(self) -> tuple[int, ...]:
        """The ids of the rules whose outcomes are conditions, in order."""
        return tuple(each.rule_id for each in self.conditions if isinstance(each, NamedRule))

    @property
    def selection(self) -> Predicate | None:
        """The transactions that are evaluated: those of `when`, or else of the filter, with a key of the rollout. None
        for a rule without `when` and rollout: its filter selects them."""
        selected = self.filter if self.when is None else self.when
        if self.rollout is None or selected is None:
            return self.when or self.rollout
        items = selected.items if isinstance(selected, And) else (selected,)
        return And((self.rollout, *items))

    @property
    def lists(self) -> Mapping[str, ListType]:
        """The lists that the rule names, by name, with the type that the rule needs."""
        return {each.name: each.type for _, each in self.lookups if isinstance(each, ListMembership)}

    @property
    def maps(self) -> Mapping[str, MapType]:
        """The maps that the rule names, by name, with the types that the rule needs."""
        return {each.name: each.type for _, each in self.lookups if isinstance(each, MapLookup)}

    @property
    def collections(self) -> frozenset[CollectionName]:
        """The lists and maps that the rule names."""
        return frozenset(each.collection for _, each in self.lookups)

    @property
    def lookups(self) -> list[tuple[str, Lookup]]:
        """The look-ups in lists and maps, each with the member of the rule that has it."""
        return [(member, each) for member, expression in self.judged_once for each in expression.lookups]

    @property
    def judged_once(self) -> tuple[tuple[str, Expression], ...]:
        """The members with an expression that is computed once for a transaction, so that it may look values up."""
        limits = (
            (f"conditions[{i}].limit", each.limit_expression)
            for i, each in enumerate(self.conditions)
            if isinstance(each, AggregateCondition)
        )
        members = (("when", self.when), ("limit", self.limit_expression), *limits)
        return tuple((member, expression) for member, expression in members if expression is not None)

    @property
    def previous_fields(self) -> tuple[str, ...]:
        """The fields of the previous payment that the rule reads, in order of name."""
        return tuple(sorted({name for _, expression in self.judged_once for name in expression.previous_fields}))

    def previous_rows(self, expression: Expression) -> PreviousRows | None:
        """The rows among which an expression of the rule finds the previous payment; None if it reads none."""
        return PreviousRows(self.filter, self.window) if expression.previous_fields else None

    @property
    def fields(self) -> frozenset[str]:
        """All schema fields that the rule reads."""
        compared = frozenset() if self.baseline is None else self.baseline.fields
        evaluated = frozenset() if self.when is None else self.when.fields
        return frozenset(self.grouping).union(compared, evaluated, *(each.aggregate_fields for each in self.aggregates))


@dataclass(frozen=True, slots=True)
class RuleDeletion:
    """The deletion of a rule. The deletion of an unknown rule id changes nothing."""

    rule_id: int


@dataclass(frozen=True, slots=True)
class Control:
    """A control, such as CLEAR_STATE_ALL. It concerns all rules or all state."""

    type: ControlType


RuleChange: TypeAlias = Rule | RuleDeletion | Control
LogChange: TypeAlias = RuleChange | ListChange | MapChange
"""The change that a record of the rule log makes."""
