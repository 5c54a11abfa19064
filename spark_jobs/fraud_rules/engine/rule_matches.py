"""Counts how often the predicates of rules held for the transactions of a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.task_rows import RowRange
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.output import RuleMatches
from fraud_rules.model.ruleset import RuleTimeline


def matches_of_rows(plan: GroupingPlan, rows: RowRange, timeline: RuleTimeline) -> list[RuleMatches]:
    """The matches of rows to which one version of the rules applies. The first key group of a task counts those of all
    its key groups, because the masks are shared."""
    if rows.start > 0:
        return []
    return [_matches(plan, np.array(rows.rows.masks(plan, timeline).counts), 0)]


def matches_of_versions(
    plan: GroupingPlan, versions: NDArray[np.int64], passes: NDArray[np.uint8]
) -> list[RuleMatches]:
    """The matches of rows with different versions. `versions` and `passes` are those of `GroupingState.accept`."""
    return [
        _matches(plan, passes[versions == number].sum(axis=0, dtype=np.int64), number)
        for number in np.unique(versions).tolist()
    ]


def _matches(plan: GroupingPlan, counts: NDArray[np.int64], version: int) -> RuleMatches:
    """The matches of a version of the plan, from the numbers of rows that pass, by column of the masks."""
    first, end = plan.rules.starts[version : version + 2].tolist()
    used = counts[plan.rules.rows[first:end, [at.R_FILTER, at.R_WHEN]]]
    rules = [each.rule.rule_id for each in plan.in_force[first:end]]
    return RuleMatches(rules, used[:, 0].tolist(), used[:, 1].tolist())
