"""The limits of rows: each is compiled to what a rule with this limit as a literal has."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.engine.state.row_limits import row_limits
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.plan import NO_MEASURES, GroupingPlan, compile_plan
from fraud_rules.model.expressions.unscaled import unscaled_text
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Operator, Rule
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.transaction import Column
from fraud_rules.model.window import Window
from tests.support.conformance import load_schema
from tests.support.rules import count_rule

SCHEMA = load_schema("nullable")
COMPARED = [
    at.R_OPERATOR, at.R_LIMIT_NEGATIVE, at.R_NEGATE, at.R_FROM_HIGH, at.R_FROM_LOW, at.R_TO_HIGH, at.R_TO_LOW,
]  # fmt: skip
AGGREGATES = [
    ("SUM", "paymentAmount"), ("AVG", "points"), ("AVG", "paymentAmount"), ("STDDEV", "points"), ("COUNT", "points"),
    ("MAX", "COUNT_FLINK"), ("MIN", "points"),
]  # fmt: skip
SCALES = {
    "points": 0,
    "paymentAmount": 2,
    "paymentAmount / 3": 6,
    "round(points, 3)": 3,
    f"length(paymentType) * 0.{1:022}": 22,
}


def planned(limit: str, operator: str, function: str, field: str) -> GroupingPlan:
    own = {"aggregatorFunctionType": function, "aggregateFieldName": field, "limitOperatorType": operator}
    members = count_rule(limit=limit, windowSeconds=60, **own)
    rule = parse_rule_record(json.dumps(members).encode(), SCHEMA, RuleLimits())
    assert isinstance(rule, Rule)
    timeline = RuleTimeline([LogEntry.accepted(0, 0, rule)])
    return compile_plan(list(timeline.latest.groupings.values()), SCHEMA, NO_MEASURES)


def column_of(numbers: list[int | None]) -> Column:
    """Unscaled values. Those beyond an int64 make the column one of Python integers."""
    values = [0 if number is None else number for number in numbers]
    fits = all(-(2**63) <= value < 2**63 for value in values)
    valid = np.array([number is not None for number in numbers])
    return Column(np.array(values, dtype=np.int64 if fits else object), None if valid.all() else valid, None)


@given(
    st.sampled_from(Operator),
    st.sampled_from(AGGREGATES),
    st.sampled_from(list(SCALES)),
    st.lists(
        st.one_of(
            st.none(),
            st.integers(-10, 10),
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(10**36), 10**36),
            st.sampled_from([-(2**63), 2**63 - 1, 2**93 - 1, 2**93, -(2**93) - 1]),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_the_limit_of_a_row_is_compiled_as_a_literal(
    operator: Operator, aggregate: tuple[str, str], text: str, numbers: list[int | None]
) -> None:
    plan = planned(text, operator.value, *aggregate)
    assert plan.limits[0].expression.digits.after == SCALES[text]
    found = row_limits(plan.rules, plan.limits, [column_of(numbers)], len(numbers))
    for i, number in enumerate(numbers):
        if number is None:
            continue
        literal = planned(unscaled_text(number, SCALES[text]), operator.value, *aggregate).rules
        assert found.rows[i, COMPARED].tolist() == literal.rows[0, COMPARED].tolist()
        if len(found.limits):
            # The fraction of a row is not reduced.
            assert value_of(found.limits[i]) * value_of(literal.scales[0]) == value_of(literal.limits[0]) * value_of(
                found.scales[i]
            )
            assert found.ratios[i] == pytest.approx(float(literal.ratios[0]), rel=1e-14)


def value_of(limbs: Any) -> int:
    return sum(int(limb) << (32 * k) for k, limb in enumerate(limbs))


@pytest.mark.parametrize("operator", Operator)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_with_null_the_condition_never_holds(operator: Operator, aggregate: tuple[str, str]) -> None:
    plan = planned("points", operator.value, *aggregate)
    row = row_limits(plan.rules, plan.limits, [column_of([None])], 1).rows[0]
    assert row[at.R_OPERATOR] == at.OP_NEVER
    assert (row[at.R_FROM_HIGH] > row[at.R_TO_HIGH], row[at.R_NEGATE]) == (True, 0)


def test_rules_with_one_comparison_share_a_limit() -> None:
    plan = planned("points", ">", "SUM", "points")
    timeline = RuleTimeline([])
    rule = plan.in_force[0].rule
    for version, changed in enumerate(
        [rule, _with(rule, rule_id=2, window=Window(1)), _with(rule, rule_id=3, limit=Decimal(5))]
    ):
        timeline = timeline.extended([LogEntry.accepted(version, 0, changed)])
    together = compile_plan(list(timeline.latest.groupings.values()), SCHEMA, NO_MEASURES)
    assert together.rules.rows[:, at.R_LIMIT].tolist() == [0, 0, -1]
    assert (len(together.limits), together.rules.row_limits) == (1, 1)


def _with(rule: Rule, **members: Any) -> Rule:
    return replace(rule, **members)
