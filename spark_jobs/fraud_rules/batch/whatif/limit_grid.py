"""The limits that a what-if counts alerts for, and the choice of those that it shows. Pure.

The curve is counted for thousands of round limits. The shown limits are quantiles of the aggregate: limits at which the
number of alerts, or of caught frauds, differs, in geometric steps from one alert to a fifth of all transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.batch.whatif.labels import FRAUD
from fraud_rules.model.rule import Rule

Ints = NDArray[np.int64]

SHOWN: Final = 50
_FEWEST: Final = 10
_FRAUDS_SHOWN: Final = 10
_LARGEST_SHARE: Final = 5
_STEPS: Final = [Decimal(i) for i in range(100, 1_000, 5)]
"""The steps of a decade: three digits, of which the last is 0 or 5."""
_DIGITS: Final = 15
_COUNTED: Final = 200
_COUNT_DIGITS: Final = 9
_FACTORS: Final = (-2, 4)
_PERCENTAGES: Final = (
    10,
    20,
    25,
    50,
    60,
    70,
    80,
    90,
    100,
    110,
    120,
    130,
    150,
    175,
    200,
    250,
    300,
    400,
    500,
    750,
    1_000,
)
_OF_EXPRESSIONS: Final = tuple(Decimal(each) / 100 for each in _PERCENTAGES)
"""The factors of a limit that is an expression. Each costs an evaluation of its own."""


def grid_of(draft: Rule, scale: int) -> tuple[Decimal, ...]:
    """Round limits for an aggregate of a field with `scale` decimals, ascending, with the draft's own.

    For counts, whole numbers. For factors and deviations of a baseline, from 0 to 100,000. For STDDEV, none below 0.
    For a limit that is an expression, factors of its value. For a rule with conditions, multiples of its own limit,
    because each costs an evaluation of its own.
    """
    own = own_limit(draft)
    if draft.conditions:
        return tuple(sorted({own, *(own * each for each in (_OF_EXPRESSIONS if draft.limit_number else ()))}))
    if draft.limit_expression is not None:
        return _OF_EXPRESSIONS
    if draft.baseline is not None:
        return tuple(sorted({Decimal(0), own, *_decades(*_FACTORS)}))
    if not draft.aggregate_function.needs_field:
        small = map(Decimal, range(_COUNTED))
        return tuple(sorted({own, *small, *(each for each in _decades(2, _COUNT_DIGITS) if each == each // 1)}))
    positive = _decades(-scale, _DIGITS)
    negative = [] if draft.aggregate_function.traits.is_nonnegative else [-each for each in positive]
    return tuple(sorted({Decimal(0), own, *positive, *negative}))


def has_grid(draft: Rule) -> bool:
    """Whether one pass over the evaluations of the draft gives the alerts of all limits of a fine grid."""
    return draft.limit_expression is None and not draft.conditions


def own_limit(draft: Rule) -> Decimal:
    """The draft's own limit among those of `grid_of`: a factor of 1 if its limit is an expression."""
    return Decimal(1) if draft.limit_number is None else draft.limit_number


def _decades(first: int, last: int) -> list[Decimal]:
    limits = (step.scaleb(exponent - 2) for exponent in range(first, last + 1) for step in _STEPS)
    return [Decimal(f"{limit.normalize():f}") for limit in limits]


@dataclass(frozen=True, slots=True)
class CountedLimits:
    """Alerts by limit. `limits` ascend, and `counts` int64[CLASSES, n] has the alerts by class of their transaction."""

    limits: tuple[Decimal, ...]
    counts: Ints

    @property
    def fires(self) -> Ints:
        """The alerts with each limit, int64[n]."""
        total: Ints = self.counts.sum(axis=0)
        return total

    def at(self, positions: Sequence[int]) -> CountedLimits:
        """Some of the limits, at ascending positions."""
        return CountedLimits(tuple(self.limits[i] for i in positions), self.counts[:, list(positions)])

    def shown(self, own: Decimal, transactions: int) -> CountedLimits:
        """At most SHOWN limits between which the counts differ, with the limit `own`, which is one of the limits."""
        distinct, fires, caught = self._roundest(), self.fires, self.counts[FRAUD]
        useful = [i for i in distinct if 0 < fires[i] * _LARGEST_SHARE <= transactions]
        useful = useful if len(useful) >= _FEWEST else distinct
        chosen = {self.limits.index(own)}
        never = [i for i in distinct if fires[i] == 0]
        chosen.update(never[:1])
        if len(useful) <= SHOWN - len(chosen):
            return self.at(sorted(chosen.union(useful)))
        frauds = _spread(useful, caught, _FRAUDS_SHOWN)
        chosen |= frauds
        chosen |= _spread(useful, fires, SHOWN - len(chosen))
        return self.at(sorted(chosen))

    def within(self, alerts: float) -> int | None:
        """The position of the roundest limit with the most alerts, of those with at most `alerts` but at least one."""
        fires = self.fires
        allowed = [i for i in range(len(self.limits)) if 0 < fires[i] <= alerts]
        return min(allowed, key=lambda i: (-fires[i], *self._order(i)), default=None)

    def precise(self, precision: float, *, labelled: bool) -> int | None:
        """The position of the limit that catches most frauds, of those with at least this precision.

        The precision is the share of frauds among the labelled alerts, or among all alerts.
        """
        fires, (_, caught, wrong) = self.fires, self.counts
        base = caught + wrong if labelled else fires
        allowed = [i for i in range(len(self.limits)) if caught[i] > 0 and caught[i] >= precision * base[i]]
        return min(allowed, key=lambda i: (-caught[i], wrong[i], fires[i], *self._order(i)), default=None)

    def _order(self, i: int) -> tuple[int, Decimal]:
        """Round limits first."""
        limit = self.limits[i].normalize()
        return len(limit.as_tuple().digits), abs(limit)

    def _roundest(self) -> list[int]:
        """The roundest limit of each run of equal counts, ascending."""
        changes = np.nonzero((np.diff(self.counts, axis=1) != 0).any(axis=0))[0] + 1
        return [
            min(run.tolist(), key=self._order) for run in np.split(np.arange(len(self.limits)), changes) if len(run)
        ]


def _spread(positions: Sequence[int], counts: Ints, number: int) -> set[int]:
    """About `number` positions whose positive counts are in geometric steps."""
    positive = [i for i in positions if counts[i] > 0]
    if not positive or number <= 0:
        return set()
    logs = np.log([float(counts[i]) for i in positive])
    steps = np.linspace(logs.min(), logs.max(), number)
    return {positive[int(np.abs(logs - step).argmin())] for step in steps}
