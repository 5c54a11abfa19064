"""The oracle's conditions: the outcomes that no conformance case has."""

from __future__ import annotations

from typing import Any

from tests.support import oracle
from tests.support.conformance import load_schema

SCHEMA = load_schema("third_edition")
START_MS = 1_700_000_000_000
AGGREGATE = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 1, "windowMinutes": 20}
PLAIN: dict[str, Any] = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], **AGGREGATE}
NAMING: dict[str, Any] = {
    "ruleId": 2,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["payeeId"],
    "conditions": [{"ruleId": 1}],
}


def _answer(*records: dict[str, Any], event_ms: int = START_MS) -> dict[str, list[Any]]:
    """The answer to one payment after the records."""
    tx = {"transactionId": 1, "eventTime": event_ms, "payeeId": 1, "beneficiaryId": 2, "paymentAmount": "5"}
    steps = [{"at": START_MS, "rule": record} for record in records] + [{"at": START_MS, "tx": tx}]
    settings = {"eventTimeFloorMs": -(10**15), "futureToleranceMs": 10**15}
    return oracle.evaluate({"steps": steps, "settings": settings}, SCHEMA)


def test_numbers_come_as_texts_and_nulls_are_absent() -> None:
    condition = {**AGGREGATE, "ruleId": None, "windowSeconds": None}
    rule = {**NAMING, "conditions": [{"ruleId": "1"}, condition], "require": "2", "limit": None, "unique": []}
    assert [alert["ruleId"] for alert in _answer(PLAIN, rule)["alerts"]] == [1, 2]


def test_previous_in_the_limit_of_a_condition_is_that_of_the_rule() -> None:
    condition = {**AGGREGATE, "limit": "coalesce(previous(paymentAmount), 0)"}
    (alert,) = _answer({**PLAIN, "conditions": [condition]})["alerts"]
    assert alert["previous"] is None
    assert alert["conditions"][0]["limit"] == "0"


def test_a_signal_is_in_no_decision() -> None:
    answer = _answer({**PLAIN, "ruleState": "SIGNAL"}, NAMING)
    assert [[each["ruleId"] for each in decision["alerts"]] for decision in answer["decisions"]] == [[2]]


def test_a_signal_for_a_shadow_rule_is_a_signal() -> None:
    answer = _answer({**PLAIN, "ruleState": "SHADOW"}, {**NAMING, "ruleState": "SIGNAL"})
    assert [alert["ruleId"] for alert in answer["alerts"]] == [1]


def test_a_calendar_window_outside_its_years_does_not_hold() -> None:
    calendar = {**AGGREGATE, "limit": 0, "windowMinutes": None, "windowCalendar": "DAY"}
    rule = {**PLAIN, "conditions": [calendar], "require": "none", "ruleId": 3}
    (alert,) = _answer({**PLAIN, **calendar}, rule, event_ms=-1)["alerts"]
    assert alert["conditions"] == [{"value": None, "count": 0, "windowStart": None, "holds": False}]
