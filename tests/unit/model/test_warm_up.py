"""Requests for warm-ups: which transactions they concern, and the reach that a grouping has kept since."""

from __future__ import annotations

import json
from typing import Any

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.warm_up import is_current, request_at, shortest_reaches_ms
from tests.support.conformance import load_schema
from tests.support.rules import count_rule

MINUTE_MS = 60_000
CLEAR = {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}


def rule(rule_id: int = 1, minutes: int = 60, **members: Any) -> dict[str, Any]:
    return count_rule(rule_id, **{"limit": 3, "windowMinutes": minutes, **members})


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
    assert [request_at(timeline, version) for version in (0, 1, 3, 4)] == [None] * 4


def test_the_shortest_reach_of_each_grouping_is_found_in_one_pass() -> None:
    payee, beneficiary = ("payeeId",), ("beneficiaryId",)
    log = timeline_of(
        rule(1, minutes=60),
        rule(2, minutes=90),
        rule(3, minutes=30, groupingKeyNames=["beneficiaryId"]),
        rule(2, minutes=10),
        rule(2, minutes=99),
        rule(1, minutes=70),
    )
    since_each = {0: payee, 1: payee, 2: beneficiary, 4: payee}
    assert shortest_reaches_ms(log, 0, since_each) == {
        0: 60 * MINUTE_MS, 1: 60 * MINUTE_MS, 2: 30 * MINUTE_MS, 4: 99 * MINUTE_MS,
    }  # fmt: skip
    assert shortest_reaches_ms(log, 4, since_each) == dict.fromkeys((0, 1, 4), 99 * MINUTE_MS)
    assert shortest_reaches_ms(log, 6, since_each) == shortest_reaches_ms(log, 0, {}) == {}


def test_a_move_a_delete_and_a_rejected_edit_change_the_reach_that_a_rule_set_has() -> None:
    moved = {"groupingKeyNames": ["beneficiaryId"]}
    payee = ("payeeId",)
    for documents, minutes in (
        ([rule(2, minutes=90), rule(2, minutes=90, **moved)], 60),
        ([rule(2, minutes=90), {"ruleId": 2, "ruleState": "DELETE"}], 60),
        ([rule(2, minutes=90), rule(1, minutes=5, windowSeconds=9)], 90),
        ([DELETE], 0),
        ([{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}], 0),
        ([rule(3, minutes=90, **moved), rule(3, minutes=90), rule(3, minutes=80, **moved)], 60),
    ):
        log = timeline_of(rule(1), *documents)
        found = shortest_reaches_ms(log, 0, {len(documents) - 1 + (len(documents) == 1): payee})
        assert set(found.values()) == {minutes * MINUTE_MS}, documents
