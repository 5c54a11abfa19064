"""The aggregate functions of rules: one table of what validation, prices, sentences, what-ifs and pages need of each.

A new aggregate needs a line here, and an entry in `engine.window.aggregates`, which names its branch of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self


class AggregateInput(StrEnum):
    """The values of a row that an aggregate function reads."""

    ROWS = "ROWS"  # none: the function counts rows
    FIELD = "FIELD"  # the numeric field `aggregateFieldName`
    UNIQUE = "UNIQUE"  # the fields `unique`, whose distinct values the function counts


class RowEffect(StrEnum):
    """The effect of more rows on an aggregate."""

    RISE = "RISE"
    RISE_UNLESS_NEGATIVE = "RISE_UNLESS_NEGATIVE"  # the aggregate rises if no value is negative
    FALL = "FALL"
    EITHER = "EITHER"


@dataclass(frozen=True, slots=True)
class AggregateTraits:
    """The description of an aggregate function.

    `words` describe it in a sentence, with a place for the label of its field or the noun of what it counts.
    `evaluation_ns` is the price of an evaluation, beside the measures that rules share (see `engine.admission`).

    A baseline needs an aggregate that `is_total` or `is_level`. A total grows with the length of the window. A level
    lies between the smallest and the largest value of its rows, so it is 1 for a field of ones, and a rule can compare
    it with deviations of the past. An aggregate that `is_nonnegative` is never below 0. `more_rows` is the effect of
    more rows on the aggregate.
    """

    words: str
    evaluation_ns: int
    input: AggregateInput = AggregateInput.FIELD
    more_rows: RowEffect = RowEffect.EITHER
    is_total: bool = False
    is_level: bool = False
    is_nonnegative: bool = False


class AggregateFunction(StrEnum):
    """The function of a window's rows whose value a rule compares with its limit.

    `STDDEV` is the population's standard deviation.
    """

    traits: AggregateTraits

    def __new__(cls, name: str, traits: AggregateTraits) -> Self:
        """A member with its name as its value."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.traits = traits
        return member

    SUM = "SUM", AggregateTraits("total {}", 10, more_rows=RowEffect.RISE_UNLESS_NEGATIVE, is_total=True)
    AVG = "AVG", AggregateTraits("average {}", 12, is_level=True)
    MIN = "MIN", AggregateTraits("lowest {}", 10, more_rows=RowEffect.FALL, is_level=True)
    MAX = "MAX", AggregateTraits("highest {}", 10, more_rows=RowEffect.RISE, is_level=True)
    COUNT = "COUNT", AggregateTraits("{}", 8, AggregateInput.ROWS, RowEffect.RISE, is_total=True)
    COUNT_WITH_RESET = (
        "COUNT_WITH_RESET",
        AggregateTraits("{} since the last reset", 12, AggregateInput.ROWS, RowEffect.RISE),
    )
    COUNT_DISTINCT = "COUNT_DISTINCT", AggregateTraits("different {}", 20, AggregateInput.UNIQUE, RowEffect.RISE)
    STDDEV = "STDDEV", AggregateTraits("standard deviation of the {}", 20, is_nonnegative=True)

    @property
    def needs_field(self) -> bool:
        """Whether the function reads the values of one numeric field. The three counts do not: they are whole
        numbers."""
        return self.traits.input is AggregateInput.FIELD


LEVELS: Final = tuple(each for each in AggregateFunction if each.traits.is_level)
"""The functions whose value is a level."""

SUMMABLE: Final = (
    *(each for each in AggregateFunction if each.traits.is_total or each.traits.is_level),
    AggregateFunction.STDDEV,
)
"""The functions whose value over many rows follows from sums of parts of them, so that a long window can have them."""

COMPARABLE: Final = (*(each for each in AggregateFunction if each.traits.is_total), *LEVELS)
"""The functions that a rule can compare with a baseline, and that a baseline can have."""
