"""Decides when a worker process measures the CPU time of rules, so that the measurement itself costs little."""

from __future__ import annotations

import time
from typing import Final

from fraud_rules.engine.state.rule_sample import RuleSample
from fraud_rules.engine.window.instructions import HAS_CYCLES, cycles_now, timing_cycles
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.output import RuleCost
from fraud_rules.model.ruleset import Grouping

INTERVAL_S: Final = 1.0
"""The least time between two samples of a grouping in one process."""

_TIMINGS: Final = 1_000
_S_PER_RULE: Final = 0.002
"""A grouping with many rules is measured less often, because the costs of all its rules go to the driver."""


class RuleMeter:
    """Takes a sample of each grouping once per interval. Without a cycle counter, it takes none."""

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._due: dict[Grouping, float] = {}
        self._began = (time.perf_counter_ns(), cycles_now()) if HAS_CYCLES else None
        self._timing_cycles = timing_cycles(_TIMINGS) if HAS_CYCLES else 0

    def sample(self, fields: Grouping, rules: int, rows: int) -> RuleSample | None:
        """An empty sample if one is due for the grouping, otherwise None."""
        if self._began is None:
            return None
        now_s = time.monotonic()
        # The first sample of a grouping waits for an interval too, because the first calls fill the CPU's caches.
        if now_s < self._due.setdefault(fields, now_s + self._interval_s):
            return None
        self._due[fields] = now_s + max(self._interval_s, rules * _S_PER_RULE)
        return RuleSample.of_run(rules, rows)

    def costs(self, sample: RuleSample, plan: GroupingPlan, rows: int) -> list[RuleCost]:
        """The costs of a completed sample."""
        return sample.costs(plan, rows, self._ns_per_cycle(), self._timing_cycles)

    def _ns_per_cycle(self) -> float:
        assert self._began is not None
        began_ns, began_cycles = self._began
        return float((time.perf_counter_ns() - began_ns) / max(1, cycles_now() - began_cycles))
