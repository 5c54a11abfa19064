"""`own()` in texts of rules: its place, and its digits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.codec.rules.filter import parse_number
from fraud_rules.errors import RuleRejected
from fraud_rules.model.expressions.expression import Digits
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import AggregateCondition, Rule
from tests.support.conformance import load_schema
from tests.support.rules import sum_rule

SCHEMA = load_schema("third_edition")
LIMITS = RuleLimits()
CONDITION = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "windowMinutes": 5}


def read(own_limit: str, **members: Any) -> AggregateCondition:
    rule = sum_rule(**{"limit": 1, "windowMinutes": 5, **members})
    plain = {name: value for name, value in rule.items() if value is not None}
    document = {**plain, "conditions": [{**CONDITION, "limit": own_limit}]}
    change = parse_rule_record(json.dumps(document).encode(), SCHEMA, LIMITS)
    assert isinstance(change, Rule)
    (condition,) = change.conditions
    assert isinstance(condition, AggregateCondition)
    return condition


@pytest.mark.parametrize(
    ("function", "field", "digits"),
    [
        ("SUM", "paymentAmount", (26, 2)),
        ("SUM", "merchantCategory", (29, 0)),
        ("MIN", "paymentAmount", (16, 2)),
        ("MAX", "merchantCategory", (19, 0)),
        ("MAX", "COUNT_FLINK", (1, 0)),
        ("AVG", "paymentAmount", (16, 6)),
        ("STDDEV", "merchantCategory", (19, 6)),
        ("COUNT", None, (19, 0)),
    ],
)
def test_the_digits_are_those_of_the_own_aggregate(function: str, field: str | None, digits: tuple[int, int]) -> None:
    condition = read("own()", aggregatorFunctionType=function, aggregateFieldName=field)
    assert condition.limit_expression is not None
    assert condition.limit_expression.digits == digits


def test_the_text_is_canonical_and_computed_for_each_evaluation() -> None:
    limit = read("OWN( ) *0.80+ paymentAmount").limit_expression
    assert str(limit) == "own() * 0.8 + paymentAmount"
    assert limit is not None and limit.reads_own
    assert limit == parse_number(str(limit), SCHEMA, LIMITS, "conditions[0].limit", Digits(26, 2))
    other = read("paymentAmount * 2").limit_expression
    assert other is not None and not other.reads_own


def test_without_an_own_aggregate_the_value_is_null_and_has_no_digits() -> None:
    own = ("aggregatorFunctionType", "aggregateFieldName", "limitOperatorType", "limit", "windowMinutes")
    condition = read("coalesce(own(), 12.5)", **dict.fromkeys(own))
    assert condition.limit_expression is not None
    assert condition.limit_expression.digits == (2, 1)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("own(1)", "conditions[0].limit: own() has no arguments"),
        ("own() * own()", "conditions[0].limit: 'own() * own()' can have 56 digits"),
        ("owns()", "conditions[0].limit: 'owns' is not a function; did you mean own?"),
        ("previous(own())", "previous needs a declared field, not 'own()'"),
    ],
)
def test_a_limit_that_is_refused(limit: str, message: str) -> None:
    with pytest.raises(RuleRejected) as rejected:
        read(limit)
    assert message in str(rejected.value)


@pytest.mark.parametrize(
    ("members", "member"),
    [({"limit": "own()"}, "limit"), ({"when": "own() > paymentAmount"}, "when"), ({"filter": "own() > 1"}, "filter")],
)
def test_other_members_cannot_read_it(members: dict[str, str], member: str) -> None:
    with pytest.raises(RuleRejected) as rejected:
        read("1", **members)
    assert f"{member}: own() is allowed in the limit of a condition only" in str(rejected.value)
