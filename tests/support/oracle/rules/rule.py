"""The oracle's rules: valid once built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import Operator
from tests.support.oracle.needs import Formula, Needs
from tests.support.oracle.rules.calendars import Calendar
from tests.support.oracle.rules.windows import FixedWindow, Window

Members: TypeAlias = Mapping[str, Any]

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Limits:
    """The settings that bound rules."""

    max_calendar_window: Calendar = Calendar.MONTH
    max_long_window_ms: int = 576_000 * MINUTE_MS
    detail_ms: int = 1440 * MINUTE_MS

    @classmethod
    def of(cls, settings: Members) -> Limits:
        """The limits in the settings of a recorded stream."""
        return cls(
            Calendar(settings.get("maxCalendarWindow", "MONTH")),
            settings.get("maxLongWindowMinutes", 576_000) * MINUTE_MS,
            settings.get("detailMinutes", 1440) * MINUTE_MS,
        )


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over a window of rows that pass a filter, and its comparison with a limit.

    `says_limit` says whether alerts carry the limit, because it is an expression.
    """

    aggregate_function: AggregateFunction
    aggregate_field: str | None
    unique: tuple[str, ...]
    operator: Operator
    limit: Formula
    says_limit: bool
    window: Window
    filter: Formula | None


@dataclass(frozen=True)
class Baseline:
    """The aggregate of the time right before the window."""

    aggregate_function: AggregateFunction
    aggregate_field: str | None
    filter: Formula | None
    window_ms: int
    min_count: int
    deviations: bool


@dataclass(frozen=True)
class NamedRule:
    """A condition that is the outcome of another rule."""

    rule_id: int


@dataclass(frozen=True)
class Rule:
    """A valid rule. `document` has the members of its record.

    `aggregate` is None if only conditions decide. `needed` is the number of conditions that `require` asks for, and
    `forbids` says that none may hold. With a resolution, the grouping retains rows for `detail_ms` at most, and two
    versions of the rule have the same series if their `meaning` is equal.
    """

    rule_id: int
    state: str
    grouping: tuple[str, ...]
    aggregate: Aggregate | None
    baseline: Baseline | None
    filter: Formula | None
    when: Formula | None
    conditions: Sequence[Aggregate | NamedRule]
    needed: int
    forbids: bool
    cooldown_ms: int | None
    rollout_percent: int
    detail_ms: int
    meaning: object
    document: Members = field(repr=False)

    @property
    def named(self) -> list[int]:
        """The ids of the rules that its conditions name."""
        return [each.rule_id for each in self.conditions if isinstance(each, NamedRule)]

    @property
    def aggregates(self) -> list[Aggregate]:
        """Its own aggregate, and those of its conditions."""
        own = [self.aggregate] if self.aggregate is not None else []
        return [*own, *(each for each in self.conditions if isinstance(each, Aggregate))]

    @property
    def baseline_ms(self) -> int:
        """The length of its baseline."""
        return self.baseline.window_ms if self.baseline is not None else 0

    @property
    def long_window(self) -> FixedWindow | None:
        """The window of a rule with a resolution."""
        window = self.aggregate.window if self.aggregate is not None else None
        return window if isinstance(window, FixedWindow) and window.step_ms > 1 else None

    @property
    def reach_ms(self) -> int:
        """How far back from a transaction the rows are retained for it. Only its own aggregate has a baseline."""
        reaches = [each.window.reach_ms for each in self.aggregates]
        if self.aggregate is not None:
            reaches[0] += self.baseline_ms
        if self.long_window is not None:
            reaches[0] = min(reaches[0], self.detail_ms)
        return max(reaches, default=0)

    @cached_property
    def needs(self) -> Needs:
        """What the expressions of the rule read beside the row."""
        formulas = [self.when, *(each.limit for each in self.aggregates)]
        return Needs.of([each.needs for each in formulas if each is not None])
