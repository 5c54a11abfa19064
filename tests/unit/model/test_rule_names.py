"""Rules that name rules: which records of the rule log are rejected because of the log before them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule_names import in_writing_order
from fraud_rules.model.ruleset import RuleTimeline
from tests.support.conformance import load_schema
from tests.support.rules import count_rule

READER = EntryReader(load_schema("default"), RuleLimits())


def rule(rule_id: int, *named: int, state: str = "ACTIVE") -> dict[str, Any]:
    conditions = {"conditions": [{"ruleId": each} for each in named]} if named else {}
    return count_rule(rule_id, ruleState=state, limit=1, windowMinutes=1, **conditions)


DELETED = {"ruleId": 1, "ruleState": "DELETE"}
ALL_DELETED = {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}


def timeline(records: list[dict[str, Any]]) -> RuleTimeline:
    """The log of these records, which it gets one by one."""
    found = RuleTimeline()
    for version, record in enumerate(records):
        found = found.extended([READER.read(version, version, json.dumps(record).encode())])
    return found


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([rule(2, 1)], "conditions[0].ruleId: there is no rule 1"),
        ([rule(1), DELETED, rule(2, 1)], "conditions[0].ruleId: there is no rule 1"),
        ([rule(1), ALL_DELETED, rule(2, 1)], "conditions[0].ruleId: there is no rule 1"),
        ([rule(1), rule(2, 1), rule(3, 2)], "conditions[0].ruleId: rule 2 names rules itself"),
        ([rule(1), rule(3), rule(2, 1), rule(1, 3)], "conditions[0].ruleId: cannot name a rule: rule 2 names this one"),
        ([rule(1), rule(2, 1), DELETED], "ruleId: cannot delete the rule: rule 2 names it"),
        ([rule(1), rule(2, 1), rule(3, 1), {**rule(1), "disabled": True}], "rules 2, 3 name it"),
    ],
)
@pytest.mark.parametrize("grows", [True, False])
def test_the_last_record_does_not_fit_the_log(records: list[dict[str, Any]], reason: str, *, grows: bool) -> None:
    entries = [READER.read(version, version, json.dumps(record).encode()) for version, record in enumerate(records)]
    found = timeline(records) if grows else RuleTimeline(entries)
    assert [bool(entry.reasons) for entry in found.entries] == [False] * (len(records) - 1) + [True]
    assert reason in str(found.entries[-1].reasons[0])


@pytest.mark.parametrize(
    "records",
    [
        [rule(1), rule(2, 1), rule(2), DELETED],
        [rule(1), rule(2, 1), {"ruleId": 2, "ruleState": "DELETE"}, DELETED],
        [rule(1), rule(2, 1), rule(1, state="PAUSE"), rule(1)],
        [rule(1), rule(2, 1), ALL_DELETED, rule(1), DELETED],
    ],
)
def test_all_records_fit_the_log(records: list[dict[str, Any]]) -> None:
    assert not [entry.reasons for entry in timeline(records).entries if entry.reasons]


DELETED_2 = {"ruleId": 2, "ruleState": "DELETE"}


@pytest.mark.parametrize(
    ("before", "together", "order"),
    [
        ([], [rule(1, 3), rule(2, 3), rule(3)], [2, 0, 1]),
        ([rule(1), rule(2, 1)], [DELETED, DELETED_2], [1, 0]),
        ([rule(1), rule(2, 1)], [DELETED, rule(2)], [1, 0]),
        ([rule(1), rule(2, 1)], [DELETED, rule(2, 3), rule(3)], [2, 1, 0]),
        ([rule(1), rule(2, 1)], [rule(1, 3), rule(2, 3), rule(3)], [2, 1, 0]),
        ([rule(1), rule(2, 1)], [rule(1, 2), rule(2)], [1, 0]),
        ([rule(1), rule(2, 1)], [rule(1, 3), DELETED_2, rule(3)], [1, 2, 0]),
        ([], [rule(1, 3), rule(3), ALL_DELETED, rule(1, 3), rule(3)], [1, 0, 2, 4, 3]),
        ([], [rule(1, 3), rule(3), rule(3), rule(1)], [1, 0, 2, 3]),
    ],
)
def test_changes_that_are_written_together_fit_the_log_in_writing_order(
    before: list[dict[str, Any]], together: list[dict[str, Any]], order: list[int]
) -> None:
    log, changes = timeline(before), [READER.read(0, 0, json.dumps(each).encode()).change for each in together]
    placed = in_writing_order(enumerate(changes), lambda each: each[1], log.latest.naming)
    assert [place for place, _ in placed] == order
    assert not [entry.reasons for entry in timeline([*before, *(together[i] for i in order)]).entries if entry.reasons]


def test_a_rule_in_force_says_whether_another_one_names_it() -> None:
    found = timeline([rule(1), rule(2, 1), rule(1), rule(2)])
    assert [found.rule_set(count).rules[1].is_named for count in range(1, 5)] == [False, True, True, False]
    (in_force,) = [each for each in found.rule_set(3).groupings[("payeeId",)].rules if each.rule.rule_id == 1]
    assert in_force.is_named
