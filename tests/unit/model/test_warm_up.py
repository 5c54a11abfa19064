"""Requests for warm-ups: which transactions they concern, and which edits need none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.warm_up import covering, is_current, request_at, requests_of
from tests.support.conformance import load_schema

MINUTE_MS = 60_000
CLEAR = {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}


def rule(rule_id: int = 1, minutes: int = 60, **members: Any) -> dict[str, Any]:
    return {
        "ruleId": rule_id,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">",
        "limit": 3,
        "windowMinutes": minutes,
        **members,
    }


WARM = {"warmUp": True}
DELETE = {"ruleId": 1, "ruleState": "DELETE"}


def timeline_of(*documents: dict[str, Any]) -> RuleTimeline:
    """A rule log with these records, a second apart."""
    schema, limits = load_schema("default"), RuleLimits()
    return RuleTimeline(
        [
            read_entry(offset, 1_000 * (offset + 1), json.dumps(document).encode(), schema, limits)
            for offset, document in enumerate(documents)
        ]
    )


def test_a_request_reaches_from_the_last_clear_to_its_record_for_the_widest_rule() -> None:
    timeline = timeline_of(rule(2, minutes=90), CLEAR, rule(1, **WARM), CLEAR)
    request = request_at(timeline, 2)
    assert request is not None
    assert (request.since_ms, request.until_ms, request.reach_ms) == (2_000, 3_000, 90 * MINUTE_MS)
    assert not is_current(request, timeline), "the second clear has made it void"
    assert is_current(request, timeline_of(rule(2, minutes=90), CLEAR, rule(1, **WARM)))
    assert [each.version for each in requests_of(timeline, 0)] == [2]


@pytest.mark.parametrize(
    ("documents", "earlier"),
    [
        ([rule(**WARM), rule(limit=9, **WARM)], 0),
        ([rule(**WARM), rule(2, minutes=30, **WARM)], 0),
        ([rule(**WARM), rule(minutes=61, **WARM)], None),
        ([rule(**WARM), rule(minutes=10), rule(**WARM)], None),
        ([rule(**WARM), rule(2), rule(minutes=10), rule(**WARM)], 0),
        ([rule(**WARM), CLEAR, rule(**WARM)], None),
        ([rule(**WARM), DELETE, rule(**WARM)], None),
        ([rule(**WARM), rule(groupingKeyNames=["beneficiaryId"], **WARM)], None),
        ([rule(**WARM), rule(limit=9)], None),
    ],
    ids=[
        "an edit that keeps the window",
        "another rule of the grouping",
        "a wider window",
        "a window that was shorter in between",
        "another rule kept the history",
        "a clear",
        "a new grouping",
        "another grouping",
        "no request",
    ],
)
def test_a_request_whose_history_was_added_before_needs_no_warm_up(
    documents: list[dict[str, Any]], earlier: int | None
) -> None:
    timeline = timeline_of(*documents)
    assert covering(len(documents) - 1, timeline, [0]) == earlier
    assert covering(len(documents) - 1, timeline, []) is None
