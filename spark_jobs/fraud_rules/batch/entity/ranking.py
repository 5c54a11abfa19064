"""Picks the evaluations with the largest shares of their bounds, without an exact description of each.

An entity has an evaluation for each rule and key: 150,000 for 10,000 payments and 1,000 rules. The page shows a few of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.batch.entity.evaluations import LastEvaluation, LastEvaluations
from fraud_rules.engine.window import layout as at
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import Baseline, Operator, Rule
from fraud_rules.model.schema import TransactionSchema

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UPWARDS: Final = (Operator.GREATER, Operator.GREATER_EQUAL)
"""The operators of the rules that have shares: they fire above a bound."""
SHARE_DECIMALS: Final = 4


def with_largest_shares(
    found: Sequence[LastEvaluations], schema: TransactionSchema, most: int | None
) -> list[LastEvaluation]:
    """The `most` evaluations with the largest shares, the largest first. Evaluations without a share are last. Equal
    shares are in the order of rule ids."""
    if not found:
        return []
    ordered = sorted(found, key=lambda each: each.in_force.rule.rule_id)
    shares = np.concatenate([_shares(each, schema) for each in ordered])
    ends = np.cumsum([len(each.output) for each in ordered])
    picked = np.argsort(-shares, kind="stable")[:most]
    parts = np.searchsorted(ends, picked, side="right")
    return [
        ordered[part].at(place - int(ends[part])) for part, place in zip(parts.tolist(), picked.tolist(), strict=True)
    ]


def _shares(found: LastEvaluations, schema: TransactionSchema) -> Floats:
    """The share of the bound for each evaluation; 0 for one without a bound."""
    rule, output = found.in_force.rule, found.output
    if rule.operator not in UPWARDS:
        return np.zeros(len(output))
    values = _values(rule, output, schema)
    bounds = _bounds(found, schema)
    above = bounds > 0
    shares = np.zeros(len(output))
    shares[above] = (values[above] / bounds[above]).round(SHARE_DECIMALS)
    return shares


def _bounds(found: LastEvaluations, schema: TransactionSchema) -> Floats:
    """The bound of each evaluation; 0 for a null limit, and for one with too few payments for a baseline."""
    rule, output = found.in_force.rule, found.output
    if rule.limit_number is None:
        return np.array([0.0 if each is None else float(each) for each in found.limits])
    baseline, limit = rule.baseline, float(rule.limit_number)
    if baseline is None:
        return np.full(len(output), limit)
    values = _baseline_values(rule, baseline, output, schema)
    if not baseline.deviations:
        bounds = limit * values
    elif baseline.aggregates_ones:
        bounds = values
    else:
        bounds = values + limit * _deviations(
            output, at.O_BASE_HIGH, at.O_BASE_VALUES, schema.scale_of(baseline.aggregate_field)
        )
    counts, rows = output[:, at.O_BASE_COUNT], output[:, at.O_BASE_VALUES]
    is_known = (rows > 0) | (baseline.aggregate_function is AggregateFunction.COUNT)
    return np.where(is_known & (counts >= baseline.min_count), bounds, 0.0)


def _values(rule: Rule, output: Ints, schema: TransactionSchema) -> Floats:
    """The aggregates of the rule."""
    if rule.aggregates_ones:
        return np.ones(len(output))
    scale = schema.scale_of(rule.aggregate_field)
    if rule.aggregate_function is AggregateFunction.STDDEV:
        return _deviations(output, at.O_HIGH, at.O_VALUES, scale)
    totals = _totals(output, at.O_HIGH, scale)
    return (
        totals / np.maximum(output[:, at.O_VALUES], 1) if rule.aggregate_function is AggregateFunction.AVG else totals
    )


def _baseline_values(rule: Rule, baseline: Baseline, output: Ints, schema: TransactionSchema) -> Floats:
    if baseline.aggregates_ones:
        return np.ones(len(output))
    totals = _totals(output, at.O_BASE_HIGH, schema.scale_of(baseline.aggregate_field))
    if baseline.is_proportional:
        return totals * (rule.window.reach_ms / baseline.window_ms)
    if baseline.aggregate_function is AggregateFunction.AVG:
        return totals / np.maximum(output[:, at.O_BASE_VALUES], 1)
    return totals


def _totals(output: Ints, high: int, scale: int) -> Floats:
    """The totals whose high word is in column `high`, and the low word in the next."""
    totals: Floats = (output[:, high] * 2.0**32 + output[:, high + 1]) / 10**scale
    return totals


def _deviations(output: Ints, high: int, values: int, scale: int) -> Floats:
    """The standard deviations (population). Their squares need exact integers."""
    counts, exact = output[:, values], output.astype(object)
    totals = exact[:, high] * 2**32 + exact[:, high + 1]
    squares = sum(exact[:, at.O_SQUARE + limb] * 2 ** (32 * limb) for limb in range(4))
    spreads = np.maximum((exact[:, values] * squares - totals * totals).astype(np.float64), 0.0)
    deviations: Floats = np.sqrt(spreads) / np.maximum(counts, 1) / 10**scale
    return deviations
