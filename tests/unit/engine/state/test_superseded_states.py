"""The state of a grouping that has ended is removed ten minutes later, whatever else the rule log does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.logs.detector_status import TrafficCounts
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.replay.recording import RecordedTransaction
from fraud_rules.replay.replay import Replay
from fraud_rules.stream.driver.progress import BatchOutputs, RunTotals
from tests.support.records.payments import payment_record
from tests.support.rules import SCHEMA, count_rule
from tests.support.streams.generated import START_MS

SETTINGS = DetectorSettings(key_groups=1, max_out_of_orderness_ms=0)
MINUTE_MS = 60_000
LIST = {"listName": "mules", "listOperation": "ADD", "listType": "long", "values": [7]}
CLEAR = {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}


def counting(rule_id: int, field: str, days: int = 1) -> dict[str, Any]:
    return count_rule(rule_id, groupingKeyNames=[field], limitOperatorType=">", limit=10**6, windowMinutes=days * 1_440)


def minutes(last: int, changes: Mapping[int, list[dict[str, Any]]]) -> Iterator[tuple[int, KeyGroupOutput, Replay]]:
    """One batch with a payment each minute, under the rule records of the minutes so far."""
    run, timeline, versions = Replay(SCHEMA, SETTINGS), RuleTimeline(), 0
    for minute in range(last):
        at_ms = START_MS + minute * MINUTE_MS
        entries: list[LogEntry] = []
        for record in changes.get(minute, []):
            entries.append(read_entry(versions, at_ms, json.dumps(record).encode(), SCHEMA, SETTINGS.limits))
            versions += 1
        timeline = timeline.extended(entries)
        assert all(entry.change for entry in timeline.entries)
        paid = RecordedTransaction(at_ms, 0, minute, payment_record(minute, at_ms))
        yield minute, run.evaluate([paid], timeline, 0).outputs[0], run


def with_list_changes(changes: dict[int, list[dict[str, Any]]], last: int) -> dict[int, list[dict[str, Any]]]:
    """The changes, and a change of a list every five minutes."""
    every = {minute: [*changes.get(minute, []), LIST] for minute in range(0, last, 5)}
    every[0].insert(0, {**LIST, "listOperation": "SET"})
    return {**changes, **every}


def retained(last: int, changes: dict[int, list[dict[str, Any]]]) -> list[int]:
    return [output.retained_events for _, output, _ in minutes(last, changes)]


def test_a_deleted_grouping_goes_although_lists_change() -> None:
    deletion = {"ruleId": 2, "ruleState": "DELETE"}
    changes = {0: [counting(1, "payeeId"), counting(2, "beneficiaryId", 30)], 30: [deletion]}
    found = retained(45, with_list_changes(changes, 45))
    assert found[29] == 60
    assert found[39] == 40 + 30
    assert found[40] == 41


def test_a_grouping_that_all_rules_have_left_goes_although_other_rules_change() -> None:
    changes: dict[int, list[dict[str, Any]]] = {0: [counting(1, "payeeId"), counting(2, "beneficiaryId", 30)]}
    changes |= {minute: [{**counting(1, "payeeId"), "limit": 10**6 + minute}] for minute in range(1, 45)}
    changes[30] = [{**counting(2, "payeeId", 30)}]
    found = retained(45, changes)
    assert found[39] == 40 + 30
    assert found[40] == 41


def test_groupings_that_end_with_all_rules_go_although_others_begin() -> None:
    control = {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}
    changes = {0: [counting(1, "payeeId"), counting(2, "beneficiaryId")], 30: [control, counting(3, "paymentType")]}
    found = retained(45, with_list_changes(changes, 45))
    assert found[29] == 60
    assert found[40] == 11


def test_clears_in_quick_succession_leave_no_states_behind() -> None:
    """A state waits for the end of its own epoch, not for that of the last one."""
    changes: dict[int, list[dict[str, Any]]] = {0: [counting(1, "payeeId")]}
    changes |= {minute: [CLEAR] for minute in range(5, 60, 5)}
    assert max(retained(60, changes)) <= 15


def test_a_grouping_without_payments_does_not_hold_back_the_reported_watermark() -> None:
    totals = RunTotals(TrafficCounts(0, 0, 0, 0))
    changes = {
        0: [counting(1, "payeeId"), counting(2, "beneficiaryId", 30)],
        30: [{"ruleId": 2, "ruleState": "DELETE"}],
    }
    for minute, output, _ in minutes(35, changes):
        totals.add(BatchOutputs([output], []))
        assert totals.watermark_ms == START_MS + minute * MINUTE_MS
