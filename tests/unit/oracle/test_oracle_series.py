"""The oracle's long windows: how much history a series has, where no conformance case asks."""

from __future__ import annotations

from typing import Any

from tests.support import oracle
from tests.support.conformance import load_schema
from tests.support.rules import count_rule

SCHEMA = load_schema("third_edition")
START_MS = 1_700_006_400_000  # a midnight, 2023-11-15
DAY_MS = 86_400_000
RULE: dict[str, Any] = count_rule(limit=1, windowMinutes=43_200, resolutionSeconds=3600)


def _paid(day: int, number: int) -> dict[str, Any]:
    at = START_MS + day * DAY_MS
    return {"at": at, "tx": {"transactionId": number, "eventTime": at, "payeeId": 1, "beneficiaryId": 1}}


def _rule(day: float, **members: Any) -> dict[str, Any]:
    return {"at": START_MS + int(day * DAY_MS), "rule": {**RULE, **members}}


def _counts(*steps: dict[str, Any], **document: Any) -> list[tuple[int, bool]]:
    """The count of each alert, and whether its window is complete."""
    found = oracle.evaluate({"steps": list(steps), **document}, SCHEMA)
    return [(alert["windowCount"], alert["windowComplete"]) for alert in found["alerts"]]


def test_a_window_is_complete_once_the_series_is_as_old() -> None:
    days = [_paid(day, day + 1) for day in (0, 10, 30, 31)]
    assert _counts(_rule(0), *days) == [(1, False), (2, False), (3, True), (3, True)]


def test_a_series_that_begins_late_has_the_retained_rows() -> None:
    plain = _rule(0, ruleId=2, ruleState="PAUSE", windowMinutes=2880, resolutionSeconds=None)
    days = [_paid(day, day + 1) for day in range(6)]
    late = [_rule(4.5), _paid(5, 9), _paid(40, 10)]
    # H is two days and five minutes before day 4: day 2 is retained, days 0 and 1 are not.
    assert _counts(plain, *days[:5], *late) == [(4, False), (1, True)]


def test_an_edit_of_the_baseline_begins_a_series() -> None:
    short = {"windowMinutes": 60, "baseline": {"windowMinutes": 20_000, "aggregatorFunctionType": "COUNT"}}
    same = {**short, "baseline": {"windowSeconds": 1_200_000}}
    other = {**short, "baseline": {**short["baseline"], "minCount": 2}}
    steps = [_rule(0, **short), _paid(0, 1), _paid(5, 2), _paid(10, 3)]
    found = [
        oracle.evaluate({"steps": [*steps, _rule(10.5, **edit), _paid(11, 4)]}, SCHEMA)["alerts"][-1]
        for edit in (same, other)
    ]
    assert [alert["transactionId"] for alert in found] == [4, 3]
    assert found[0]["baseline"]["count"] == 3


def test_a_warm_up_fills_the_series() -> None:
    past = [_paid(day, day + 1) for day in (0, 10, 35)]
    steps = [*past, _rule(35, warmUp=True), _paid(36, 9), _paid(41, 10)]
    batches = [
        {"offsets": {"transactions": {"0": 3}}, "pin": 0},
        {"offsets": {"transactions": {"0": 3}}, "pin": 1},
        {"offsets": {"transactions": {"0": 5}}, "pin": 1, "warmUps": [{"version": 0, "ends": {"0": 3}}]},
    ]
    steps[3]["at"] += 1
    assert _counts(*steps, batches=batches[:2]) == [(1, False), (2, False)]
    assert _counts(*steps, batches=batches) == [(3, True), (3, True)]
