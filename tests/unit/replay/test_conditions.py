"""Rules with conditions, and signals: what their alerts say, and what they leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.replay.replay import replay
from fraud_rules.runtime.zones import CALENDAR_END_MS
from tests.support import oracle
from tests.support.conformance import load_schema, same_answer
from tests.support.streams.generated import START_MS

SCHEMA = load_schema("nullable")
SETTINGS = DetectorSettings()
COUNTED = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 2, "windowSeconds": 10}
SUMMED = {
    "aggregatorFunctionType": "SUM", "aggregateFieldName": "paymentAmount", "limitOperatorType": ">", "limit": 5,
    "windowSeconds": 60,
}  # fmt: skip


def rule(**members: Any) -> dict[str, Any]:
    plain = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], **COUNTED}
    return {name: value for name, value in {**plain, **members}.items() if value is not None}


def only(**members: Any) -> dict[str, Any]:
    """A rule without an aggregate of its own."""
    return rule(**{**dict.fromkeys(COUNTED), **members})


def stream(rules: Sequence[dict[str, Any]], amounts: Sequence[str | None], gap_ms: int = 1_000) -> dict[str, Any]:
    """The rules, then a payment of each amount."""
    steps: list[dict[str, Any]] = [{"at": START_MS, "rule": each} for each in rules]
    for number, amount in enumerate(amounts, 1):
        at_ms = START_MS + number * gap_ms
        tx = {"transactionId": number, "eventTime": at_ms, "payeeId": 1, "paymentAmount": amount}
        steps.append({"at": at_ms, "tx": tx})
    return {"steps": steps}


def answer_of(document: dict[str, Any]) -> dict[str, list[Any]]:
    """The answer, which is that of the oracle."""
    answer = replay(document, SCHEMA, SETTINGS)
    assert answer["rejected"] == []
    assert same_answer(oracle.evaluate(document, SCHEMA), answer) == []
    return answer


def alerts_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return answer_of(document)["alerts"]


@pytest.mark.parametrize(("require", "alerting"), [(None, [3]), ("any", [2, 3]), ("none", []), (1, [2, 3]), (2, [3])])
def test_an_alert_needs_the_own_aggregate_and_as_many_conditions_as_required(
    require: object, alerting: list[int]
) -> None:
    conditions = [{**COUNTED, "windowSeconds": 60}, SUMMED]
    found = alerts_of(stream([rule(conditions=conditions, require=require)], ["1", "2", "9"]))
    assert [each["transactionId"] for each in found] == alerting


def test_an_alert_has_each_condition_in_order() -> None:
    largest = {
        **SUMMED, "aggregatorFunctionType": "MAX", "limitOperatorType": "<", "limit": "paymentAmount / 2", "filter": "",
    }  # fmt: skip
    document = stream([rule(filter="paymentAmount > 3", conditions=[SUMMED, largest], require="any")], ["1", "4", "9"])
    (alert,) = alerts_of(document)
    assert alert["conditions"] == [
        {"value": "13", "count": 2, "windowStart": START_MS - 57_000, "holds": True},
        {"value": "9", "count": 3, "windowStart": START_MS - 57_000, "holds": False, "limit": "4.5"},
    ]


def test_a_condition_without_a_value_or_a_limit_does_not_hold() -> None:
    conditions = [{**SUMMED, "limit": -1}, {**COUNTED, "limitOperatorType": "!=", "limit": "paymentAmount"}]
    (first, second) = alerts_of(stream([rule(limit=1, conditions=conditions, require="none")], [None, None]))
    for alert in (first, second):
        summed, counted = alert["conditions"]
        assert (summed["value"], summed["holds"], counted["limit"]) == (None, False, None)


def test_without_an_aggregate_of_its_own_the_value_is_the_number_of_conditions_that_hold() -> None:
    (alert,) = alerts_of(stream([only(conditions=[COUNTED, SUMMED], require=1)], ["1", "2"]))
    assert (alert["triggeringValue"], alert["windowCount"]) == ("1", 0)
    assert alert["windowStart"] == alert["windowEnd"]


def test_a_condition_without_a_complete_window_makes_the_alert_incomplete() -> None:
    document = stream([rule(windowSeconds=1, conditions=[SUMMED])], ["6", "6"])
    assert [each["windowComplete"] for each in alerts_of(document)] == [False]


def test_only_an_alert_sets_a_cool_down() -> None:
    document = stream([rule(limit=1, cooldownSeconds=2, conditions=[SUMMED])], ["3", "3", "3", "3"])
    assert [(each["transactionId"], each["suppressed"]) for each in alerts_of(document)] == [(2, 0), (4, 1)]


def test_a_signal_never_alerts_and_sets_no_mark() -> None:
    reset = {"aggregatorFunctionType": "COUNT_WITH_RESET", "aggregateFieldName": "points", "cooldownSeconds": 60}
    signal = rule(ruleState="SIGNAL", **reset)
    assert alerts_of(stream([signal], ["1"] * 5)) == []
    document = stream([signal], ["1"] * 5)
    document["steps"].insert(4, {"at": document["steps"][4]["at"], "rule": rule(**reset)})
    assert [(each["transactionId"], each["windowCount"]) for each in alerts_of(document)] == [(4, 4)]


@pytest.mark.parametrize(
    "own",
    [
        {"aggregatorFunctionType": "STDDEV", "aggregateFieldName": "paymentAmount"},
        {"aggregatorFunctionType": "AVG", "aggregateFieldName": "paymentAmount", "baseline": {"windowSeconds": 60}},
        {"aggregatorFunctionType": "MIN", "aggregateFieldName": "paymentAmount"},
        {"aggregatorFunctionType": "COUNT_DISTINCT", "unique": ["paymentAmount"]},
    ],
    ids=lambda own: own["aggregatorFunctionType"],
)
def test_an_alert_has_the_aggregates_of_the_rules_that_it_names(own: dict[str, Any]) -> None:
    signals = [
        rule(ruleId=2, ruleState="SIGNAL", **own),
        rule(ruleId=3, ruleState="SIGNAL", aggregatorFunctionType="SUM", aggregateFieldName="paymentAmount"),
    ]
    naming = rule(ruleId=9, groupingKeyNames=["paymentAmount"], limit=1, conditions=[{"ruleId": 2}, {"ruleId": 3}])
    amounts = ["-7.25", "99999999999.99", None, "0.01", "0.01"]
    assert alerts_of(stream([*signals, {**naming, "require": "any"}], amounts))


def test_numbers_come_as_texts_and_nulls_are_absent() -> None:
    condition = {**COUNTED, "limit": 1, "ruleId": None, "windowMinutes": None}
    naming = only(ruleId=2, conditions=[{"ruleId": "1"}, condition], require="2", unique=[]) | {"limit": None}
    assert [each["ruleId"] for each in alerts_of(stream([rule(limit=1), naming], ["5"]))] == [1, 2]


def test_previous_in_the_limit_of_a_condition_is_that_of_the_rule() -> None:
    condition = {**COUNTED, "limit": "coalesce(previous(paymentAmount), 0)"}
    (alert,) = alerts_of(stream([rule(limit=1, conditions=[condition])], ["5"]))
    assert alert["previous"] is None
    assert alert["conditions"][0]["limit"] == "0"


@pytest.mark.parametrize(("named", "naming", "found"), [("SIGNAL", "ACTIVE", [2]), ("SHADOW", "SIGNAL", [])])
def test_a_signal_is_in_no_decision(named: str, naming: str, found: list[int]) -> None:
    rules = [rule(limit=1, ruleState=named), only(ruleId=2, ruleState=naming, conditions=[{"ruleId": 1}])]
    decisions = answer_of(stream(rules, ["5"]))["decisions"]
    assert [each["ruleId"] for decision in decisions for each in decision["alerts"]] == found


def test_a_calendar_window_does_not_hold_after_the_year_2099() -> None:
    calendar = {**COUNTED, "limit": 0, "windowSeconds": None, "windowCalendar": "DAY"}
    rules = [
        rule(**calendar), rule(ruleId=2, limit=0), only(ruleId=3, conditions=[calendar], require="none"),
    ]  # fmt: skip
    steps: list[dict[str, Any]] = [{"at": CALENDAR_END_MS, "rule": each} for each in rules]
    for number, event_ms in enumerate((CALENDAR_END_MS - 1, CALENDAR_END_MS)):
        tx = {"transactionId": number, "eventTime": event_ms, "payeeId": 1}
        steps.append({"at": CALENDAR_END_MS, "tx": tx})
    alerts = alerts_of({"steps": steps})
    found = [(each["transactionId"], each["ruleId"], each["windowCount"]) for each in alerts]
    assert found == [(0, 1, 1), (0, 2, 1), (1, 2, 2), (1, 3, 0)]
    assert alerts[-1]["conditions"] == [{"value": None, "count": 0, "windowStart": None, "holds": False}]
