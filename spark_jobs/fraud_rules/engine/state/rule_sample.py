"""The CPU time of each rule in one run of rows, measured at some of the rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.output import RuleCost

TIMED_ROWS: Final = 8
"""The number of rows of a run at which the kernel times the rules."""

NOT_TIMED: Final = np.empty((0, 2), dtype=np.int64)


@dataclass(slots=True)
class RuleSample:
    """Collects the CPU time of the rules of a plan while a grouping state accepts a run of rows.

    The kernel times evaluations in cycles, at each row whose number is a multiple of `every`. Predicates, limits and
    alerts are timed for all rows, in ns of the thread's CPU time.
    """

    timings: NDArray[np.int64]
    every: int
    predicates_ns: list[int] = field(default_factory=list)
    limits_ns: list[int] = field(default_factory=list)
    alerts_ns: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of_run(cls, rules: int, rows: int) -> RuleSample:
        """An empty sample for a run of rows under a plan with so many rules."""
        return cls(np.zeros((rules, 2), dtype=np.int64), max(1, rows // TIMED_ROWS))

    @contextmanager
    def alert_of(self, rule: int) -> Iterator[None]:
        """Time the construction of an alert of a rule, which is given by its number in the plan."""
        began = time.thread_time_ns()
        yield
        self.alerts_ns[rule] = self.alerts_ns.get(rule, 0) + time.thread_time_ns() - began

    def costs(self, plan: GroupingPlan, rows: int, ns_per_cycle: float, timing_cycles: int) -> list[RuleCost]:
        """The cost of each rule that was evaluated. Rules that share a predicate share its time equally. The kernel's
        timing of one evaluation adds `timing_cycles` to it."""
        timed = np.flatnonzero(self.timings[:, 1])
        used = plan.rules.rows[:, [at.R_FILTER, at.R_WHEN]][timed]
        own = np.array([0, *self.predicates_ns], dtype=np.float64)
        users = np.bincount(used[:, 0], minlength=len(own))
        # A rule without a `when` has its filter in both columns.
        apart = used[:, 0] != used[:, 1]
        users += np.bincount(used[apart, 1], minlength=len(own))
        shares = own / np.maximum(users, 1)
        predicates = shares[used[:, 0]] + np.where(apart, shares[used[:, 1]], 0.0)
        limits = self._limit_shares(plan.rules.rows[timed, at.R_LIMIT])
        cycles = self.timings[timed, 0] / self.timings[timed, 1]
        evaluations = np.maximum(cycles - timing_cycles, 0) * ns_per_cycle
        found = []
        for place, rule in enumerate(timed.tolist()):
            whole_run_ns = predicates[place] + limits[place] + self.alerts_ns.get(rule, 0)
            cost_ns = float(evaluations[place] + whole_run_ns / rows)
            found.append(RuleCost(plan.in_force[rule].version, round(cost_ns, 1), rows))
        return found

    def _limit_shares(self, used: NDArray[np.int64]) -> NDArray[np.float64]:
        """The time of the limits of rules, which share it equally. `used` has R_LIMIT of each rule."""
        own = np.array([0, *self.limits_ns], dtype=np.float64)
        shares: NDArray[np.float64] = own[used + 1] / np.bincount(used + 1, minlength=len(own))[used + 1]
        return shares
