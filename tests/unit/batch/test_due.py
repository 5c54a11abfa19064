"""The days that are due for an automatic re-evaluation."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fraud_rules.batch.archive.manifest import BatchResult, FileEntry, Manifest, Table
from fraud_rules.batch.reevaluation.basis import Basis
from fraud_rules.batch.reevaluation.chain import is_due, reach_of
from fraud_rules.batch.reevaluation.cuts import mark_rejected
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.day import Day
from fraud_rules.model.ruleset import RuleTimeline
from tests.support.rules import SCHEMA, sum_rule

DAY = Day.parse("2026-11-18")
SETTINGS = DetectorSettings()
REACH = 2
ROWS = {DAY.plus(-3): 5, DAY.plus(-2): 6, DAY: 7}


def basis(rows: dict[Day, int]) -> Basis:
    return Basis(8, SETTINGS.max_out_of_orderness_ms, {str(day.number): count for day, count in rows.items()})


def archived(until_ms: int = DAY.plus(1).end_ms) -> Manifest:
    files = [FileEntry(Table.TRANSACTIONS, day.number, str(day), rows, 1, 0, 0, {}) for day, rows in ROWS.items()]
    return Manifest().with_batch({}, BatchResult(tuple(files), 0)).complete(until_ms)


RESULT = DayResult(
    str(DAY), None, 0, 7, 0, 0, 0, 0, 0, 0, [], [], [], [], [], {}, basis(ROWS), settled=basis(ROWS), report_only=False
)
PROVISIONAL = msgspec.structs.replace(RESULT, provisional="the day still receives data", settled=None)
REPORTED = msgspec.structs.replace(RESULT, report_only=True)


def test_a_result_that_depends_on_erased_payments_names_their_days() -> None:
    result = msgspec.structs.replace(RESULT, erased_days=["2026-11-17"])
    assert result.withheld == "payments of an erased person are missing on 2026-11-17"
    assert RESULT.withheld is None


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ({}, False),
        ({DAY: 8}, True),
        ({DAY.plus(-2): 7}, True),
        ({DAY.plus(-1): 1}, True),
        ({DAY.plus(-3): 6}, False),
        ({DAY.plus(1): 1}, False),
    ],
    ids=[
        "nothing came",
        "later data",
        "a day its windows reach",
        "one that was empty",
        "one they do not",
        "a later day",
    ],
)
@pytest.mark.parametrize("result", [RESULT, REPORTED], ids=["published", "published, reported again since"])
def test_a_published_day_is_due_when_its_data_grew(result: DayResult, now: dict[Day, int], due: bool) -> None:
    assert is_due(result, basis({**ROWS, **now}), REACH, archived(), SETTINGS) is due


@pytest.mark.parametrize(("now", "due"), [({DAY: 0}, False), ({}, True), ({DAY: 0, DAY.plus(-1): 1}, False)])
def test_a_day_that_was_empty_is_due_when_it_gets_its_first_data(now: dict[Day, int], due: bool) -> None:
    result = DayResult.empty(DAY, basis({}), None, 0, publishes=True)
    assert is_due(result, basis({**ROWS, **now}), REACH, archived(), SETTINGS) is due


@pytest.mark.parametrize(
    ("result", "judged", "until_ms", "due"),
    [
        (PROVISIONAL, 7, DAY.end_ms + SETTINGS.max_out_of_orderness_ms, True),
        (PROVISIONAL, 7, DAY.end_ms + SETTINGS.max_out_of_orderness_ms - 1, False),
        (PROVISIONAL, 6, DAY.plus(1).end_ms, False),
        (msgspec.structs.replace(REPORTED, settled=None), 7, DAY.plus(1).end_ms, False),
    ],
    ids=["over", "not over", "some wait for the detector", "only a report was wanted"],
)
def test_an_unpublished_day_is_due_once_its_data_are_complete(
    result: DayResult, judged: int, until_ms: int, due: bool
) -> None:
    now: dict[str, Any] = {**ROWS, DAY: judged}
    assert is_due(result, basis(now), REACH, archived(until_ms), SETTINGS) is due


def rule(rule_id: int, days: int, cooldown_days: int = 0) -> bytes:
    document = sum_rule(rule_id, windowMinutes=1 + 1_440 * days, limit=1)
    if cooldown_days:
        document["cooldownSeconds"] = 86_400 * cooldown_days
    return json.dumps(document).encode()


def timeline(*records: tuple[int, bytes], refused: frozenset[int] = frozenset()) -> RuleTimeline:
    entries = [read_entry(n, at_ms, value, SCHEMA, SETTINGS.limits) for n, (at_ms, value) in enumerate(records)]
    assert all(entry.change is not None for entry in entries)
    return RuleTimeline(mark_rejected(entries, refused))


def test_only_rules_that_can_still_affect_a_day_decide_how_far_back_it_reaches() -> None:
    began_ms, ended_ms = DAY.plus(-50).start_ms, DAY.plus(-20).start_ms
    short, long = (began_ms, rule(1, 0)), (began_ms, rule(2, 20, cooldown_days=366))
    assert reach_of(timeline(short), DAY, SETTINGS) == 2
    assert reach_of(timeline(short, long), DAY, SETTINGS) == 388
    for end in (rule(2, 0), json.dumps({"ruleId": 2, "ruleState": "DELETE"}).encode()):
        ended = timeline(short, long, (ended_ms, end))
        assert reach_of(ended, DAY, SETTINGS) == 2
        assert reach_of(ended, DAY.plus(-21), SETTINGS) == 388, "in force on that day"
    refused = timeline(short, long, (ended_ms, rule(2, 0)), refused=frozenset({2}))
    assert reach_of(refused, DAY, SETTINGS) == 388, "the detector refused the change"
    later = timeline(short, (DAY.plus(3).start_ms, rule(2, 5)))
    assert reach_of(later, DAY, SETTINGS) == 7, "a late transaction of the day can arrive under it"
