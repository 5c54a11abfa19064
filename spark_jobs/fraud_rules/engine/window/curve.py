"""Counts how often a rule would have met its condition with other limits, from one pass of evaluations.

An evaluation carries its aggregate, and a limit only changes the comparison. So each point of a curve over many limits
costs one comparison per evaluation. If earlier alerts affect later evaluations (by a cool-down or a reset), the caller
must evaluate one rule per limit instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fraud_rules.engine.window.aggregates import KIND_RESET, aggregate_of
from fraud_rules.engine.window.baseline import is_met_by
from fraud_rules.engine.window.bundles import Ints, RuleArrays
from fraud_rules.engine.window.compiler import compiled
from fraud_rules.engine.window.condition import is_met
from fraud_rules.engine.window.exact import SCRATCH_ROWS, WIDE, Limbs
from fraud_rules.engine.window.layout import MODE_BASELINE, O_HIGH, O_LOW, O_SQUARE, O_VALUES, R_MODE
from fraud_rules.engine.window.plan import NO_MEASURES, compile_plan
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import TransactionSchema

__all__ = ["LimitCurve", "depends_on_alerts"]


def depends_on_alerts(rule: Rule) -> bool:
    """Whether evaluations of the rule depend on its earlier alerts."""
    return bool(rule.cooldown_ms) or aggregate_of(rule).kind == KIND_RESET


class LimitCurve:
    """Alert counts of rules that differ only in their limits and ids, in order of rule id."""

    def __init__(self, rules: Sequence[Rule], schema: TransactionSchema) -> None:
        timeline = RuleTimeline(LogEntry.accepted(i, 0, rule) for i, rule in enumerate(rules))
        self._rules = compile_plan(list(timeline.latest.groupings.values()), schema, NO_MEASURES).rules
        self._limbs: Limbs = np.empty((SCRATCH_ROWS, WIDE), dtype=np.uint64)
        self.counts: Ints = np.zeros(len(rules), dtype=np.int64)

    def add(self, evaluations: Ints) -> None:
        """Count evaluations of one of the rules: int64[n, O_WIDTH] from `GroupingState.accept` with `explain`."""
        if len(self.counts):
            _count(self._rules, self._limbs, evaluations, self.counts)


@compiled
def _count(rules: RuleArrays, scratch: Limbs, evaluations: Ints, counts: Ints) -> None:
    for e in range(evaluations.shape[0]):
        high, low, n = evaluations[e, O_HIGH], evaluations[e, O_LOW], evaluations[e, O_VALUES]
        s0, s1 = evaluations[e, O_SQUARE], evaluations[e, O_SQUARE + 1]
        s2, s3 = evaluations[e, O_SQUARE + 2], evaluations[e, O_SQUARE + 3]
        for r in range(counts.shape[0]):
            if rules.rows[r, R_MODE] == MODE_BASELINE:
                met = is_met_by(rules, r, scratch, evaluations, e)
            else:
                met = is_met(rules, r, scratch, high, low, n, s0, s1, s2, s3)
            if met:
                counts[r] += 1
