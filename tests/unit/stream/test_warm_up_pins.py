"""The warm-ups in pins: which results end with a batch, which stay named, and which edits need no warm-up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from fraud_rules.configuration.settings import TopicNames
from fraud_rules.kafka.reader import Record
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpRef, WarmUpResult
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.stream.driver.records import BatchTime, rule_operation_records
from fraud_rules.stream.driver.rule_pinning import warm_ups_after
from fraud_rules.stream.driver.warm_ups import WarmUpWatch
from fraud_rules.stream.pins import NO_PIN, Pin
from tests.support.rules import count_rule, rule_log

WARM: Final[Mapping[str, Any]] = {"warmUp": True}
CLEAR = {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}
DELETE = {"ruleId": 1, "ruleState": "DELETE"}


def rule(rule_id: int = 1, minutes: int = 60, **members: Any) -> dict[str, Any]:
    return count_rule(rule_id, **{"limit": 3, "windowMinutes": minutes, **members})


def timeline_of(documents: Sequence[Mapping[str, Any]]) -> RuleTimeline:
    """A rule log with these records, a second apart."""
    return rule_log(documents, [1_000 * (offset + 1) for offset in range(len(documents))])


def ref(batch_id: int, offset: int = 0, refused: str = "") -> WarmUpRef:
    return WarmUpRef(batch_id, offset, "d", {"0": 5}, refused, 1_000)


def after(previous: Pin, log: RuleTimeline, ready: Mapping[int, WarmUpRef] | None = None) -> Pin:
    """The pin after another one, at the end of this log. All results in the topic have ended then."""
    ended = max([previous.warm_ups_end, *(each.offset + 1 for each in (ready or {}).values())])
    return Pin(previous.batch_id + 1, log.end, warm_ups=warm_ups_after(previous, log, ready or {}), warm_ups_end=ended)


def state_of(log: RuleTimeline, pin: Pin) -> str:
    """The state of the warm-up in the report on the last record of a log."""
    (report,) = rule_operation_records([log.entries[-1]], log, pin, BatchTime(9, 9), TopicNames())
    return str(json.loads(report.value or b"").get("warmUp", {}).get("state"))


@pytest.mark.parametrize(
    ("documents", "state"),
    [
        ([rule(**WARM), rule(limit=9, **WARM)], "WARM"),
        ([rule(**WARM), rule(2, minutes=30, **WARM)], "WARM"),
        ([rule(**WARM), rule(minutes=61, **WARM)], "REQUESTED"),
        ([rule(**WARM), rule(minutes=10), rule(**WARM)], "REQUESTED"),
        ([rule(**WARM), rule(2), rule(minutes=10), rule(**WARM)], "WARM"),
        ([rule(**WARM), CLEAR, rule(**WARM)], "REQUESTED"),
        ([rule(**WARM), DELETE, rule(**WARM)], "REQUESTED"),
        ([rule(**WARM), rule(groupingKeyNames=["beneficiaryId"], **WARM)], "REQUESTED"),
        ([rule(**WARM), rule(limit=9)], "None"),
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
@pytest.mark.parametrize("at_once", [True, False], ids=["one batch", "a batch each"])
@pytest.mark.parametrize("late", [True, False], ids=["a late result", "a result at once"])
def test_a_request_whose_history_was_added_before_needs_no_warm_up(
    documents: list[dict[str, Any]], state: str, at_once: bool, late: bool
) -> None:
    """The first record's result joins at once, or with the batch before the last record."""
    ends = [1, len(documents)] if at_once else list(range(1, len(documents) + 1))
    joins = len(ends) - 2 if late else 0
    pin = NO_PIN
    for number, end in enumerate(ends):
        log = timeline_of(documents[:end])
        pin = after(pin, log, {0: ref(number)} if number == joins else {})
    assert state_of(log, pin) == state
    nothing = Pin(9, log.end)
    assert state_of(log, nothing) == ("None" if state == "None" else "REQUESTED")


def test_a_pin_names_only_the_newest_warm_up_of_each_grouping_that_has_one() -> None:
    documents = [rule(number, **WARM) for number in range(1, 100)]
    log, pin = timeline_of(documents), NO_PIN
    for version in range(len(documents)):
        pin = after(pin, log, {version: ref(version, version)})
    assert list(after(pin, log).warm_ups) == ["98"]

    deleted = [*documents, {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}]
    assert after(pin, timeline_of(deleted)).warm_ups == {}
    assert after(pin, timeline_of([*documents, CLEAR])).warm_ups == {}
    assert after(Pin(5, 99, warm_ups={"3": ref(5, 0, "too large")}, warm_ups_end=1), log).warm_ups == {}


def test_a_warm_up_that_the_topic_still_shows_as_new_stays_named() -> None:
    log = timeline_of([rule(**WARM), CLEAR])
    by_an_earlier_release = Pin(5, 1, warm_ups={"0": ref(3)})
    named = warm_ups_after(by_an_earlier_release, log, {})
    assert list(named) == ["0"]
    assert warm_ups_after(Pin(6, 2, warm_ups=named, warm_ups_end=1), log, {}) == {}


def test_a_warm_up_ends_with_one_batch_also_if_a_later_query_has_a_batch_of_that_number() -> None:
    log = timeline_of([rule(**WARM)])
    pin = after(Pin(6, 1), log, {0: ref(7)})
    assert list(pin.ending()) == list(pin.joining()) == [0]
    of_the_next_query = after(msgspec.structs.replace(pin, batch_id=-1), log)
    again = msgspec.structs.replace(of_the_next_query, batch_id=7)
    assert again.ending() == again.joining() == {}
    assert list(again.warmed(log).values()) == [(0, again.warm_ups["0"])]


@dataclass
class Results:
    """The results in `warm-ups` in memory, with the methods of a reader that a watch calls."""

    records: list[Record] = field(default_factory=list)

    def add(self, version: int, ends: Mapping[str, int], detector: str = "detector") -> None:
        result = WarmUpResult(version, 1, ("payeeId",), 1, dict(ends), 1, [], f"{version}")
        key = f"{detector}/{version}".encode()
        self.records.append(Record(len(self.records), 1, key, msgspec.json.encode(result)))

    def ends(self, partition: int = 0) -> tuple[int, int]:
        return 0, len(self.records)

    def read(self, start: int, end: int, partition: int = 0) -> Sequence[Record]:
        return self.records[start:end]


def test_results_end_when_the_batches_have_read_as_far_and_then_leave_the_memory() -> None:
    topic = Results()
    watch = WarmUpWatch(WarmUpLog(None, "warm-ups", "detector"))  # type: ignore[arg-type]
    topic.add(0, {"0": 5})
    topic.add(3, {"0": 9})
    topic.add(2, {"0": 5}, detector="another")
    topic.add(0, {"0": 5})
    topic.add(4, {"0": 6})
    topic.add(77, {"0": 5})  # of a record that does not exist
    watch.read(topic)  # type: ignore[arg-type]

    ready, end = watch.ending(Pin(6, 5), {"0": 6}, 5)
    assert ([*ready], end) == ([0, 4], 1), "the result at offset 1 waits"
    assert {each.batch_id for each in ready.values()} == {7}
    pin = Pin(7, 5, warm_ups={str(version): each for version, each in ready.items()}, warm_ups_end=end)
    assert watch.ending(pin, {"0": 8}, 5) == ({}, 1)
    ready, end = watch.ending(pin, {"0": 9}, 5)
    assert ([*ready], end) == ([3], len(topic.records))
    watch.read(topic)  # type: ignore[arg-type]
    assert watch.ending(Pin(8, 5, warm_ups_end=end), {"0": 9}, 5) == ({}, end)
    assert watch.result_count == 0
