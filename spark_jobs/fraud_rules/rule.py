"""A rule and the changes a rule record can make. Valid once built: `rule_codec` is the only way in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from fraud_rules.limits import RuleLimits
from fraud_rules.predicate import Predicate

__all__ = [
    "Action",
    "Aggregator",
    "Control",
    "ControlType",
    "Operator",
    "Rule",
    "RuleChange",
    "RuleDeletion",
    "RuleLimits",
    "RuleState",
]


class RuleState(StrEnum):
    """What a rule in force does: `PAUSE` is kept but not evaluated, alerts of `SHADOW` go to a topic of their own."""

    ACTIVE = "ACTIVE"
    PAUSE = "PAUSE"
    SHADOW = "SHADOW"


class Aggregator(StrEnum):
    """The aggregate over a window; `STDDEV` is that of the population."""

    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"
    COUNT = "COUNT"
    COUNT_WITH_RESET = "COUNT_WITH_RESET"
    COUNT_DISTINCT = "COUNT_DISTINCT"
    STDDEV = "STDDEV"

    @property
    def needs_field(self) -> bool:
        """Whether it aggregates the values of one numeric field (the counts do not)."""
        return not self.value.startswith("COUNT")


class Operator(StrEnum):
    """How the aggregate compares with the limit, by symbol."""

    EQUAL = "="
    NOT_EQUAL = "!="
    GREATER_EQUAL = ">="
    LESS_EQUAL = "<="
    GREATER = ">"
    LESS = "<"


class Action(StrEnum):
    """What an alert sets off: `RESTRICT` also writes a restriction of the key."""

    ALERT = "ALERT"
    RESTRICT = "RESTRICT"


class ControlType(StrEnum):
    """A command in the rule log that is about all rules or all state."""

    CLEAR_STATE_ALL = "CLEAR_STATE_ALL"
    CLEAR_STATE_ALL_STOP = "CLEAR_STATE_ALL_STOP"
    DELETE_RULES_ALL = "DELETE_RULES_ALL"
    EXPORT_RULES_CURRENT = "EXPORT_RULES_CURRENT"

    @property
    def clears_state(self) -> bool:
        """Whether nothing that arrived before it counts any more."""
        return self in (ControlType.CLEAR_STATE_ALL, ControlType.CLEAR_STATE_ALL_STOP)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as accepted.

    `grouping` and `unique` hold canonical field names, sorted: the sorted grouping is its identity, and an empty one is
    one key for all transactions. `aggregate_field` is None for the counts, and for a field of ones (`of_ones`).
    `document` is the record as given, JSON-ready, without null members and with whole numbers as integers (numbers with
    a fraction are `Decimal`, to be written as JSON numbers); alerts quote it.
    """

    rule_id: int
    state: RuleState
    grouping: tuple[str, ...]
    aggregator: Aggregator
    aggregate_field: str | None
    unique: tuple[str, ...]
    operator: Operator
    limit: Decimal
    window_ms: int
    cooldown_ms: int | None = None
    action: Action = Action.ALERT
    filter: Predicate | None = None
    source: str | None = None
    force: bool = False
    document: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def evaluated(self) -> bool:
        """Whether transactions are judged by it: all states but `PAUSE`."""
        return self.state is not RuleState.PAUSE

    @property
    def shadow(self) -> bool:
        """Whether its alerts are for the shadow topic only."""
        return self.state is RuleState.SHADOW

    @property
    def of_ones(self) -> bool:
        """Whether it aggregates a field that is 1 in every row: AVG, MIN or MAX of COUNT_FLINK."""
        return self.aggregator.needs_field and self.aggregate_field is None

    @property
    def fields(self) -> frozenset[str]:
        """Every schema field the rule reads."""
        aggregated = {self.aggregate_field} if self.aggregate_field is not None else set()
        filtered = self.filter.fields if self.filter is not None else frozenset()
        return frozenset(self.grouping) | frozenset(self.unique) | aggregated | filtered


@dataclass(frozen=True, slots=True)
class RuleDeletion:
    """Ends a rule; of an unknown id it changes nothing."""

    rule_id: int


@dataclass(frozen=True, slots=True)
class Control:
    """A control record."""

    type: ControlType


RuleChange: TypeAlias = Rule | RuleDeletion | Control
