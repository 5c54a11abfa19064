"""Figures with their targets, and groups of rows that measure them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.lab import Lab


@dataclass(frozen=True, slots=True)
class Target:
    """A bound to reach: `at_least` or `at_most`, inclusive, in the figure's unit."""

    bound: float
    at_least: bool

    def reached(self, value: float) -> bool:
        """Whether a value reaches the target."""
        return value >= self.bound if self.at_least else value <= self.bound


def at_least(bound: float) -> Target:
    """A lower bound."""
    return Target(bound, at_least=True)


def at_most(bound: float) -> Target:
    """An upper bound."""
    return Target(bound, at_least=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: the `key` of its values, its title and its unit. The page shows a `promise`, and a missed
    target; other figures are only saved."""

    key: str
    title: str
    unit: str
    target: Target | None = None
    promise: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a run. `share` scales the sizes of loads; a steady load lasts `steady_s`, of which
    the first `skip_s` are not measured."""

    share: float = 1.0
    steady_s: float = 40.0
    skip_s: float = 15.0
    soak_minutes: float = 0.0

    def of(self, count: int, least: int = 1) -> int:
        """A count at this scale, at least `least`."""
        return max(least, int(count * self.share))


QUICK = Scale(share=0.1, steady_s=10.0, skip_s=4.0)


@dataclass(frozen=True, slots=True)
class Rows:
    """Figures that one measurement returns together.

    `measure` makes one run. It returns the values by the figures' keys, and other values to save. Without
    `needs_broker` its lab is None. A `soak` runs once, and only on request.
    """

    name: str
    title: str
    how: str
    figures: tuple[Figure, ...]
    measure: Callable[[Lab, Scale], Mapping[str, float]]
    needs_broker: bool = True
    soak: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of one figure over the runs."""

    values: tuple[float, ...]

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def middle(self) -> float:
        return median(self.values)

    @property
    def most(self) -> float:
        return max(self.values)


def spread(runs: Sequence[Mapping[str, float]], key: str) -> Spread | None:
    """A figure's values over the runs that have it; None without any."""
    values = tuple(run[key] for run in runs if key in run)
    return Spread(values) if values else None
