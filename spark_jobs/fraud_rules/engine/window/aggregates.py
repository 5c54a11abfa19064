"""How the kernel computes each aggregate function: an entry declares the measures, the branch, and the text form.

A new aggregate needs a member of `model.aggregate.AggregateFunction`, and an entry here. If no branch (`KIND_*`) can
read its windows, it also needs one in `evaluation.aggregate`. The steps are those of Chronon's aggregator interface:

- prepare: `totals`, `extreme` and `is_distinct` declare the measures that the aggregate needs beside the rows;
- update and delete: `key_rows`, `extremes` and `multiset` update these measures for new and expired rows;
- merge: `evaluation.aggregate` reads the aggregate of a window from them, in the branch of `kind`;
- finalize: `evaluation.condition` compares the aggregate with the limit, and `render` writes it into an alert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final, TypeAlias

from fraud_rules.engine.window.layout import (
    O_BASE_HIGH,
    O_BASE_LOW,
    O_BASE_VALUES,
    O_HIGH,
    O_LOW,
    O_SQUARE,
    O_VALUES,
    TOTAL_HIGH,
    TOTAL_LOW,
    TOTAL_SQUARE_0,
    TOTAL_SQUARE_1,
    TOTAL_SQUARE_2,
    TOTAL_SQUARE_3,
)
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.expressions.unscaled import unscaled_text
from fraud_rules.model.rule import AggregateCondition, Baseline, Rule, RuleState

# The branches of the kernel.
KIND_SUM = 0
KIND_COUNT = 1
KIND_RESET = 2
KIND_EXTREME = 3
KIND_DISTINCT = 4
KIND_AVG = 5
KIND_STDDEV = 6
KIND_ONE = 7  # the extreme or average of a field that is 1 in every row

SMALLEST: Final = 0
LARGEST: Final = 1

SUMS: Final = (TOTAL_LOW, TOTAL_HIGH)
"""The running totals of a sum."""

SQUARES: Final = (TOTAL_SQUARE_0, TOTAL_SQUARE_1, TOTAL_SQUARE_2, TOTAL_SQUARE_3)
"""The running totals of a sum of squares."""

_RATIO_DECIMALS: Final = 6
"""The decimals of an average or a deviation in an alert."""

Renderer: TypeAlias = Callable[[Sequence[int], int], str]
"""Formats the aggregate of an output row (O_* ints) as a decimal. The second argument is the scale of the field."""


def _render_exact(row: Sequence[int], scale: int) -> str:
    return unscaled_text(_total(row), scale)


def _render_average(row: Sequence[int], scale: int) -> str:
    average = _divide(_total(row) * 10**_RATIO_DECIMALS, row[O_VALUES] * 10**scale)
    return unscaled_text(average, _RATIO_DECIMALS)


def _render_deviation(row: Sequence[int], scale: int) -> str:
    n, total = row[O_VALUES], _total(row)
    squares = sum(row[O_SQUARE + k] << (32 * k) for k in range(4))
    spread = (n * squares - total * total) * 10 ** (2 * _RATIO_DECIMALS)
    return unscaled_text(_divide_root(spread, n * 10**scale), _RATIO_DECIMALS)


def _render_one(row: Sequence[int], scale: int) -> str:
    return "1"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate function.

    `kind` selects the branch of `read_aggregate` and of `is_met`. `totals` are the running totals (TOTAL_*) of the
    aggregated field, `extreme` is SMALLEST or LARGEST for a tree of extremes, and `is_distinct` requires a multiset.
    `constant` is the value of an aggregate that is the same in every window.
    """

    kind: int
    render: Renderer = _render_exact
    totals: tuple[int, ...] = ()
    extreme: int | None = None
    is_distinct: bool = False
    constant: int | None = None

    @property
    def has_value_of_empty_window(self) -> bool:
        """Whether the aggregate of a window without rows is 0. Every other aggregate then has no value."""
        return self.kind in (KIND_COUNT, KIND_RESET, KIND_DISTINCT)

    @property
    def reads_field(self) -> bool:
        """Whether the aggregate reads the values of the aggregated field."""
        return bool(self.totals) or self.extreme is not None

    @property
    def needs_squares(self) -> bool:
        """Whether the running totals of the field must include squares."""
        return SQUARES[0] in self.totals

    @property
    def is_shared(self) -> bool:
        """Whether the kernel computes the aggregate once per row for all rules that have it, because it is costly."""
        return self.extreme is not None or self.is_distinct


_AGGREGATES: Final[Mapping[AggregateFunction, Aggregate]] = {
    AggregateFunction.SUM: Aggregate(KIND_SUM, totals=SUMS),
    AggregateFunction.AVG: Aggregate(KIND_AVG, _render_average, totals=SUMS),
    AggregateFunction.STDDEV: Aggregate(KIND_STDDEV, _render_deviation, totals=SUMS + SQUARES),
    AggregateFunction.MIN: Aggregate(KIND_EXTREME, extreme=SMALLEST),
    AggregateFunction.MAX: Aggregate(KIND_EXTREME, extreme=LARGEST),
    AggregateFunction.COUNT: Aggregate(KIND_COUNT),
    AggregateFunction.COUNT_WITH_RESET: Aggregate(KIND_RESET),
    AggregateFunction.COUNT_DISTINCT: Aggregate(KIND_DISTINCT, is_distinct=True),
}

_CONSTANT_ONE: Final = Aggregate(KIND_ONE, _render_one, constant=1)
"""The average, minimum or maximum of a field that is 1 in every row. The aggregate of a window with rows is 1."""


def aggregate_of(of: Rule | Baseline | AggregateCondition) -> Aggregate:
    """The aggregate function of a rule, a baseline or a condition. A SIGNAL has no mark, so it counts all rows."""
    function = of.aggregate_function
    if function is AggregateFunction.COUNT_WITH_RESET and isinstance(of, Rule) and of.state is RuleState.SIGNAL:
        function = AggregateFunction.COUNT
    return _CONSTANT_ONE if of.aggregates_ones else _AGGREGATES[function]


def baseline_value(rule: Rule, row: Sequence[int], scale: int) -> str:
    """The value of the rule's baseline in an output row, rounded half to even to six decimals. `scale` is that of the
    baseline's field. A sum or a count is that of a part of the baseline as long as the window."""
    baseline = rule.baseline
    assert baseline is not None
    if baseline.aggregates_ones:
        return "1"
    value, parts = (row[O_BASE_HIGH] << 32) + row[O_BASE_LOW], 10**scale
    if baseline.is_proportional:
        value, parts = value * rule.window.reach_ms, parts * baseline.window_ms
    elif baseline.aggregate_function is AggregateFunction.AVG:
        parts *= row[O_BASE_VALUES]
    return unscaled_text(_divide(value * 10**_RATIO_DECIMALS, parts), _RATIO_DECIMALS)


def _total(row: Sequence[int]) -> int:
    """The exact integer of an output row."""
    return (row[O_HIGH] << 32) + row[O_LOW]


def _divide(numerator: int, denominator: int) -> int:
    """numerator / denominator, rounded half to even. The denominator must be positive."""
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    return quotient + (twice > denominator or (twice == denominator and quotient % 2 == 1))


def _divide_root(square: int, denominator: int) -> int:
    """sqrt(square) / denominator, rounded half to even."""
    floor = isqrt(square // denominator**2)
    middle = (2 * floor + 1) ** 2 * denominator**2
    return floor + (4 * square > middle or (4 * square == middle and floor % 2 == 1))
