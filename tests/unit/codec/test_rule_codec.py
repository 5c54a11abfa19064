"""Rule records: accepted records with their rules, rejected records with their reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from fraud_rules.codec.rules.codec import encode_document, parse_rule_document, parse_rule_record, read_entry
from fraud_rules.errors import RuleRejected
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import (
    AggregateCondition,
    Baseline,
    Control,
    ControlType,
    Operator,
    Rule,
    RuleAction,
    RuleDeletion,
    RuleState,
)
from fraud_rules.model.window import Calendar, Window
from tests.support.places import CASES
from tests.support.rules import DEMO_RULE, LEFT_OUT, LIMITS, SCHEMA, record

IN_CALENDAR = {"windowMinutes": LEFT_OUT, "windowCalendar": "WEEK"}


def parse(value: bytes | None) -> Any:
    return parse_rule_record(value, SCHEMA, LIMITS)


def reasons(value: bytes | None) -> dict[str, list[str]]:
    """The reasons of a rejection by member."""
    with pytest.raises(RuleRejected) as rejected:
        parse(value)
    by_member: dict[str, list[str]] = {}
    for reason in rejected.value.reasons:
        by_member.setdefault(reason.field, []).append(reason.message)
    return by_member


def test_a_rule_of_the_demo_is_accepted_as_it_is() -> None:
    rule = parse(record())
    assert rule == Rule(
        rule_id=1,
        state=RuleState.ACTIVE,
        grouping=("beneficiaryId", "payeeId"),
        aggregate_function=AggregateFunction.SUM,
        aggregate_field="paymentAmount",
        unique=(),
        operator=Operator.GREATER,
        limit=Decimal(20),
        window=Window(1_200_000),
        document=DEMO_RULE,
    )


def test_every_rule_of_the_conformance_cases_is_accepted() -> None:
    cases = [case for path in CASES.glob("se*.json") for case in json.loads(path.read_text())["cases"]]
    records = [step["rule"] for case in cases for step in case["steps"] if "rule" in step]
    assert records
    for members in records:
        parse(json.dumps(members).encode())


def test_a_baseline_inherits_the_members_that_it_does_not_have() -> None:
    rule = parse(record(filter="paymentType = 'CSH'", baseline={"windowMinutes": "60", "minCount": "3"}))
    assert rule.baseline == Baseline(3_600_000, AggregateFunction.SUM, "paymentAmount", rule.filter, 3)
    assert rule.reach_ms == rule.window.reach_ms + 3_600_000
    assert rule.document["baseline"] == {"windowMinutes": 60, "minCount": 3}


def test_an_empty_filter_of_a_baseline_means_none() -> None:
    baseline = parse(record(filter="paymentType = 'CSH'", baseline={"windowSeconds": 5, "filter": ""})).baseline
    assert baseline is not None
    assert baseline.filter is None


@pytest.mark.parametrize("member", ["controlType", "unique"])
def test_the_nulls_of_the_demos_own_serializer_count_as_absent(member: str) -> None:
    rule = parse(record(**{member: None}))
    assert member not in rule.document


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(50),(20)", {"limit": Decimal(50)}),
        ("1,(active),(payeeId&beneficiaryId),,(paymentAmount),(sum),(LESS),(0.30),(20)\n", {"limit": Decimal("0.30")}),
        (
            "1,(pause),(paymentType),,(COUNT_FLINK),(SUM),(>=),(300),(1440)",
            {"aggregate_function": AggregateFunction.COUNT},
        ),
        ("1,active,payeeId,,paymentAmount,AVG,<,-5,1", {"limit": Decimal(-5), "window": Window(60_000)}),
        ("1,(active),,,(paymentAmount),(SUM),(>),(50),(20)", {"grouping": ()}),
        (
            "1,(active),(payeeId),,(COUNT_FLINK),(MAX),(>),(50),(20)",
            {"aggregate_function": AggregateFunction.MAX, "aggregates_ones": True},
        ),
        ("1,(shadow),(payeeId),(beneficiaryId),,(COUNT_DISTINCT),(>),(3),(20)", {"unique": ("beneficiaryId",)}),
        (
            "1,(active),(payeeId),,(COUNT_WITH_RESET_FLINK),(SUM),(=),(3),(9)",
            {"aggregate_function": AggregateFunction.COUNT_WITH_RESET, "aggregate_field": None},
        ),
    ],
)
def test_the_text_form(line: str, expected: dict[str, object]) -> None:
    rule = parse(line.encode())
    assert {name: getattr(rule, name) for name in expected} == expected


def test_both_forms_of_a_rule_are_the_same_rule() -> None:
    line = b"1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(GREATER),(20),(20)"
    assert parse(line) == parse(record())


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (b'{"ruleId": 7, "ruleState": "DELETE"}', RuleDeletion(7)),
        (record(ruleState="DELETE"), RuleDeletion(1)),
        (record(disabled=True), RuleDeletion(1)),
        (b'{"ruleId": 7, "disabled": true}', RuleDeletion(7)),
        (b'{"ruleId": 7, "disabled": true, "ruleState": "ACTIVE", "limit": "not looked at"}', RuleDeletion(7)),
        (b"1,(delete),(paymentType),,(paymentAmount),(SUM),(>),(50),(20)", RuleDeletion(1)),
        *(
            (json.dumps({"ruleState": "CONTROL", "controlType": control}).encode(), Control(control))
            for control in ControlType
        ),
        (b'{"ruleId": null, "ruleState": "CONTROL", "limit": null, "controlType": "CLEAR_STATE_ALL"}',
         Control(ControlType.CLEAR_STATE_ALL)),
    ],
)  # fmt: skip
def test_deletions_and_controls(value: bytes, change: object) -> None:
    assert parse(value) == change


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"limit": "0.30"}, {"limit": Decimal("0.30")}),
        ({"limit": "1e3"}, {"limit": Decimal(1000)}),
        ({"limit": "-0"}, {"limit": Decimal(0)}),
        ({"limit": "9" * 38}, {"limit": Decimal("9" * 38)}),
        ({"limitOperatorType": "<="}, {"operator": Operator.LESS_EQUAL}),
        ({"limitOperatorType": "NOT_EQUAL"}, {"operator": Operator.NOT_EQUAL}),
        ({"groupingKeyNames": ["payerId"]}, {"grouping": ("payeeId",)}),
        ({"groupingKeyNames": []}, {"grouping": ()}),
        (
            {"aggregateFieldName": "COUNT_FLINK", "aggregatorFunctionType": "AVG"},
            {"aggregate_function": AggregateFunction.AVG, "aggregate_field": None, "aggregates_ones": True},
        ),
        ({"windowMinutes": LEFT_OUT, "windowSeconds": 7}, {"window": Window(7_000)}),
        ({"windowMinutes": 43_200}, {"window": Window(2_592_000_000)}),
        (IN_CALENDAR, {"window": Window(171 * 3_600_000, Calendar.WEEK, "UTC"), "reach_ms": 171 * 3_600_000}),
        ({**IN_CALENDAR, "zone": "Asia/Tokyo"}, {"window": Window.of_calendar(Calendar.WEEK, "Asia/Tokyo")}),
        ({"cooldownSeconds": 60}, {"cooldown_ms": 60_000}),
        ({"action": "RESTRICT"}, {"action": RuleAction.RESTRICT}),
        ({"weight": 0}, {"weight": 0}),
        ({"weight": "1000", "severity": "low"}, {"weight": 1_000}),
        ({}, {"weight": 25}),
        ({"severity": "low"}, {"weight": 10}),
        ({"severity": "Critical"}, {"weight": 100}),
        ({"severity": "odd"}, {"weight": 25}),
        ({"force": True}, {"force": True}),
        ({"warmUp": True}, {"warm_up": True}),
        ({"source": "seed"}, {"source": "seed"}),
        ({"disabled": False}, {"state": RuleState.ACTIVE}),
        ({"ruleState": "SHADOW"}, {"shadow": True, "evaluated": True}),
        ({"ruleState": "PAUSE"}, {"shadow": False, "evaluated": False, "alerts": False}),
        ({"ruleState": "SIGNAL"}, {"shadow": False, "evaluated": True, "alerts": False}),
        ({"aggregatorFunctionType": "COUNT", "aggregateFieldName": "whatever"}, {"aggregate_field": None}),
        ({"aggregatorFunctionType": "COUNT", "aggregateFieldName": LEFT_OUT}, {"aggregate_field": None}),
        ({"aggregatorFunctionType": "STDDEV", "aggregateFieldName": "payerId"}, {"aggregate_field": "payeeId"}),
        (
            {"aggregatorFunctionType": "COUNT_DISTINCT", "unique": ["paymentType", "beneficiaryId"]},
            {"unique": ("beneficiaryId", "paymentType"), "aggregate_field": None},
        ),
        ({"name": "N", "description": "D", "severity": "high", "owner": "me"}, {"rule_id": 1}),
    ],
)
def test_members(changes: dict[str, object], expected: dict[str, object]) -> None:
    rule = parse(record(**changes))
    assert {name: getattr(rule, name) for name in expected} == expected


def test_a_setting_bounds_calendar_windows() -> None:
    limits = replace(LIMITS, max_calendar_window="WEEK")
    assert parse_rule_record(record(**IN_CALENDAR), SCHEMA, limits)
    with pytest.raises(RuleRejected, match="must be at most WEEK, not MONTH"):
        parse_rule_record(record(**{**IN_CALENDAR, "windowCalendar": "MONTH"}), SCHEMA, limits)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("paymentAmount*2", "paymentAmount * 2"),
        ("coalesce(paymentAmount, 1000) / 3", "coalesce(paymentAmount, 1000) / 3"),
        ("-(payeeId)", "-payeeId"),
        ("2 * 3", "2 * 3"),
    ],
)
def test_a_limit_that_is_a_text_and_no_number_is_an_expression(text: str, canonical: str) -> None:
    rule = parse(record(limit=text))
    assert (rule.limit_number, rule.limit_text, rule.document["limit"]) == (None, canonical, text)
    assert parse(record(limit=canonical)).limit == rule.limit


def test_a_rollout_is_for_the_keys_of_its_grouping() -> None:
    rule = parse(record(rolloutPercent="37"))
    assert (rule.rollout.rule_id, rule.rollout.percent) == (1, 37)
    assert [each.name for each in rule.rollout.key] == ["beneficiaryId", "payeeId"]
    assert (rule.document["rolloutPercent"], rule.selection) == (37, rule.rollout)
    assert parse(record(rolloutPercent=100)).rollout is None


def test_a_rollout_restricts_what_is_evaluated() -> None:
    plain, filtered = parse(record()), parse(record(filter="payeeId > 1"))
    assert (plain.selection, filtered.selection) == (None, None)
    rollout = {"rolloutPercent": 5}
    assert str(parse(record(filter="payeeId > 1", **rollout)).selection).endswith(" and payeeId > 1")
    both = parse(record(filter="payeeId > 1", when="payeeId > 2 and payeeId > 3", **rollout)).selection
    assert [str(each) for each in both.items][1:] == ["payeeId > 2", "payeeId > 3"]


COUNTED = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 3, "windowMinutes": "60"}
NO_AGGREGATE = dict.fromkeys(
    ("aggregatorFunctionType", "aggregateFieldName", "limitOperatorType", "limit", "windowMinutes"), LEFT_OUT
)


def test_a_condition_inherits_the_field_and_the_filter_of_its_rule() -> None:
    summed = {**COUNTED, "aggregatorFunctionType": "SUM", "limit": "length(paymentType)", "unique": None}
    rule = parse(record(filter="payeeId = 1", conditions=[COUNTED, summed, {**COUNTED, "filter": ""}]))
    counted, by_field, unfiltered = rule.conditions
    assert counted == AggregateCondition(
        AggregateFunction.COUNT, None, (), Operator.GREATER_EQUAL, Decimal(3), Window(3_600_000), rule.filter
    )
    assert (by_field.aggregate_field, by_field.limit_text) == ("paymentAmount", "length(paymentType)")
    assert (by_field.filter, unfiltered.filter) == (rule.filter, None)
    assert (rule.reach_ms, rule.has_aggregate, rule.required) == (3_600_000, True, 3)
    assert rule.fields > {"paymentType"}
    shown = {name: value for name, value in summed.items() if value is not None}
    assert rule.document["conditions"][1] == {**shown, "windowMinutes": 60}


@pytest.mark.parametrize(
    ("require", "required"), [(LEFT_OUT, 2), ("all", 2), ("any", 1), ("none", 0), (1, 1), ("2", 2), (None, 2)]
)
def test_the_number_of_conditions_that_must_hold(require: object, required: int) -> None:
    assert parse(record(conditions=[COUNTED, COUNTED], require=require)).required == required


def test_a_rule_may_have_conditions_only() -> None:
    rule = parse(record(**NO_AGGREGATE, unique=[], conditions=[COUNTED]))
    assert (rule.has_aggregate, rule.window, rule.reach_ms) == (False, Window(0), 3_600_000)


@pytest.mark.parametrize(
    ("changes", "member", "message"),
    [
        ({"conditions": []}, "conditions", "must be a list of 1 to 8 objects"),
        ({"conditions": [COUNTED] * 9}, "conditions", "must be a list of 1 to 8 objects"),
        ({"conditions": COUNTED}, "conditions", "must be a list of 1 to 8 objects"),
        ({"conditions": [COUNTED, 3]}, "conditions[1]", "must be an object, not 3"),
        ({"conditions": [COUNTED, {"ruleId": 0}]}, "conditions[1].ruleId", "must be a whole number"),
        ({"conditions": [{"ruleId": 2, "filter": ""}]}, "conditions[0].ruleId", "cannot be beside 'filter'"),
        ({"conditions": [{**COUNTED, "limit": "paymentAmount +"}]}, "conditions[0].limit", "is incomplete"),
        ({"conditions": [{**COUNTED, "limit": None}]}, "conditions[0].limit", "is required"),
        ({"conditions": [{**COUNTED, "when": "payeeId = 1"}]}, "conditions[0].when", "is not a member of a condition"),
        ({"conditions": [{**COUNTED, "baseline": {}}]}, "conditions[0].baseline", "is not a member of a condition"),
        ({"conditions": [{**COUNTED, "windowSeconds": 1}]}, "conditions[0].windowSeconds", "beside windowMinutes"),
        ({"conditions": [{**COUNTED, "filter": "x"}]}, "conditions[0].filter", "x"),
        (
            {"conditions": [{**COUNTED, "aggregatorFunctionType": "COUNT_WITH_RESET"}]},
            "conditions[0].aggregatorFunctionType",
            "must be another function in a condition",
        ),
        ({"require": "any"}, "require", "is for a rule with conditions only"),
        ({"conditions": [COUNTED], "require": 2}, "require", "must be all, any, none, or a number from 1 to 1, not 2"),
        ({"conditions": [COUNTED], "require": 0}, "require", "not 0"),
        ({"conditions": [COUNTED], "limit": LEFT_OUT}, "limit", "is required"),
        (
            {**NO_AGGREGATE, "conditions": [{**COUNTED, "limit": "previous(paymentAmount)"}]},
            "conditions[0].limit",
            "reads the previous payment, which needs a window of the rule's own",
        ),
    ],
)
def test_a_fault_of_a_condition_is_named(changes: dict[str, object], member: str, message: str) -> None:
    (found,) = reasons(record(**changes)).items()
    assert found[0] == member
    assert message in found[1][0]


def test_the_limit_of_a_condition_looks_values_up_and_reads_the_previous_payment() -> None:
    limit = "coalesce(map('limits', payeeId), previous(paymentAmount))"
    rule = parse(record(conditions=[{**COUNTED, "limit": limit}]))
    assert (list(rule.maps), rule.previous_fields) == (["limits"], ("paymentAmount",))


def test_a_fault_of_an_inherited_member_is_named_once() -> None:
    assert list(reasons(record(filter="payeeId =", conditions=[COUNTED]))) == ["filter"]


def test_the_fields_a_rule_reads() -> None:
    counted = record(
        aggregatorFunctionType="COUNT_DISTINCT", unique=["paymentType"], filter="ingestionTimestamp is null"
    )
    assert parse(record()).fields == {"payeeId", "beneficiaryId", "paymentAmount"}
    assert parse(record(limit="length(paymentType)")).fields > {"paymentType"}
    assert parse(counted).fields == {"payeeId", "beneficiaryId", "paymentType", "ingestionTimestamp"}


@pytest.mark.parametrize(
    ("changes", "member", "message"),
    [
        ({"ruleId": 0}, "ruleId", "must be a whole number from 1"),
        ({"ruleId": True}, "ruleId", "not true"),
        ({"ruleId": 1.0}, "ruleId", "not 1.0"),
        ({"ruleId": LEFT_OUT}, "ruleId", "is required"),
        ({"ruleState": "active"}, "ruleState", "must be one of ACTIVE"),
        ({"ruleState": LEFT_OUT}, "ruleState", "is required"),
        ({"ruleState": "CONTROL"}, "controlType", "is required"),
        ({"ruleState": "CONTROL", "controlType": "CLEAR"}, "controlType", "must be one of CLEAR_STATE_ALL"),
        ({"controlType": "CLEAR_STATE_ALL"}, "controlType", "is for ruleState CONTROL only"),
        ({"groupingKeyNames": LEFT_OUT}, "groupingKeyNames", "is required: declared fields, or []"),
        ({"groupingKeyNames": None}, "groupingKeyNames", "is required"),
        ({"groupingKeyNames": "payeeId"}, "groupingKeyNames", "must be a list"),
        ({"groupingKeyNames": ["payeeId", "payerId"]}, "groupingKeyNames", "names the field payeeId a second time"),
        ({"groupingKeyNames": ["payee"]}, "groupingKeyNames", "'payee' is not a declared field"),
        ({"groupingKeyNames": ["payeeId"] * 17}, "groupingKeyNames", "has 17 fields"),
        ({"unique": ["paymentType"]}, "unique", "is for COUNT_DISTINCT only"),
        ({"aggregatorFunctionType": "COUNT_DISTINCT"}, "unique", "is required with COUNT_DISTINCT"),
        ({"aggregatorFunctionType": "MEDIAN"}, "aggregatorFunctionType", "must be one of SUM"),
        ({"aggregateFieldName": "paymentType"}, "aggregateFieldName", "SUM needs a number"),
        ({"aggregateFieldName": LEFT_OUT}, "aggregateFieldName", "is required"),
        ({"aggregateFieldName": 5}, "aggregateFieldName", "must be a field's name"),
        (
            {"aggregateFieldName": "COUNT_FLINK", "aggregatorFunctionType": "STDDEV"},
            "aggregatorFunctionType",
            "must be SUM, AVG, MIN or MAX",
        ),
        (
            {"aggregateFieldName": "COUNT_WITH_RESET_FLINK", "aggregatorFunctionType": "MAX"},
            "aggregatorFunctionType",
            "must be SUM",
        ),
        ({"limitOperatorType": "=="}, "limitOperatorType", "must be one of ="),
        ({"limitOperatorType": None}, "limitOperatorType", "is required"),
        ({"limit": "abc"}, "limit", "'abc' is not a declared field"),
        ({"limit": "NaN"}, "limit", "'NaN' is not a declared field"),
        ({"limit": " "}, "limit", "must be a decimal number or an expression, not ' '"),
        ({"limit": []}, "limit", "must be a decimal number or an expression"),
        ({"limit": "5."}, "limit", "cannot be read from character 1 on: '5.'"),
        ({"limit": "paymentType"}, "limit", "paymentType is a string; a number is required here (at character 1)"),
        ({"limit": "payeeId > 5"}, "limit", "'payeeId > 5' is a boolean; a number is required here"),
        ({"limit": "'5'"}, "limit", "'5' is a text; a number is required here"),
        ({"limit": "payeeId * payeeId * payeeId"}, "limit", "at most 38 are allowed"),
        (
            {"limit": "payeeId + 1", "baseline": {"windowMinutes": 1}},
            "limit",
            "must be a number in a rule with a baseline",
        ),
        (
            {
                "aggregatorFunctionType": "AVG",
                "limit": "payeeId",
                "baseline": {"windowMinutes": 1, "deviations": True},
            },
            "limit",
            "must be a number in a rule with a baseline",
        ),
        ({"rolloutPercent": 0}, "rolloutPercent", "must be a whole number from 1 to 100, not 0"),
        ({"rolloutPercent": 101}, "rolloutPercent", "must be a whole number from 1 to 100, not 101"),
        ({"rolloutPercent": 2.5}, "rolloutPercent", "must be a whole number"),
        ({"rolloutPercent": 50, "groupingKeyNames": []}, "rolloutPercent", "needs groupingKeyNames"),
        ({"limit": float("nan")}, "limit", "is NaN, which is not a number"),
        ({"limit": "1" * 39}, "limit", "has more than 38 digits"),
        ({"limit": "1e300"}, "limit", "has more than 38 digits"),
        ({"limit": "1e-39"}, "limit", "has more than 38 digits"),
        ({"limit": "٣"}, "limit", "cannot be read from character 1 on"),
        ({"limit": None}, "limit", "is required"),
        ({"windowMinutes": 43_201}, "windowMinutes", "from 1 to 43200"),
        ({"windowMinutes": 10**30}, "windowMinutes", "from 1 to 43200"),
        ({"windowMinutes": "20.0"}, "windowMinutes", "not '20.0'"),
        ({"windowMinutes": LEFT_OUT}, "windowMinutes", "is required (or windowSeconds or windowCalendar)"),
        ({"windowSeconds": 60}, "windowSeconds", "is given beside windowMinutes"),
        ({"windowCalendar": "DAY"}, "windowCalendar", "is given beside windowMinutes"),
        ({**IN_CALENDAR, "windowCalendar": "YEAR"}, "windowCalendar", "must be one of DAY, WEEK, MONTH, not 'YEAR'"),
        ({**IN_CALENDAR, "zone": "Berlin"}, "zone", "must be a time zone such as Europe/Berlin, not 'Berlin'"),
        ({**IN_CALENDAR, "zone": 1}, "zone", "must be text"),
        ({"zone": "UTC"}, "zone", "is for windowCalendar only"),
        ({**IN_CALENDAR, "baseline": {"windowMinutes": 60}}, "baseline", "needs windowMinutes or windowSeconds"),
        ({"cooldownSeconds": -1}, "cooldownSeconds", "must be a whole number from 1"),
        ({"weight": 1_001}, "weight", "must be a whole number from 0 to 1000, not 1001"),
        ({"weight": -1}, "weight", "must be a whole number from 0 to 1000"),
        ({"weight": 2.5}, "weight", "must be a whole number"),
        ({"action": "BLOCK"}, "action", "must be one of ALERT, RESTRICT"),
        ({"force": "yes"}, "force", "must be true or false"),
        ({"warmUp": 1}, "warmUp", "must be true or false"),
        ({"disabled": 1}, "disabled", "must be true or false"),
        ({"source": "Some Tool"}, "source", "short lower-case word"),
        ({"name": 5}, "name", "must be text"),
        ({"name": "\x00"}, "name", "NUL"),
        ({"owner": "\ud800"}, "owner", "surrogate"),
        ({"description": "x" * 2_001}, "description", "has 2001 characters"),
        ({"filter": "amount > 5"}, "filter", "'amount' is not a declared field"),
        ({"filter": {"and": []}}, "filter", "must be text"),
        ({"when": "amount > 5"}, "when", "'amount' is not a declared field"),
        ({"when": 5}, "when", "must be text"),
        ({"baseline": 5}, "baseline", "must be an object, not 5"),
        ({"baseline": {"windowMinutes": 0}}, "baseline.windowMinutes", "from 1 to 43200"),
        ({"baseline": {}}, "baseline.windowMinutes", "is required (or windowSeconds)"),
        ({"baseline": {"windowMinutes": 1, "windowSeconds": 1}}, "baseline.windowSeconds", "beside windowMinutes"),
        ({"baseline": {"windowMinutes": 43_200}}, "baseline", "longer than 43200 minutes together"),
        ({"baseline": {"windowMinutes": 1, "minCounts": 1}}, "baseline.minCounts", "did you mean minCount?"),
        ({"baseline": {"windowMinutes": 1, "minCount": 0}}, "baseline.minCount", "whole number from 1"),
        ({"baseline": {"windowMinutes": 1, "deviations": "yes"}}, "baseline.deviations", "must be true or false"),
        (
            {"baseline": {"windowMinutes": 1, "aggregatorFunctionType": "COUNT_DISTINCT"}},
            "baseline.aggregatorFunctionType",
            "must be one of SUM, COUNT, AVG, MIN, MAX",
        ),
        (
            {"baseline": {"windowMinutes": 1, "aggregateFieldName": "paymentType"}},
            "baseline.aggregateFieldName",
            "SUM needs a number",
        ),
        ({"baseline": {"windowMinutes": 1, "filter": "nowhere = 1"}}, "baseline.filter", "not a declared field"),
        (
            {"baseline": {"windowMinutes": 1, "aggregatorFunctionType": "AVG", "deviations": True}},
            "baseline",
            "need a rule with AVG, MIN, MAX, not SUM",
        ),
        (
            {"aggregatorFunctionType": "MAX", "baseline": {"windowMinutes": 1, "deviations": True}},
            "baseline.aggregatorFunctionType",
            "must be AVG with deviations",
        ),
        (
            {"aggregatorFunctionType": "AVG", "limit": -1, "baseline": {"windowMinutes": 1, "deviations": True}},
            "limit",
            "must not be negative",
        ),
        (
            {
                "aggregatorFunctionType": "AVG",
                "limitOperatorType": "=",
                "baseline": {"windowMinutes": 1, "deviations": True},
            },
            "limitOperatorType",
            "with deviations",
        ),
        ({"filter": "nowhere = 1", "baseline": {"windowMinutes": 1}}, "filter", "not a declared field"),
        ({"When": "payeeId = 1"}, "When", "did you mean when?"),
        ({"cooldownSecond": 60}, "cooldownSecond", "did you mean cooldownSeconds?"),
        ({"name": [[[[[]]]]]}, "name", "nested too deep"),
    ],
)
def test_a_fault_of_one_member_is_named(changes: dict[str, object], member: str, message: str) -> None:
    found = reasons(record(**changes))
    assert list(found) == [member], found
    assert any(message in complaint for complaint in found[member]), found


def test_every_reason_at_once() -> None:
    found = reasons(
        record(
            ruleId=-1,
            ruleState="ACT",
            groupingKeyNames=["payeeId", "payeeId", "nowhere"],
            unique=["paymentType"],
            aggregateFieldName="paymentType",
            limitOperatorType="=>",
            limit="much",
            windowMinutes=0,
            cooldownSecond=5,
            filter="nowhere = 1 and paymentType > 3",
            when="nowhere = 1 and paymentType > 3",
        )
    )
    assert {member: len(messages) for member, messages in found.items()} == {
        "cooldownSecond": 1,
        "ruleState": 1,
        "ruleId": 1,
        "groupingKeyNames": 2,
        "unique": 1,
        "aggregateFieldName": 1,
        "limitOperatorType": 1,
        "limit": 1,
        "windowMinutes": 1,
        "filter": 2,
        "when": 2,
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"hello", "neither a JSON object nor a line of 9 fields"),
        (b"[]", "neither a JSON object"),
        (b"{", "is not JSON"),
        (record() + b" x", "Extra data"),
        (record() + record(), "Extra data"),
        (b"0" * 32_769, "has 32769 bytes"),
        (b'{"a":' * 5_000, "is nested too deep"),
        (b"{" + b",".join(b'"m%d":1' % n for n in range(65)) + b"}", "has 65 members"),
    ],
)
def test_a_fault_of_the_record_is_named(value: bytes | None, message: str) -> None:
    found = reasons(value)
    assert list(found) == ["record"]
    assert message in found["record"][0]


def test_a_duplicate_member_is_rejected() -> None:
    assert reasons(record()[:-1] + b', "limit": 30}') == {"limit": ["is given twice"]}


@pytest.mark.parametrize("digits", ["1" * 5_000, "0." + "1" * 5_000, "1e99999999999999999999"])
def test_a_number_of_any_length_is_refused_by_its_member(digits: str) -> None:
    assert list(reasons(record(limit="?").replace(b'"?"', digits.encode()))) == ["limit"]


def test_a_document_keeps_every_digit_as_given() -> None:
    value = record(limit="?").replace(b'"?"', b"0.1000000000000000000000000001")
    rule = parse(value)
    assert rule.limit == Decimal("0.1000000000000000000000000001")
    assert b'"limit":0.1000000000000000000000000001' in encode_document(rule.document)
    assert parse(encode_document(rule.document)) == rule


def test_a_decoded_document_has_the_same_checks() -> None:
    assert parse_rule_document(DEMO_RULE, SCHEMA, LIMITS) == parse(record())
    with pytest.raises(RuleRejected, match="must be a decimal number or an expression, not a float"):
        parse_rule_document({**DEMO_RULE, "limit": 0.1}, SCHEMA, LIMITS)
    with pytest.raises(RuleRejected, match="a huge number"):
        parse_rule_document({**DEMO_RULE, "windowMinutes": 10**5_000}, SCHEMA, LIMITS)


def test_an_entry_of_the_rule_log_has_its_rule_id() -> None:
    accepted = read_entry(5, 100, record(), SCHEMA, LIMITS)
    rejected = read_entry(6, 100, record(limit=None), SCHEMA, LIMITS)
    control = read_entry(7, 100, b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}', SCHEMA, LIMITS)
    assert [entry.rule_id for entry in (accepted, rejected, control)] == [1, 1, None]
    assert (rejected.change, [reason.field for reason in rejected.reasons]) == (None, ["limit"])
    assert accepted.as_rejected(rejected.reasons).rule_id == 1


def test_a_rejection_survives_pickling() -> None:
    import pickle

    with pytest.raises(RuleRejected) as rejected:
        parse(record(limit=None))
    copy = pickle.loads(pickle.dumps(rejected.value))
    assert (copy.reasons, copy.rule_id) == (rejected.value.reasons, 1)
