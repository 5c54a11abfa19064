"""Compiles one or more versions of a grouping to the arrays that the kernel reads.

A version of a grouping is its rules between two entries of the rule log. A measure is a structure beside the retained
rows, from which the kernel reads the aggregate of a window: a running total, a tree of extremes, or a multiset of
distinct values. Rules share measures: a thousand SUM rules with different limits and windows need the totals of one
sum.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import KIND_RESET, KIND_STDDEV, SQUARES, SUMS, Aggregate, aggregate_of
from fraud_rules.engine.window.bundles import RuleArrays
from fraud_rules.model.expressions.expression import Expression
from fraud_rules.model.expressions.lookups import Lookup, lookups_of
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.limits import UNBOUNDED
from fraud_rules.model.rule import AggregateCondition, Baseline, Operator, PreviousRows, Rule, RuleState
from fraud_rules.model.ruleset import GroupingInForce, RuleInForce
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.window import Window

FAR: Final = 1 << 93
"""Larger than the sum of any 2**29 int64 values. The ends of firing intervals are clamped to it."""

OPERATORS: Final = {
    Operator.EQUAL: at.OP_EQ,
    Operator.NOT_EQUAL: at.OP_NE,
    Operator.GREATER_EQUAL: at.OP_GE,
    Operator.LESS_EQUAL: at.OP_LE,
    Operator.GREATER: at.OP_GT,
    Operator.LESS: at.OP_LT,
}

Item = TypeVar("Item", bound=Hashable)
AnyAggregate: TypeAlias = Rule | Baseline | AggregateCondition
Total = tuple[int, int, int, int]  # TOTAL_*, filter, column of `events`, part
Tree = tuple[int, int, int, int]  # filter, column, SMALLEST or LARGEST, part
Distinct = tuple[int, Window, tuple[int, ...]]  # filter, window, columns
_CompiledLimit = tuple[float, NDArray[np.uint64], NDArray[np.uint64]]
_CompiledRule = tuple[list[int], list[int], float, NDArray[np.uint64], NDArray[np.uint64]]
_Encoded = tuple[
    tuple[str, ...],
    tuple[Total, ...],
    tuple[Tree, ...],
    tuple[dict[str, object], ...],
    tuple[Distinct, ...],
    tuple[int, ...],
]

NO_PART: Final = -1
"""The part of a measure that is not of a series."""


def _array(rows: Sequence[tuple[int, ...]], width: int) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


@dataclass(frozen=True, slots=True)
class SeriesWindow(Window):
    """The long window of a rule whose sums began with the version `series`."""

    series: int = 0


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of a grouping state.

    The position of a measure in its tuple is its index in the kernel's arrays. Filter 0 means all rows, so a filter's
    number is its position plus one. `windows` has the window of each window class, and `series` the version of each
    series. A series has measures of its own in two parts: part 2 i is its aggregate, and part 2 i + 1 its baseline, if
    this has another filter or field. A state rebuilds its arrays only if its measures change.
    """

    filters: tuple[Predicate, ...]
    totals: tuple[Total, ...]
    trees: tuple[Tree, ...]
    windows: tuple[Window, ...]
    distincts: tuple[Distinct, ...]
    series: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """Encode the measures as text for other processes."""
        filters = [str(predicate) for predicate in self.filters]
        return msgspec.json.encode((filters, self.totals, self.trees, self.windows, self.distincts, self.series))

    @classmethod
    def decode(cls, text: bytes, schema: TransactionSchema) -> Measures:
        """Decode the text of `encode`.

        The limits on rules do not apply, because the canonical text of a filter can be longer than its author's text.
        """
        filters, totals, trees, windows, distincts, series = msgspec.json.decode(text, type=_Encoded)
        predicates = tuple(parse_filter(each, schema, UNBOUNDED) for each in filters)
        decoded = tuple(msgspec.convert(each, SeriesWindow if "series" in each else Window) for each in windows)
        return cls(predicates, totals, trees, decoded, distincts, series)

    def count_column(self, number: int) -> int:
        """The pool column of the running count of the rows that pass a filter; -1 if positions count them."""
        total = (at.TOTAL_ROWS, number, at.E_FIELDS, NO_PART)
        return at.P_SUMS + self.totals.index(total) if number or total in self.totals else -1

    def totals_array(self) -> NDArray[np.int64]:
        """The totals as int64[totals, 4]: TOTAL_*, filter, column of `events`, part."""
        return _array(self.totals, 4)

    def trees_array(self) -> NDArray[np.int64]:
        """The trees as int64[trees, 4]: filter, column, SMALLEST or LARGEST, part."""
        return _array(self.trees, 4)

    @property
    def calendars(self) -> tuple[Window, ...]:
        """The calendar windows, in the order of the columns of `Arrivals.calendar_starts`."""
        return tuple(each for each in self.windows if each.calendar is not None)

    def windows_array(self) -> NDArray[np.int64]:
        """The windows as int64[windows, W_WIDTH]."""
        column = {window: number for number, window in enumerate(self.calendars)}
        rows = [
            (
                -1 - column[each] if each in column else each.reach_ms,
                each.step_ms,
                self.series.index(each.series) if isinstance(each, SeriesWindow) else -1,
            )
            for each in self.windows
        ]
        return _array(rows, at.W_WIDTH)

    def distincts_array(self) -> NDArray[np.int64]:
        """The distinct measures as int64[distincts, 3 + widest]: filter, window class, number of fields, columns."""
        width = max((len(columns) for _, _, columns in self.distincts), default=0)
        rows = [
            (number, self.windows.index(window), len(columns), *columns, *([0] * (width - len(columns))))
            for number, window, columns in self.distincts
        ]
        return _array(rows, 3 + width)


def limbs_of(value: int) -> NDArray[np.uint64]:
    """A non-negative integer as LIMBS words of 32 bits, lowest first."""
    return np.array([(value >> (32 * k)) & 0xFFFF_FFFF for k in range(at.LIMBS)], dtype=np.uint64)


NO_MEASURES = Measures((), (), (), (), ())
_NO_LIMIT: _CompiledLimit = (0.0, limbs_of(1), limbs_of(0))
"""In place of a limit that each row has for itself."""


@dataclass(frozen=True, slots=True)
class RowLimit:
    """The limit of a rule that is an expression, and what else its comparison depends on.

    `scale` is the number of digits after the point of the aggregated field. `previous` are the rows among which the
    expression finds the previous payment (None: it reads none). `own` is the version of the rule whose own aggregate
    the expression reads; -1: it reads none, or the rule has none.
    """

    expression: Expression
    operator: Operator
    aggregate: Aggregate
    scale: int
    previous: PreviousRows | None
    own: int = -1

    @property
    def reads_own(self) -> bool:
        """Whether the limit is known only after the own aggregate."""
        return self.own >= 0


@dataclass(frozen=True, slots=True)
class RowCondition:
    """The selection of a rule, and the rows among which it finds the previous payment (None: it reads none)."""

    expression: Predicate
    previous: PreviousRows | None


class Judged(NamedTuple):
    """What expressions read: look-ups (see `lookups_of`), and fields of the previous payment."""

    lookups: tuple[Lookup, ...]
    previous_fields: frozenset[str]

    @classmethod
    def of(cls, expressions: Sequence[Expression]) -> Judged:
        """What these expressions read."""
        return cls(lookups_of(expressions), frozenset[str]().union(*(each.previous_fields for each in expressions)))


@dataclass(frozen=True)
class GroupingPlan:
    """The compiled rules of one grouping. What derives from them is computed once."""

    measures: Measures
    conditions: tuple[RowCondition, ...]
    """The distinct selections of the rules. Their masks follow those of the filters (see R_WHEN)."""
    limits: tuple[RowLimit, ...]
    """The distinct limits that are expressions (see R_LIMIT)."""
    rules: RuleArrays
    in_force: tuple[RuleInForce, ...] = field(repr=False)
    """The rules of the first rows of `rules.rows`. The rows of their conditions follow."""

    @cached_property
    def previous(self) -> tuple[PreviousRows, ...]:
        """The distinct sets of rows among which rules find the previous payment."""
        return tuple(dict.fromkeys(each.previous for each in self._judged_once() if each.previous is not None))

    @cached_property
    def reads_own(self) -> bool:
        """Whether a limit reads the own aggregate of its rule."""
        return any(each.reads_own for each in self.limits)

    @property
    def aggregates(self) -> tuple[Rule | AggregateCondition, ...]:
        """The aggregate of each row of `rules.rows`."""
        rules = [each.rule for each in self.in_force]
        return (*rules, *(condition for rule in rules for condition in rule.aggregate_conditions))

    @cached_property
    def is_named(self) -> NDArray[np.bool_]:
        """bool[rules]: whether other rules name the rule."""
        return np.array([each.is_named for each in self.in_force], dtype=np.bool_)

    @cached_property
    def judged(self) -> Mapping[PreviousRows | None, Judged]:
        """The expressions that are computed for the evaluated transaction only, so that they may name lists: by the
        rows among which they find the previous payment; None: they read none."""
        return {
            previous: Judged.of([each.expression for each in self._judged_once() if each.previous == previous])
            for previous in (None, *self.previous)
        }

    def _judged_once(self) -> Iterator[RowCondition | RowLimit]:
        yield from self.conditions
        yield from self.limits


class _Numbering(dict[Item, int]):
    """The numbers of distinct items, from 0 in the order of their first use."""

    @classmethod
    def of_items(cls, items: Sequence[Item]) -> _Numbering[Item]:
        """Number distinct items in their order."""
        return cls(zip(items, range(len(items)), strict=True))

    def number_of(self, item: Item) -> int:
        """The number of an item. A new item gets the next number."""
        return self.setdefault(item, len(self))


@dataclass(frozen=True, slots=True)
class _Collector:
    """Collects the measures that rules need, each once."""

    squared: frozenset[tuple[Predicate | None, str | None]]
    """The pairs of filter and field whose totals include squares. Rules that need no squares share these totals."""
    has_sums: bool
    """Whether a position can be that of a sum."""
    filters: _Numbering[Predicate] = field(default_factory=_Numbering)
    totals: _Numbering[Total] = field(default_factory=_Numbering)
    trees: _Numbering[Tree] = field(default_factory=_Numbering)
    windows: _Numbering[Window] = field(default_factory=_Numbering)
    distincts: _Numbering[Distinct] = field(default_factory=_Numbering)
    series: _Numbering[int] = field(default_factory=_Numbering)
    conditions: _Numbering[RowCondition] = field(default_factory=_Numbering)
    limits: _Numbering[RowLimit] = field(default_factory=_Numbering)
    shared: _Numbering[tuple[int, int, int]] = field(default_factory=_Numbering)
    """The aggregates that rules share: kind, tree or multiset, window class."""

    @classmethod
    def starting_from(
        cls,
        known: Measures,
        squared: frozenset[tuple[Predicate | None, str | None]],
        columns: dict[str, int],
        has_sums: bool,
    ) -> _Collector:
        """Start from the known measures. Start without measures if the known totals of a field lack squares that a rule
        needs."""
        by_number: tuple[Predicate | None, ...] = (None, *known.filters)
        names = {column: name for name, column in columns.items()}
        with_squares = frozenset((by_number[f], names[c]) for kind, f, c, _ in known.totals if kind == SQUARES[0])
        with_sums = frozenset((by_number[f], names[c]) for kind, f, c, _ in known.totals if kind == SUMS[0])
        if (squared - with_squares) & with_sums:
            return cls(squared, has_sums)
        return cls(
            squared | with_squares,
            has_sums or bool(known.series),
            _Numbering.of_items(known.filters),
            _Numbering.of_items(known.totals),
            _Numbering.of_items(known.trees),
            _Numbering.of_items(known.windows),
            _Numbering.of_items(known.distincts),
            _Numbering.of_items(known.series),
        )

    def measures(self) -> Measures:
        return Measures(
            tuple(self.filters),
            tuple(self.totals),
            tuple(self.trees),
            tuple(self.windows),
            tuple(self.distincts),
            tuple(self.series),
        )

    def count(self, number: int, part: int) -> int:
        """`Measures.count_column` of a part, which is added if it is new."""
        if number == 0 and part == NO_PART and not self.has_sums:
            return -1
        return self.total(at.TOTAL_ROWS, number, at.E_FIELDS, part)

    def total(self, kind: int, number: int, column: int, part: int) -> int:
        """The pool column of a running total, which is added if it is new."""
        return at.P_SUMS + self.totals.number_of((kind, number, column, part))

    def window(self, window: Window, series: int | None) -> int:
        """The class of a window. `series` is that of a long one."""
        if series is None:
            return self.windows.number_of(window)
        return self.windows.number_of(SeriesWindow(window.reach_ms, step_ms=window.step_ms, series=series))

    def column_of_sum(self, of: AnyAggregate, number: int, column: int, part: int) -> int:
        """The pool column of TOTAL_LOW for a field's sum. The columns of TOTAL_HIGH and of squares follow this
        column."""
        squared = (of.filter, of.aggregate_field) in self.squared
        columns = [self.total(kind, number, column, part) for kind in (SUMS + SQUARES if squared else SUMS)]
        return columns[0]


def compile_plan(versions: Sequence[GroupingInForce], schema: TransactionSchema, known: Measures) -> GroupingPlan:
    """Compile one or more versions of the same grouping.

    The plan reuses the known measures if they suffice. A grouping state that has these measures then needs no rebuild.
    """
    columns = {name: at.E_FIELDS + i for i, name in enumerate(schema.names)}
    rules = [each.rule for version in versions for each in version.rules]
    squared = frozenset((each.filter, each.aggregate_field) for rule in rules for each in _squared(rule))
    in_force = [each for version in versions for each in version.rules]
    has_sums = any(each.series is not None for each in in_force)
    collector = _Collector.starting_from(known, squared, columns, has_sums)
    compiled_rules = [_compile_rule(each, schema, columns, collector) for each in in_force]
    compiled_rules += [
        _compile_condition(of, each, schema, columns, collector)
        for each in in_force
        for of in each.rule.aggregate_conditions
    ]
    rows = [row for row, *_ in compiled_rules]
    measures = collector.measures()
    _place_selections(rows, in_force, collector)
    starts = starts_of(versions)
    long_starts, long_windows = long_windows_of(starts.tolist(), [row[at.R_LONG] for row in rows])
    resets = sorted({row[at.R_RULE] for row in rows if row[at.R_KIND] == KIND_RESET})
    compiled = RuleArrays(
        starts=starts_of(versions),
        widest=np.array([version.widest_window_ms for version in versions], dtype=np.int64),
        rows=with_places_of_conditions(np.array(rows, dtype=np.int64).reshape(len(rows), at.R_WIDTH), len(in_force)),
        baselines=np.array([past for _, past, *_ in compiled_rules], dtype=np.int64).reshape(len(rows), at.B_WIDTH),
        shared=len(collector.shared),
        row_limits=len(collector.limits),
        long_starts=long_starts,
        long_windows=long_windows,
        resets=np.array(resets, dtype=np.int64),
        ratios=np.array([ratio for _, _, ratio, _, _ in compiled_rules], dtype=np.float64),
        scales=np.array([scale for *_, scale, _ in compiled_rules], dtype=np.uint64).reshape(len(rows), at.LIMBS),
        limits=np.array([limit for *_, limit in compiled_rules], dtype=np.uint64).reshape(len(rows), at.LIMBS),
    )
    return GroupingPlan(measures, tuple(collector.conditions), tuple(collector.limits), compiled, tuple(in_force))


def starts_of(versions: Sequence[GroupingInForce]) -> NDArray[np.int64]:
    """`RuleArrays.starts` of the versions."""
    return np.cumsum([0, *(len(version.rules) for version in versions)], dtype=np.int64)


def with_places_of_conditions(rows: NDArray[np.int64], rules: int) -> NDArray[np.int64]:
    """Set R_FIRST_CONDITION of the rows of a plan with so many rules."""
    numbers = rows[:rules, at.R_CONDITIONS]
    rows[:rules, at.R_FIRST_CONDITION] = rules + np.cumsum(numbers) - numbers
    return rows


def long_windows_of(starts: Sequence[int], longs: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`RuleArrays.long_starts` and `long_windows`, from the starts of the versions and R_LONG of their rules."""
    found = np.array(longs[: starts[-1]], dtype=np.int64)
    before = np.cumsum([0, *(found > 0)], dtype=np.int64)
    return before[np.array(starts, dtype=np.int64)], found[found > 0] - 1


def _place_selections(rows: Sequence[list[int]], in_force: Sequence[RuleInForce], collector: _Collector) -> None:
    """Set R_WHEN of the rules' rows. The number of filters must be final, because the selections follow them."""
    for row, each in zip(rows, in_force, strict=False):
        when = condition_of(each.rule)
        following = len(collector.filters) + 1
        row[at.R_WHEN] = row[at.R_FILTER] if when is None else following + collector.conditions.number_of(when)


def condition_of(rule: Rule) -> RowCondition | None:
    """The condition of a rule's selection; None if its filter selects the transactions."""
    selection = rule.selection
    return None if selection is None else RowCondition(selection, rule.previous_rows(selection))


def _squared(rule: Rule) -> Iterator[AnyAggregate]:
    """The aggregates of a rule that need squares."""
    yield from (each for each in rule.aggregates if aggregate_of(each).needs_squares)
    if rule.baseline is not None and rule.baseline.deviations and not rule.baseline.aggregates_ones:
        yield rule.baseline


def storing_plan(measures: Measures) -> GroupingPlan:
    """A plan without rules: the kernel stores rows, and keeps the watermark if it allows all lateness."""
    none = np.empty((0, at.LIMBS), dtype=np.uint64)
    rules = RuleArrays(
        starts=np.zeros(2, dtype=np.int64),
        widest=np.full(1, at.FOREVER_MS, dtype=np.int64),
        rows=np.empty((0, at.R_WIDTH), dtype=np.int64),
        baselines=np.empty((0, at.B_WIDTH), dtype=np.int64),
        shared=0,
        row_limits=0,
        long_starts=np.zeros(2, dtype=np.int64),
        long_windows=np.empty(0, dtype=np.int64),
        resets=np.empty(0, dtype=np.int64),
        ratios=np.empty(0, dtype=np.float64),
        scales=none,
        limits=none,
    )
    return GroupingPlan(measures, (), (), rules, ())


@dataclass(frozen=True, slots=True)
class _Source:
    """The measures from which the kernel reads one aggregate, as the R_* of the same names, and the field's scale."""

    filter: int
    count: int
    values: int
    low: int = 0
    tree: int = 0
    scale: int = 0


def _source_of(
    of: AnyAggregate,
    schema: TransactionSchema,
    columns: dict[str, int],
    collector: _Collector,
    part: int = NO_PART,
) -> _Source:
    """Collect the measures of an aggregate, except those of distinct values."""
    aggregate = aggregate_of(of)
    number = 0 if of.filter is None else 1 + collector.filters.number_of(of.filter)
    count = collector.count(number, part)
    if not aggregate.reads_field:
        return _Source(number, count, count)
    assert of.aggregate_field is not None  # a Rule is valid once built
    column = columns[of.aggregate_field]
    declared = schema.field(of.aggregate_field)
    assert declared is not None
    return _Source(
        filter=number,
        count=count,
        values=collector.total(at.TOTAL_VALUES, number, column, part) if declared.nullable else count,
        tree=0 if aggregate.extreme is None else collector.trees.number_of((number, column, aggregate.extreme, part)),
        low=collector.column_of_sum(of, number, column, part) if aggregate.totals else 0,
        scale=declared.scale,
    )


def _compile_rule(
    each: RuleInForce, schema: TransactionSchema, columns: dict[str, int], collector: _Collector
) -> _CompiledRule:
    """Compile a rule to its rows of R_* and B_*, and its limit as `_compile_limit` or `_compile_factor` returns it."""
    rule = each.rule
    part = NO_PART if each.series is None else 2 * collector.series.number_of(each.series)
    row, source = _aggregate_row(rule, schema, columns, collector, each.series, part)
    row[at.R_LONG] = 0 if each.series is None else 1 + collector.window(rule.whole_window, each.series)
    row[at.R_COOLDOWN] = rule.cooldown_ms or 0
    row[at.R_RULE] = each.incarnation
    row[at.R_MODE] = at.MODE_PAUSED if rule.state is RuleState.PAUSE else at.MODE_PLAIN
    row[at.R_ALERTS] = int(rule.alerts)
    row[at.R_CONDITIONS], row[at.R_REQUIRED] = len(rule.aggregate_conditions), rule.required
    row[at.R_NAMED], row[at.R_REPORTED] = len(rule.named_rules), int(each.is_named)
    row[at.R_HAS_AGGREGATE] = int(rule.has_aggregate)
    row[at.R_OWN] = int(any(_own_version(of, each) >= 0 for of in rule.aggregate_conditions))
    if rule.baseline is None:
        return row, [0] * at.B_WIDTH, *_compiled_limit(rule, each, row, source.scale, collector)
    assert isinstance(rule.limit, Decimal)  # a Rule is valid once built
    if row[at.R_MODE] == at.MODE_PLAIN:
        row[at.R_MODE] = at.MODE_BASELINE
    past = _source_of(rule.baseline, schema, columns, collector, baseline_part(rule, part))
    factor = _compile_factor(rule, rule.limit, row, source, past)
    return row, _baseline_row(each, rule.baseline, source, past, collector), *factor


def _compile_condition(
    condition: AggregateCondition,
    each: RuleInForce,
    schema: TransactionSchema,
    columns: dict[str, int],
    collector: _Collector,
) -> _CompiledRule:
    """Compile a condition of a rule, like a rule that has no more than an aggregate and a limit."""
    row, source = _aggregate_row(condition, schema, columns, collector)
    return row, [0] * at.B_WIDTH, *_compiled_limit(condition, each, row, source.scale, collector)


def _aggregate_row(
    of: Rule | AggregateCondition,
    schema: TransactionSchema,
    columns: dict[str, int],
    collector: _Collector,
    series: int | None = None,
    part: int = NO_PART,
) -> tuple[list[int], _Source]:
    """The row of R_* of an aggregate, without its limit."""
    aggregate, source = aggregate_of(of), _source_of(of, schema, columns, collector, part)
    row = [0] * at.R_WIDTH
    row[at.R_KIND] = aggregate.kind
    row[at.R_WINDOW] = collector.window(of.window, series)
    row[at.R_FILTER] = source.filter
    row[at.R_LIMIT] = -1
    row[at.R_OPERATOR] = OPERATORS[of.operator]
    row[at.R_COUNT], row[at.R_VALUES] = source.count, source.values
    row[at.R_TREE], row[at.R_LOW] = source.tree, source.low
    if aggregate.is_distinct:
        fields = tuple(columns[name] for name in of.unique)
        row[at.R_DISTINCT] = collector.distincts.number_of((source.filter, of.window, fields))
    if aggregate.is_shared:
        row[at.R_SHARED] = collector.shared.number_of(
            (aggregate.kind, row[at.R_TREE] + row[at.R_DISTINCT], row[at.R_WINDOW])
        )
    return row, source


def _compiled_limit(
    of: Rule | AggregateCondition, each: RuleInForce, row: list[int], scale: int, collector: _Collector
) -> _CompiledLimit:
    """Compile a limit of a rule: its number, or else R_LIMIT."""
    if isinstance(of.limit, Decimal):
        return _compile_limit(of, of.limit, row, scale)
    previous, own = each.rule.previous_rows(of.limit), _own_version(of, each)
    limit = RowLimit(of.limit, of.operator, aggregate_of(of), scale, previous, own)
    row[at.R_LIMIT] = collector.limits.number_of(limit)
    return _NO_LIMIT


def _own_version(of: Rule | AggregateCondition, each: RuleInForce) -> int:
    """`RowLimit.own` of the limit of a rule or of its condition."""
    expression = of.limit_expression
    reads = expression is not None and expression.reads_own and each.rule.has_aggregate
    return each.version if reads else -1


def baseline_part(rule: Rule, part: int) -> int:
    """The part of a baseline whose rule's aggregate has this part."""
    past = rule.baseline
    assert past is not None
    is_own = (past.filter, past.aggregate_field) == (rule.filter, rule.aggregate_field)
    return part if part == NO_PART or is_own else part + 1


def _baseline_row(
    each: RuleInForce, baseline: Baseline, source: _Source, past: _Source, collector: _Collector
) -> list[int]:
    row = [0] * at.B_WIDTH
    row[at.B_REACH] = collector.window(each.rule.whole_window, each.series)
    has_squares = baseline.deviations and not baseline.aggregates_ones
    row[at.B_KIND] = KIND_STDDEV if has_squares else aggregate_of(baseline).kind
    row[at.B_COUNT], row[at.B_VALUES] = past.count, past.values
    row[at.B_LOW], row[at.B_TREE] = past.low, past.tree
    row[at.B_MIN_COUNT] = baseline.min_count
    row[at.B_DEVIATIONS] = int(baseline.deviations)
    row[at.B_OWN_SCALE] = 10 ** max(past.scale - source.scale, 0)
    row[at.B_BASE_SCALE] = 10 ** max(source.scale - past.scale, 0)
    return row


def _compile_factor(rule: Rule, limit: Decimal, row: list[int], source: _Source, past: _Source) -> _CompiledLimit:
    """The factor of the baseline's total in unscaled units, as `_compile_limit` returns a limit. With deviations, the
    number of deviations."""
    baseline, factor = rule.baseline, Fraction(limit)
    assert baseline is not None
    if not baseline.deviations:
        factor *= Fraction(10) ** (source.scale - past.scale)
        if baseline.is_proportional:
            factor *= Fraction(rule.window.reach_ms, baseline.window_ms)
    row[at.R_LIMIT_NEGATIVE] = int(factor < 0)
    return float(factor), limbs_of(factor.denominator), limbs_of(abs(factor.numerator))


def _compile_limit(of: Rule | AggregateCondition, literal: Decimal, row: list[int], scale: int) -> _CompiledLimit:
    """Set the row's firing interval.

    Returns the limit in unscaled units of the field: as a double, and exactly as the limbs of its denominator and of
    its numerator's magnitude.
    """
    limit, aggregate = Fraction(literal) * 10**scale, aggregate_of(of)
    if of.aggregate_function.traits.is_nonnegative and limit < 0:
        always = of.operator in (Operator.GREATER, Operator.GREATER_EQUAL, Operator.NOT_EQUAL)
        row[at.R_OPERATOR] = at.OP_ALWAYS if always else at.OP_NEVER
    row[at.R_LIMIT_NEGATIVE] = int(limit < 0)
    first, last, negate = *_interval(of.operator, limit), of.operator is Operator.NOT_EQUAL
    if aggregate.constant is not None:
        first, last, negate = (-FAR, FAR, (first <= aggregate.constant <= last) is negate)
    row[at.R_NEGATE] = int(negate)
    row[at.R_FROM_HIGH], row[at.R_FROM_LOW] = first >> 32, first & 0xFFFF_FFFF
    row[at.R_TO_HIGH], row[at.R_TO_LOW] = last >> 32, last & 0xFFFF_FFFF
    return float(limit), limbs_of(limit.denominator), limbs_of(abs(limit.numerator))


def _interval(operator: Operator, limit: Fraction) -> tuple[int, int]:
    """The interval of the integers that satisfy `operator limit`, or of those that do not for NOT_EQUAL. Both ends are
    included."""
    first, last = -FAR, FAR
    if operator is Operator.GREATER:
        first = math.floor(limit) + 1
    elif operator is Operator.LESS:
        last = math.ceil(limit) - 1
    else:
        if operator is not Operator.LESS_EQUAL:
            first = math.ceil(limit)
        if operator is not Operator.GREATER_EQUAL:
            last = math.floor(limit)
    return max(min(first, FAR), -FAR), max(min(last, FAR), -FAR)
