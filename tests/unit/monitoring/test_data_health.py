"""The health of the payments and rules from the hours of the topic `data-health`: figures, and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fraud_rules.logs.data_health import HOUR_MS, HealthHour, RuleHour
from fraud_rules.logs.detector_status import ReasonCount
from fraud_rules.monitoring.data_faults import DataVerdict, data_faults
from fraud_rules.monitoring.data_health import (
    FieldHealth,
    GroupingHealth,
    NewText,
    ReasonHealth,
    data_health,
    rule_figures,
)

DAYS = 8 * 24
NOW_MS = 480_000 * HOUR_MS + HOUR_MS // 2
"""In the middle of an hour, which is the newest one."""


def hours(count: int, of: Callable[[int], dict[str, Any]]) -> list[HealthHour]:
    """Hours of 1,000 payments up to the present one. `of` returns the other members of an hour by its age in hours."""
    found = []
    for age in reversed(range(count)):
        at_ms = (480_000 - age) * HOUR_MS
        found.append(HealthHour(at_ms, at_ms, at_ms + 1, "q", 0, **{"rows": 1_000, **of(age)}))
    return found


def rule(age: int, **members: Any) -> dict[str, Any]:
    return {"rules": {5: RuleHour(**members)}}


def test_the_last_day_stands_beside_the_hours_before() -> None:
    reasons = {"no_json": ReasonCount(2, "cut"), "past_event_time": ReasonCount(1)}
    seen = hours(
        30,
        lambda age: {
            "nulls": {"amount": 10 if age < 24 else 5},
            "late": {"payeeId": 2},
            "quarantined": reasons if age < 2 else {"no_json": ReasonCount(1, "old")},
            "texts": {"type": {"CSH": 9, **({"WIR": 1} if age < 3 else {})}, "name": None if age == 5 else {"x": age}},
            "keys": {"payeeId": 70 + age},
        },
    )
    found = data_health(seen, ("amount", "type"), NOW_MS)
    assert (found.since, found.until, len(found.hours)) == (seen[0].since, seen[-1].until, 24)
    assert found.fields == [FieldHealth("amount", 240, 0.01, 0.005), FieldHealth("type", 0, 0.0, 0.0)]
    assert found.reasons == [
        ReasonHealth("no_json", 26, 6, seen[0].hour, "cut"),
        ReasonHealth("past_event_time", 2, 0, seen[-2].hour, ""),
    ]
    assert found.groupings == [GroupingHealth("payeeId", 48, 12, 70)]
    assert found.new_texts == [NewText("type", "WIR", 3, seen[-3].hour)]


def test_without_hours_there_are_no_figures() -> None:
    found = data_health((), ("amount",), NOW_MS)
    assert (found.since, found.fields) == (None, [FieldHealth("amount", 0, None, None)])
    assert rule_figures((), 5, NOW_MS).since is None


def test_a_rule_has_its_sums_and_its_last_alert() -> None:
    def of(age: int) -> dict[str, Any]:
        return rule(age, passed=4, held=3, alerts=1, last_alert=NOW_MS - age, keys=9) if age < 2 else {}

    found = rule_figures(hours(5, of), 5, NOW_MS)
    assert (found.rows, found.passed, found.held, found.alerts) == (2_000, 8, 6, 2)
    assert (found.last_alert, found.keys, found.faults) == (NOW_MS, 9, [])


def nulls(share_before: float, share: float, lacking: int = 2, rows: int = 1_000) -> Callable[[int], dict[str, Any]]:
    return lambda age: {"rows": rows, "nulls": {"amount": round(rows * (share if age < lacking else share_before))}}


FAULTS: dict[str, tuple[int, Callable[[int], dict[str, Any]], tuple[DataVerdict, int] | None]] = {
    "a field becomes null": (10, nulls(0.04, 0.5), (DataVerdict.FIELD_NULL, 1)),
    "a field is null in fewer than half": (10, nulls(0.04, 0.49), None),
    "a field that is often null": (10, nulls(0.06, 1.0), None),
    "a field that is always null": (10, nulls(1.0, 1.0), None),
    "a field of few payments": (10, nulls(0.0, 1.0, rows=99), None),
    "nulls for more than half of the time": (10, nulls(0.0, 1.0, lacking=9), (DataVerdict.FIELD_NULL, 8)),
    "no filter matches for a week": (DAYS, lambda age: rule(age, held=1), (DataVerdict.RULE_UNMATCHED, DAYS - 1)),
    "no when holds for a week": (DAYS, lambda age: rule(age, passed=1), (DataVerdict.RULE_UNMATCHED, DAYS - 1)),
    "one match in the week": (DAYS, lambda age: rule(age, passed=age == 160, held=1), None),
    "a rule of six days": (6 * 24, lambda age: rule(age), None),
    "a rule without payments": (DAYS, lambda age: {**rule(age), "rows": 0}, None),
    "a rule that has ended": (DAYS, lambda age: rule(age) if age else {}, None),
    "a higher rate": (
        26, lambda age: rule(age, passed=1, held=1, alerts=20 if age == 1 else 5 + age % 2), (DataVerdict.RULE_RATE, 1),
    ),
    "a higher rate in the present hour": (26, lambda age: rule(age, passed=1, held=1, alerts=5 if age else 50), None),
    "a higher rate of few alerts": (26, lambda age: rule(age, passed=1, held=1, alerts=19 if age == 1 else 1), None),
    "a higher rate without history": (25, lambda age: rule(age, passed=1, held=1, alerts=90 if age == 1 else 1), None),
    "more payments": (
        26, lambda age: rule(age, passed=1, held=1, alerts=90 if age == 1 else 9) | {"rows": (900, 9_000)[age == 1]},
        None,
    ),
    "a lower rate": (
        26, lambda age: rule(age, passed=1, held=1, alerts=6 if age == 1 else 20), (DataVerdict.RULE_RATE, 1),
    ),
    "a lower rate of few alerts": (26, lambda age: rule(age, passed=1, held=1, alerts=0 if age == 1 else 19), None),
}  # fmt: skip


@pytest.mark.parametrize(("count", "of", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(count: int, of: Callable[[int], dict[str, Any]], expected: tuple[DataVerdict, int] | None) -> None:
    found = data_faults(hours(count, of), ("amount",), NOW_MS)
    since = [] if expected is None else [(expected[0], (480_000 - expected[1]) * HOUR_MS)]
    assert [(each.verdict, each.since) for each in found] == since


def test_a_reason_has_the_figures() -> None:
    (field,) = data_faults(hours(10, nulls(0.04, 0.5)), ("amount",), NOW_MS)
    assert (field.reason, field.part) == ("50% of the payments have no amount, usually 4%", "field amount")
    (rate,) = data_faults(hours(26, lambda age: rule(age, passed=1, held=1, alerts=40 if age == 1 else 9)), (), NOW_MS)
    assert rate.reason == "40 alerts in an hour of 1,000 payments; before, so many had 9 to 9"
    (unmatched,) = data_faults(hours(DAYS, lambda age: rule(age, held=1)), (), NOW_MS)
    assert unmatched.reason == "the filter has matched none of 168,000 payments in seven days"
    assert unmatched.part == "rule 5"
