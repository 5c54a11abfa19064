"""The alerts that a rule will raise in a day, predicted from those of past days. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

SPAN_DAYS: Final = 30
"""How many days after its approval a rule is compared with its prediction."""

_LEAST_DAYS: Final = 3
_NORMAL: Final = 1.645
_STUDENT: Final = (2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771)
"""The 95% points of Student's distributions with 2, 3, ... degrees of freedom."""
_ANSCOMBE: Final = 0.375
_PRIOR_DAYS: Final = 1
_PRIOR_VARIANCE: Final = 2.0


class LimitRate(msgspec.Struct, frozen=True, rename="camel"):
    """The predicted alerts of a day with another limit."""

    limit: str
    per_day: float
    low: int
    high: int


class Prediction(msgspec.Struct, frozen=True, rename="camel"):
    """The alerts of one more day: from `low` to `high` with a probability of 90%, if the payments stay as they were.

    `counts` are the alerts that the rule would have raised on each past day with data, and `per_day` is their mean.
    `report` is the name of the what-if. `limits` are those of other limits, if the days differ as much with them.
    """

    report: str
    counts: list[int]
    per_day: float
    low: int
    high: int
    limits: tuple[LimitRate, ...] = ()

    def covers(self, alerts: int) -> bool:
        """Whether a day with so many alerts is inside the interval."""
        return self.low <= alerts <= self.high


def predicted(report: str, counts: Sequence[int], limits: Sequence[tuple[str, float]] = ()) -> Prediction | None:
    """Predict the alerts of one more day from those of past days; None from fewer than three days. `limits` are other
    limits with their alerts a day.

    The interval is that of a mean of normal values for `2 * sqrt(count + 3/8)` (Anscombe 1948), whose variance is 1 for
    counts of independent alerts. The variance of few days says little, so another day with a variance of 2 weighs with
    it: alerts come in clusters, and days that are alike by chance do not make the interval much narrower.
    """
    n = len(counts)
    if n < _LEAST_DAYS:
        return None
    values = [_stable(count) for count in counts]
    mean = sum(values) / n
    freedom = n - 1 + _PRIOR_DAYS
    variance = (_PRIOR_DAYS * _PRIOR_VARIANCE + sum((each - mean) ** 2 for each in values)) / freedom
    half = _student(freedom) * math.sqrt(variance * (1 + 1 / n))
    low, high = _interval(mean, half)
    rates = tuple(LimitRate(limit, round(rate, 2), *_interval(_stable(rate), half)) for limit, rate in limits)
    return Prediction(report, list(counts), round(sum(counts) / n, 2), low, high, rates)


def _stable(count: float) -> float:
    return 2 * math.sqrt(count + _ANSCOMBE)


def _interval(mean: float, half: float) -> tuple[int, int]:
    """The whole counts between two of the transformed values."""
    low, high = (max(0.0, (mean + side) / 2) ** 2 - _ANSCOMBE for side in (-half, half))
    return max(0, math.ceil(low)), max(0, math.floor(high))


def _student(freedom: int) -> float:
    return _STUDENT[freedom - 2] if freedom < len(_STUDENT) + 2 else _NORMAL + 1.6 / freedom
