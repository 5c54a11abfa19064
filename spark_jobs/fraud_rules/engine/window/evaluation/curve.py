"""Counts how often a rule would have met its condition with other limits, from one pass of evaluations.

An evaluation carries its aggregate, and a limit only changes the comparison. For an ordering operator, the condition is
linear in the limit, so the limits at which one evaluation fires are adjacent. A binary search finds them, and a curve
over thousands of limits costs a dozen exact comparisons for each evaluation. `=` is `>=` without `>`, and `!=` is `<`
or `>`. If earlier alerts affect later evaluations (by a cool-down or a reset), the caller must evaluate one rule per
limit instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window.bundles import Ints, RuleArrays
from fraud_rules.engine.window.compiler import compiled
from fraud_rules.engine.window.evaluation.aggregate import written_aggregate
from fraud_rules.engine.window.evaluation.baseline import is_met_by
from fraud_rules.engine.window.evaluation.condition import is_met
from fraud_rules.engine.window.evaluation.exact import SCRATCH_ROWS, WIDE, Limbs
from fraud_rules.engine.window.layout import MODE_BASELINE, R_MODE
from fraud_rules.engine.window.plan import NO_MEASURES, compile_plan
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import Operator, Rule, RuleState
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import TransactionSchema

Classes = NDArray[np.int8]

_PARTS: Final = {
    Operator.EQUAL: ((Operator.GREATER_EQUAL, 1), (Operator.GREATER, -1)),
    Operator.NOT_EQUAL: ((Operator.LESS, 1), (Operator.GREATER, 1)),
}
"""The ordering operators whose results add up to that of an operator, with their signs."""


def depends_on_alerts(rule: Rule) -> bool:
    """Whether evaluations of the rule depend on its earlier alerts."""
    return bool(rule.cooldown_ms) or rule.aggregate_function is AggregateFunction.COUNT_WITH_RESET


class LimitCurve:
    """The alerts of a rule with each of `limits`, by class of the transaction."""

    def __init__(self, rule: Rule, limits: Sequence[Decimal], schema: TransactionSchema, classes: int = 1) -> None:
        """`limits` ascend. The rule's selection has no effect, because its evaluations already satisfy it."""
        plain = replace(rule, when=None, rollout=None, state=RuleState.ACTIVE)
        parts = _PARTS.get(rule.operator, ((rule.operator, 1),)) if limits else ()
        self._parts = [(_compiled(replace(plain, operator=each), limits, schema), sign) for each, sign in parts]
        self._limbs: Limbs = np.empty((SCRATCH_ROWS, WIDE), dtype=np.uint64)
        self._steps: Ints = np.zeros((classes, len(limits) + 1), dtype=np.int64)

    @property
    def counts(self) -> Ints:
        """The number of alerts, int64[classes, limits]."""
        return np.cumsum(self._steps, axis=1)[:, :-1]

    def add(self, evaluations: Ints, classes: Classes) -> None:
        """Count evaluations of the rule: int64[n, O_WIDTH] from `GroupingState.accept` with `explain`, and the class
        of each one's transaction, int8[n].
        """
        for rules, sign in self._parts:
            _count(rules, self._limbs, evaluations, classes, sign, self._steps)


def _compiled(rule: Rule, limits: Sequence[Decimal], schema: TransactionSchema) -> RuleArrays:
    rules = (replace(rule, rule_id=i, limit=limit) for i, limit in enumerate(limits, 1))
    timeline = RuleTimeline(LogEntry.accepted(i, 0, each) for i, each in enumerate(rules))
    return compile_plan(list(timeline.latest.groupings.values()), schema, NO_MEASURES).rules


@compiled
def _meets(rules: RuleArrays, scratch: Limbs, evaluations: Ints, e: int, r: int) -> bool:
    if rules.rows[r, R_MODE] == MODE_BASELINE:
        met: bool = is_met_by(rules, r, scratch, evaluations, e)
    else:
        met = is_met(rules, r, scratch, written_aggregate(evaluations, e))
    return met


@compiled
def _count(rules: RuleArrays, scratch: Limbs, evaluations: Ints, classes: Classes, sign: int, steps: Ints) -> None:
    """Add to `steps` where the limits at which each evaluation fires begin, and where they end."""
    last = steps.shape[1] - 2
    for e in range(evaluations.shape[0]):
        at_first = _meets(rules, scratch, evaluations, e, 0)
        low, high = 0, last
        if at_first == _meets(rules, scratch, evaluations, e, last):
            if not at_first:
                continue
            low = last
        while high - low > 1:
            middle = (low + high) // 2
            if _meets(rules, scratch, evaluations, e, middle) == at_first:
                low = middle
            else:
                high = middle
        if at_first:
            steps[classes[e], 0] += sign
            steps[classes[e], low + 1] -= sign
        else:
            steps[classes[e], high] += sign
            steps[classes[e], last + 1] -= sign
