"""The compiled plans of groupings, shared by all key groups of a process.

A change of one rule compiles this rule only. A compiled rule depends on the rule and on the measures of the grouping
state, so each set of measures has its own compiled rules. A plan puts the compiled rules of its versions together. The
numbers of conditions and of shared aggregates (R_WHEN, R_SHARED) are set then, because they depend on the other rules
of the plan.

All that is kept here is bounded, because a worker lives for months and each change of a rule makes another plan.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import KIND_RESET, aggregate_of
from fraud_rules.engine.window.bundles import Ints, RuleArrays
from fraud_rules.engine.window.plan import (
    NO_MEASURES,
    GroupingPlan,
    Measures,
    RowCondition,
    RowLimit,
    compile_plan,
    condition_of,
    long_windows_of,
    starts_of,
    with_places_of_conditions,
)
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import GroupingInForce, RuleInForce
from fraud_rules.model.schema import TransactionSchema

PLAN_RULES: Final = 32_768
"""A run of rows is split if the versions of its plan have more rules than this. Such a plan takes 15 MB."""

_CACHED_RULES: Final = 2 * PLAN_RULES
"""The most rules of all cached plans together, and of all compiled rules. Either takes 30 MB."""
_CACHED_MEASURES: Final = 256
_SPARE: Final = 1_024

_BASELINE_AT: Final = at.R_WIDTH
_RATIO_AT: Final = _BASELINE_AT + at.B_WIDTH
_SCALE_AT: Final = _RATIO_AT + 1
_LIMIT_AT: Final = _SCALE_AT + at.LIMBS
_WORDS: Final = _LIMIT_AT + at.LIMBS
_TREES: Final = 1 << 20
"""More than the trees and multisets, and more than the windows, of a grouping."""


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    """A rule as `_WORDS` int64: the rows of R_* and B_*, the ratio, the scale and the limit. So is each condition.

    R_WHEN is the number of its condition among those of its `_RuleTable`, plus one; 0 without a condition. R_LIMIT is
    that of its limit; 0 for a literal. R_SHARED identifies the aggregate, plus one; 0 if no other rule shares it.
    """

    in_force: RuleInForce
    words: bytes
    conditions: bytes


@dataclass(slots=True)
class _RuleTable:
    """The compiled rules of one set of measures, by the ids of their objects, which the values keep alive."""

    measures: Measures
    schema: TransactionSchema
    rules: dict[int, _CompiledRule] = field(default_factory=dict)
    conditions: dict[RowCondition, int] = field(default_factory=dict)
    limits: dict[RowLimit, int] = field(default_factory=dict)

    def compile(self, like: GroupingInForce, rules: Sequence[RuleInForce]) -> bool:
        """Compile the rules that are not compiled yet. Returns False if they need other measures."""
        new = [each for each in rules if id(each) not in self.rules]
        if not new:
            return True
        if len(self.rules) + len(new) > 2 * len(rules) + _SPARE:
            self.rules, self.conditions, self.limits, new = {}, {}, {}, list(rules)
        plan = compile_plan([replace(like, rules=tuple(new))], self.schema, self.measures)
        if plan.measures != self.measures:
            return False
        words = self._words_of(plan)
        places = plan.rules.rows[:, [at.R_FIRST_CONDITION, at.R_CONDITIONS]].tolist()
        for each, own, (first, conditions) in zip(new, words, places, strict=False):
            self.rules[id(each)] = _CompiledRule(each, own, b"".join(words[first : first + conditions]))
        return True

    def _words_of(self, plan: GroupingPlan) -> list[bytes]:
        """The words of each rule and condition of a plan without other rules."""
        arrays = plan.rules
        rows = arrays.rows.copy()
        for row, each in zip(rows, plan.aggregates, strict=True):
            when = condition_of(each) if isinstance(each, Rule) else None
            row[at.R_WHEN] = 0 if when is None else 1 + self.conditions.setdefault(when, len(self.conditions))
            limit = row[at.R_LIMIT]
            row[at.R_LIMIT] = 1 + self.limits.setdefault(plan.limits[limit], len(self.limits)) if limit >= 0 else 0
            row[at.R_SHARED] = 1 + _aggregate_number(row) if aggregate_of(each).is_shared else 0
        ratios = arrays.ratios.view(np.int64).reshape(-1, 1)
        parts = [rows, arrays.baselines, ratios, arrays.scales.view(np.int64), arrays.limits.view(np.int64)]
        return [words.tobytes() for words in np.hstack(parts)]

    def plan(self, versions: Sequence[GroupingInForce]) -> GroupingPlan:
        """The plan of versions whose rules are compiled."""
        in_force = [each for version in versions for each in version.rules]
        rules = self.rules
        found = [rules[id(each)] for each in in_force]
        joined = b"".join([*(each.words for each in found), *(each.conditions for each in found)])
        words = np.frombuffer(joined, dtype=np.int64).reshape(-1, _WORDS)
        rows = with_places_of_conditions(words[:, : at.R_WIDTH].copy(), len(in_force))
        scales, limits = words[:, _SCALE_AT:_LIMIT_AT].copy(), words[:, _LIMIT_AT:].copy()
        shared = _renumbered(rows[:, at.R_SHARED])
        limits_used = _renumbered(rows[:, at.R_LIMIT], otherwise=-1)
        resets = np.unique(rows[rows[:, at.R_KIND] == KIND_RESET, at.R_RULE])
        starts = starts_of(versions)
        long_starts, long_windows = long_windows_of(starts.tolist(), rows[:, at.R_LONG].tolist())
        arrays = RuleArrays(
            starts=starts,
            widest=np.array([version.widest_window_ms for version in versions], dtype=np.int64),
            rows=rows,
            baselines=words[:, _BASELINE_AT:_RATIO_AT].copy(),
            shared=len(shared),
            row_limits=len(limits_used),
            long_starts=long_starts,
            long_windows=long_windows,
            resets=resets,
            ratios=words[:, _RATIO_AT].copy().view(np.float64),
            scales=scales.view(np.uint64),
            limits=limits.view(np.uint64),
        )
        known = tuple(self.limits)
        row_limits = tuple(known[number - 1] for number in limits_used.tolist())
        return GroupingPlan(self.measures, self._number_conditions(rows), row_limits, arrays, tuple(in_force))

    def _number_conditions(self, rows: Ints) -> tuple[RowCondition, ...]:
        """Set R_WHEN of a plan's rows, and return the plan's conditions."""
        when = rows[:, at.R_WHEN]
        bare = when == 0
        used = _renumbered(when)
        when += 1 + len(self.measures.filters)
        when[bare] = rows[bare, at.R_FILTER]
        known = tuple(self.conditions)
        return tuple(known[number - 1] for number in used.tolist())


def _aggregate_number(row: Ints) -> int:
    """A number that identifies the aggregate of a rule that can share it: kind, tree or multiset, window class."""
    return int((row[at.R_KIND] * _TREES + row[at.R_TREE] + row[at.R_DISTINCT]) * _TREES + row[at.R_WINDOW])


def _renumbered(numbers: Ints, otherwise: int = 0) -> Ints:
    """Replace the positive numbers by 0, 1, 2, ... in place, and all others. Returns the distinct positive numbers,
    sorted."""
    positive = numbers > 0
    used, places = np.unique(numbers[positive], return_inverse=True)
    numbers[~positive] = otherwise
    numbers[positive] = places
    return used


class PlanCache:
    """The plans of one process."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[int, ...], tuple[GroupingPlan, Sequence[GroupingInForce], Measures]]
        self._plans, self._planned_rules = OrderedDict(), 0
        self._tables: OrderedDict[tuple[int, int], _RuleTable] = OrderedDict()
        self._needed: OrderedDict[tuple[int, ...], tuple[Measures, Sequence[GroupingInForce]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def rules_held(self) -> int:
        """The rules of all plans together."""
        return self._planned_rules

    def plan(self, versions: Sequence[GroupingInForce], schema: TransactionSchema, measures: Measures) -> GroupingPlan:
        """The plan of versions of one grouping, for a grouping state with these measures.

        The plan has the state's measures if they suffice and at least half of them are needed. Otherwise it has those
        that these versions need, so that a state does not keep the measures of all rules of the past.
        """
        # The keys consist of object ids, because rule sets share the objects of unchanged groupings. The entry holds
        # these objects, so that no other object can get their ids.
        key = (id(schema), id(measures), *map(id, versions))
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = self._compile(versions, schema, measures), versions, measures
            self._planned_rules += len(known[0].in_force)
            self._evict()
        else:
            self._plans.move_to_end(key)
        return known[0]

    def _compile(
        self, versions: Sequence[GroupingInForce], schema: TransactionSchema, measures: Measures
    ) -> GroupingPlan:
        rules = _distinct_rules(versions)
        table = self._table(measures, schema)
        if table.compile(versions[0], rules):
            plan = table.plan(versions)
            if not _is_wasteful(plan):
                return plan
        needed = self._measures_needed(versions, rules, schema)
        if needed == measures:
            return table.plan(versions)
        table = self._table(needed, schema)
        table.compile(versions[0], rules)
        return table.plan(versions)

    def _measures_needed(
        self, versions: Sequence[GroupingInForce], rules: Sequence[RuleInForce], schema: TransactionSchema
    ) -> Measures:
        """The measures that the versions need. Key groups get the same object, so that they share plans."""
        key = (id(schema), *map(id, versions))
        known = self._needed.get(key)
        if known is None:
            plan = compile_plan([replace(versions[0], rules=tuple(rules))], schema, NO_MEASURES)
            known = self._needed[key] = shared_measures(plan.measures), versions
            if len(self._needed) > _CACHED_MEASURES:
                self._needed.popitem(last=False)
        return known[0]

    def _table(self, measures: Measures, schema: TransactionSchema) -> _RuleTable:
        key = id(measures), id(schema)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _RuleTable(measures, schema)
        self._tables.move_to_end(key)
        return table

    def _evict(self) -> None:
        """Remove the plans and the compiled rules whose last use is longest ago. The newest always stay."""
        while self._planned_rules > _CACHED_RULES and len(self._plans) > 1:
            _, (plan, _, _) = self._plans.popitem(last=False)
            self._planned_rules -= len(plan.in_force)
        compiled = sum(len(table.rules) for table in self._tables.values())
        while (compiled > _CACHED_RULES or len(self._tables) > _CACHED_MEASURES) and len(self._tables) > 1:
            compiled -= len(self._tables.popitem(last=False)[1].rules)


def _distinct_rules(versions: Sequence[GroupingInForce]) -> list[RuleInForce]:
    """The rules of the versions, each object once."""
    if len(versions) == 1:
        return list(versions[0].rules)
    return list({id(each): each for version in versions for each in version.rules}.values())


def _is_wasteful(plan: GroupingPlan) -> bool:
    """Whether the plan's rules use less than half of the trees, multisets or windows, which cost memory for each row or
    key. A few unused ones do not count."""
    rows, measures = plan.rules.rows, plan.measures
    return any(
        len(known) > 2 * len(np.unique(used)) + 8
        for known, used in (
            (measures.trees, np.concatenate([rows[:, at.R_TREE], plan.rules.baselines[:, at.B_TREE]])),
            (measures.distincts, rows[:, at.R_DISTINCT]),
            (measures.windows, np.concatenate([rows[:, at.R_WINDOW], plan.rules.baselines[:, at.B_REACH]])),
            (measures.series, rows[:, at.R_LONG]),
        )
    )


_known_measures: OrderedDict[Measures, Measures] = OrderedDict()


def shared_measures(measures: Measures) -> Measures:
    """The object of this process for equal measures, so that all key groups share one plan."""
    known = _known_measures.setdefault(measures, measures)
    _known_measures.move_to_end(known)
    if len(_known_measures) > _CACHED_MEASURES:
        _known_measures.popitem(last=False)
    return known


PLANS: Final = PlanCache()
"""The plans of this process."""


def runs_within(rules: Sequence[int], versions: Ints, most: int) -> Iterable[tuple[int, int]]:
    """The runs [start, end) of rows whose versions have at most `most` rules together. A run has at least one version.

    `rules` has the number of rules of each version, and `versions` int64[n] the version of each row.
    """
    if sum(rules) <= most:
        return [(0, len(versions))]
    bounds = [0, *(np.flatnonzero(np.diff(versions)) + 1).tolist()]
    starts, seen, total = [0], set[int](), 0
    for start, version in zip(bounds, versions[bounds].tolist(), strict=True):
        if version in seen:
            continue
        if seen and total + rules[version] > most:
            starts.append(start)
            seen, total = set(), 0
        seen.add(version)
        total += rules[version]
    return list(zip(starts, [*starts[1:], len(versions)], strict=True))
