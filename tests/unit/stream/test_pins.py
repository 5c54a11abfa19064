"""Pins: one per batch, durable before the batch runs, and the same for every process that reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.admission.budget import RetainedState
from fraud_rules.errors import Reason, TopicUnsuitable
from fraud_rules.kafka.reader import Record
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.limits import RuleLimits
from fraud_rules.runtime.zones_release import zones_release
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver.rule_pinning import RulePinner
from fraud_rules.stream.pins import NO_PIN, Pin
from tests.support.rules import SCHEMA, sum_rule

RULE: Mapping[str, Any] = sum_rule(limit=10, windowMinutes=20)


@dataclass
class Log:
    """A rule log in memory with the topic methods that the pinner calls."""

    values: list[bytes] = field(default_factory=list)
    reads: list[tuple[int, int]] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    times_ms: dict[int, int] = field(default_factory=dict)

    def add(self, **members: Any) -> None:
        self.values.append(json.dumps({**RULE, **members}).encode())

    def add_at(self, at_ms: int, document: Mapping[str, Any]) -> None:
        self.times_ms[len(self.values)] = at_ms
        self.values.append(json.dumps(document).encode())

    @property
    def end(self) -> int:
        return len(self.values)

    def rules(self) -> RuleLog:
        """A new reader of the log."""
        return RuleLog(self.read, SCHEMA, RuleLimits())

    def read(self, start: int, end: int) -> Sequence[Record]:
        self.reads.append((start, end))
        return [
            Record(offset, self.times_ms.get(offset, 1_000 + offset), None, self.values[offset])
            for offset in range(start, end)
            if offset not in self.gone
        ]


def pinner_of(log: Log, pin: Pin = NO_PIN, **settings: Any) -> RulePinner:
    return RulePinner(DetectorSettings(**settings), log.rules(), pin)  # type: ignore[arg-type]


NOW_MS, HOUR_MS, TOLERANCE_MS = 1_800_000_000_000, 3_600_000, 300_000
DELETE: Mapping[str, Any] = {"ruleId": 1, "ruleState": "DELETE"}
STOP: Mapping[str, Any] = {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL_STOP"}
LIST: Mapping[str, Any] = {"listName": "mules", "listOperation": "SET", "listType": "long", "values": [1]}


@dataclass
class Clock:
    now_ms: int = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


def timed_pinner(log: Log, clock: Clock, pin: Pin = NO_PIN) -> RulePinner:
    return RulePinner(DetectorSettings(), log.rules(), pin, now_ms=clock)


def place_of(pin: Pin) -> tuple[int, int]:
    return pin.batch_id, pin.rules_end


def test_a_batch_is_pinned_at_the_end_of_the_log_and_hands_over_what_is_new() -> None:
    log = Log()
    pinner = pinner_of(log)
    assert place_of(pinner.rules_of(0, log.end).pin) == (0, 0)

    log.add(ruleId=1)
    log.add(ruleId=2, limitOperatorType="about")
    rules = pinner.rules_of(1, log.end)
    assert place_of(rules.pin) == (1, 2)
    assert [entry.version for entry in rules.decided] == [0, 1]
    assert [entry.change is None for entry in rules.decided] == [False, True]
    assert list(rules.timeline.latest.rules) == [1]

    assert pinner.rules_of(2, log.end).decided == []


def test_an_attempt_without_a_commit_leaves_no_pin() -> None:
    log = Log()
    log.add(ruleId=1)
    committed = pinner_of(log).rules_of(0, log.end).pin
    log.add(ruleId=2)
    lost = pinner_of(log, committed).rules_of(1, log.end)
    log.add(ruleId=3)

    again = pinner_of(log, committed).rules_of(1, log.end)
    assert (place_of(lost.pin), place_of(again.pin)) == ((1, 2), (1, 3))
    assert [entry.version for entry in again.decided] == [1, 2], "the lost attempt has told no one"
    assert list(again.timeline.latest.rules) == [1, 2, 3]


def test_a_pin_names_the_reasons_of_refused_records() -> None:
    pin = Pin(3, 7, {"5": [("windowMinutes", "too wide")]})
    assert pin.reasons() == {5: [Reason("windowMinutes", "too wide")]}
    assert msgspec.json.decode(msgspec.json.encode(pin), type=Pin) == pin


def test_a_rule_over_budget_stays_refused_for_every_reader() -> None:
    log = Log()
    pinner = pinner_of(log, state_budget_bytes=1_048_576)
    pinner.rules_of(0, log.end)
    pinner.record_batch(600_000, (1_000, 1_000), RetainedState())

    log.add(ruleId=1)
    log.add(ruleId=2, force=True)
    refused = pinner.rules_of(1, log.end)
    assert list(refused.timeline.latest.rules) == [2]
    assert [reason.field for reason in refused.decided[0].reasons] == ["windowMinutes"]
    assert list(pinner.rules_of(2, log.end).timeline.latest.rules) == [2]

    pin = pinner.newest_pin()
    elsewhere = log.rules().up_to(pin.rules_end, pin.reasons())
    assert list(elsewhere.latest.rules) == [2]


def test_a_rule_with_a_grouping_that_workers_cannot_map_is_refused() -> None:
    log = Log()
    pinner = RulePinner(DetectorSettings(key_groups=4), log.rules(), mappings=15_008)
    log.add(ruleId=1)
    log.add(ruleId=2, groupingKeyNames=["beneficiaryId"], force=True)
    log.add(ruleId=3)
    first = pinner.rules_of(0, log.end)
    assert list(first.timeline.latest.rules) == [1, 3]
    (reason,) = first.decided[1].reasons
    assert reason.field == "groupingKeyNames"
    assert "vm.max_map_count (15,008)" in reason.message


def test_later_pins_keep_only_the_offsets_of_refused_records() -> None:
    log = Log()
    pinner = pinner_of(log, state_budget_bytes=1_048_576)
    pinner.rules_of(0, log.end)
    pinner.record_batch(600_000, (1_000, 1_000), RetainedState())
    for rule_id in range(1, 6_301):
        log.add(ruleId=rule_id)
    first = pinner.rules_of(1, log.end)
    assert [reason.field for reason in first.decided[-1].reasons] == ["windowMinutes"]
    log.add(ruleId=7_000, windowMinutes=1, force=True)
    log.add(ruleId=7_001)
    second, third = pinner.rules_of(2, log.end), pinner.rules_of(3, log.end)
    assert second.pin.reasons().keys() == third.pin.reasons().keys() == {*first.pin.reasons(), 6_301}
    assert [offset for offset, reasons in second.pin.rejected.items() if reasons] == ["6301"]
    assert third.pin.rejected == {"0-6299": [], "6301": []}
    assert list(third.timeline.latest.rules) == [7_000]
    assert len(msgspec.json.encode(third.pin)) < 200 < 1_000_000 < len(msgspec.json.encode(first.pin))
    again = pinner_of(log, third.pin, state_budget_bytes=1_048_576)
    assert list(again.rules_of(4, log.end).timeline.latest.rules) == [7_000]


def test_the_cpu_budget_decides_by_the_log_alone() -> None:
    """Another detector, which reads the same log in other batches, refuses the same records."""
    log = Log()
    pinner = pinner_of(log, cpu_budget_ns=4_000)
    log.add(ruleId=1)
    pinner.rules_of(0, log.end)
    log.add(ruleId=2, groupingKeyNames=["beneficiaryId"])
    log.add(ruleId=3, groupingKeyNames=["payeeId", "beneficiaryId"])
    log.add(ruleId=4, windowMinutes=5)
    rules = pinner.rules_of(1, log.end)
    assert list(rules.pin.rejected) == ["2"]
    assert [(reason.field, "CPU time" in reason.message) for reason in rules.decided[1].reasons] == [
        ("aggregatorFunctionType", True)
    ]
    log.add(ruleId=2, ruleState="DELETE")
    log.add(ruleId=3, groupingKeyNames=["payeeId", "beneficiaryId"], force=True)
    log.values.append(b'{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}')
    log.add(ruleId=5, groupingKeyNames=["payeeId"])
    log.add(ruleId=6, groupingKeyNames=["beneficiaryId"])
    last = pinner.rules_of(2, log.end)
    assert list(last.timeline.latest.rules) == [5, 6]
    assert pinner.cpu_ns(last.timeline.latest) <= 4_000

    other = pinner_of(log, cpu_budget_ns=4_000).rules_of(0, log.end)
    assert other.pin.reasons().keys() == last.pin.reasons().keys()
    assert list(other.timeline.latest.rules) == [5, 6]


@pytest.mark.parametrize("harm", ["replaced", "compacted"])
def test_a_rule_log_that_lost_records_in_the_middle_is_refused(harm: str) -> None:
    log = Log()
    for rule_id in range(1, 4):
        log.add(ruleId=rule_id)
    pin = pinner_of(log).rules_of(0, log.end).pin
    log.add(ruleId=4)
    assert pinner_of(log, pin).live().stopped_at is None
    if harm == "compacted":
        log.gone.add(1)
    else:
        log.values[1] = log.values[0]

    with pytest.raises(TopicUnsuitable, match="below offset 3 differs from the log that the detector read before"):
        pinner_of(log, pin).live()
    with pytest.raises(TopicUnsuitable):
        log.rules().up_to(pin.rules_end, pin.reasons(), pin.digest)
    by_an_earlier_version = Pin(pin.batch_id, pin.rules_end, pin.rejected)
    log.rules().up_to(3, by_an_earlier_version.reasons(), by_an_earlier_version.digest)


def test_the_rule_log_is_read_only_where_it_is_new() -> None:
    log = Log()
    for rule_id in range(1, 6):
        log.add(ruleId=rule_id)
    rules = log.rules()

    assert len(rules.up_to(3, {})) == 3
    assert len(rules.up_to(5, {})) == 5
    assert log.reads == [(0, 3), (3, 5)]
    assert list(rules.up_to(2, {}).latest.rules) == [1, 2]
    assert len(rules.up_to(5, {})) == 5
    assert log.reads == [(0, 3), (3, 5)]


def test_a_start_continues_from_the_last_known_rate() -> None:
    log = Log()
    first = pinner_of(log, state_budget_bytes=1_048_576)
    first.rules_of(0, log.end)
    first.record_batch(600_000, (0, 60_000), RetainedState())
    marker = Marker.decode(Marker("q", 0, {}, Pin(0, 0), first.rate).encode())

    log.add(ruleId=1)
    settings = DetectorSettings(state_budget_bytes=1_048_576)
    pinner = RulePinner(settings, log.rules(), marker.pin, marker.rate)
    assert list(pinner.rules_of(1, log.end).timeline.latest.rules) == []


def test_a_marker_of_a_release_without_a_rate_is_read() -> None:
    written = b'{"queryId":"q","batchId":0,"endOffsets":{},"pin":{"batchId":0,"rulesEnd":0}}'
    assert Marker.decode(written).rate is None


@pytest.mark.parametrize(
    "wrong",
    [{**RULE, "ruleId": 2}, {**RULE, "ruleId": 2, "limit": None}, DELETE, STOP, LIST],
    ids=["a rule", "an invalid rule", "a deletion", "a stop", "a list"],
)
def test_a_record_from_the_future_is_rejected_and_delays_no_other_record(wrong: Mapping[str, Any]) -> None:
    log, clock = Log(), Clock()
    pinner = timed_pinner(log, clock)
    log.add_at(NOW_MS - HOUR_MS, {**RULE, "ruleId": 1})
    pinner.rules_of(0, log.end)
    log.add_at(NOW_MS + 8_760 * HOUR_MS, wrong)
    log.add_at(NOW_MS - 1, {**RULE, "ruleId": 3})
    rules = pinner.rules_of(1, log.end)
    assert [(each.version, each.change is None) for each in rules.decided] == [(1, True), (2, False)]
    reason = rules.decided[0].reasons[-1]
    assert (reason.field, "31,536,000 s ahead of the detector's clock" in reason.message) == ("appendTime", True)
    assert [each.time_ms for each in rules.timeline.entries] == [NOW_MS - HOUR_MS, NOW_MS - HOUR_MS, NOW_MS - 1]
    assert list(rules.live.rules) == [1, 3]

    clock.now_ms += 10_000 * HOUR_MS
    log.add_at(NOW_MS + 5, DELETE)
    later = pinner.rules_of(2, log.end)
    assert (list(later.pin.rejected), list(later.live.rules), later.live.stopped_at) == (["1"], [3], None)
    elsewhere = log.rules().up_to(4, later.pin.reasons(), later.pin.digest)
    assert [each.time_ms for each in elsewhere.entries] == [each.time_ms for each in later.timeline.entries]
    assert list(elsewhere.latest.rules) == [3]
    assert pinner.rules_of(3, log.end).decided == []


def test_a_record_within_the_tolerance_is_reported_when_its_time_has_come() -> None:
    log, clock = Log(), Clock()
    pinner = timed_pinner(log, clock)
    log.add_at(NOW_MS, {**RULE, "ruleId": 1})
    log.add_at(NOW_MS + TOLERANCE_MS, {**RULE, "ruleId": 2})
    log.add_at(NOW_MS - 9, {**RULE, "ruleId": 3})
    log.add_at(NOW_MS + TOLERANCE_MS, {**RULE, "ruleId": 4, "limit": None})
    log.add_at(NOW_MS - 8, STOP)
    first = pinner.rules_of(0, log.end)
    assert [(each.version, each.change is None) for each in first.decided] == [(0, False), (3, True)]
    assert (list(first.live.rules), first.live.stopped_at, first.pin.live_end) == ([1], None, 1)
    assert first.pin.time_zones == zones_release()
    assert list(first.timeline.latest.rules) == [1, 2, 3], "its pin has them, so payments from then on count"

    clock.now_ms += TOLERANCE_MS - 1
    assert pinner.rules_of(1, log.end).decided == []
    assert timed_pinner(log, clock, pinner.newest_pin()).live().stopped_at is None
    clock.now_ms += 1
    due = pinner.rules_of(2, log.end)
    assert [each.version for each in due.decided] == [1, 2, 4]
    assert (list(due.live.rules), due.live.stopped_at, due.pin.live_end) == ([1, 2, 3], 4, None)
    clock.now_ms -= HOUR_MS
    later = pinner.rules_of(3, log.end)
    assert (later.decided, list(later.live.rules)) == ([], [1, 2, 3]), "a report stays true when the clock steps back"


def test_the_pin_of_an_earlier_release_has_reported_all_its_records() -> None:
    log, clock = Log(), Clock()
    log.add_at(NOW_MS + HOUR_MS, {**RULE, "ruleId": 1})
    pin = msgspec.json.decode(b'{"batchId":0,"rulesEnd":1}', type=Pin)
    rules = timed_pinner(log, clock, pin).rules_of(1, log.end)
    assert (rules.decided, list(rules.live.rules), rules.pin.live_end) == ([], [1], None)
