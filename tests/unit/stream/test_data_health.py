"""The driver's figures of an hour: they continue after a start, and name what they do not count."""

from __future__ import annotations

from typing import Any

import numpy as np

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.logs.data_health import HOUR_MS, SLOTS, HealthHour, RuleHour, hour_record
from fraud_rules.logs.detector_status import ReasonCount
from fraud_rules.model.output import AlertRecord, DuplicateRecord, KeyGroupOutput, LateRecord, RuleMatches
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import Column, TransactionBatch
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.data_health import INTERVAL_MS, MOST_RULES, OTHERS, HealthMeter
from fraud_rules.stream.driver.progress import BatchOutputs
from fraud_rules.stream.pins import NO_PIN
from fraud_rules.stream.worker.field_figures import MOST_TEXTS, nulls_of, texts_of
from fraud_rules.stream.worker.wire import SideOutput, UnreadableRecord
from tests.support.rules import count_rule, rule_log

NO_RULES = RuleTimeline([]).latest
NOW_MS = 480_000 * HOUR_MS + 1_000


def marker(batch_id: int, query_id: str = "q") -> Marker:
    return Marker(query_id, batch_id, {}, NO_PIN)


def output(**parts: Any) -> KeyGroupOutput:
    empty: dict[str, Any] = {"alerts": [], "late": [], "duplicates": [], "evaluations": []}
    return KeyGroupOutput(0, 0, 10, 100, 1_000, **{**empty, **parts})


def side(rows: int, **parts: Any) -> BatchOutputs:
    return BatchOutputs([], [SideOutput.decode(SideOutput(rows, **parts).encode())])


def alert(rule_id: int, append_ms: int) -> AlertRecord:
    return AlertRecord(append_ms, 0, 1, rule_id, "a", False, b"{}", None, 0, 1, 1, 1, 0, 0)


def rejected(reason: str, detail: str = "") -> UnreadableRecord:
    return UnreadableRecord(0, 1, 1, reason, detail, b"")


def texts(*values: str) -> TransactionBatch:
    """A batch with a field of texts, of which the first row has none."""
    n, dictionary = len(values), tuple(dict.fromkeys(values))
    valid = np.arange(n) > 0
    codes = np.array([dictionary.index(each) for each in values], np.int64)
    places = np.zeros(n, np.int64)
    return TransactionBatch(places, places.astype(np.int32), places, {"type": Column(codes, valid, dictionary)})


def test_an_hour_adds_up_what_its_batches_found() -> None:
    late = [LateRecord(5, 0, 7, "payeeId", 30, b"{}"), LateRecord(5, 0, 7, "", 30, b"{}")]
    duplicates = [DuplicateRecord(5, 0, 8, "payeeId", 7, True)]
    account = SideOutput(
        5,
        rejected=(rejected("past_event_time", "first"), rejected("past_event_time", "second"), rejected("no_json")),
        null_keys=2,
        nulls={"ingestionTimestamp": 3},
        texts={"paymentType": {"CSH": 4}, "payeeName": None},
    )
    outputs = BatchOutputs([output(late=late, duplicates=duplicates)], [account])
    meter = HealthMeter((), marker(-1))
    meter.add(outputs, (), NO_RULES, marker(0), NOW_MS, 0)
    (hour,) = meter.add(outputs, (), NO_RULES, marker(1), NOW_MS + INTERVAL_MS, INTERVAL_MS)
    assert hour == HealthHour(
        480_000 * HOUR_MS,
        NOW_MS,
        NOW_MS + INTERVAL_MS,
        "q",
        1,
        rows=10,
        late_transactions=2,
        duplicates=2,
        conflicting_duplicates=2,
        null_keys=4,
        nulls={"ingestionTimestamp": 6},
        late={"payeeId": 2, "": 2},
        quarantined={"past_event_time": ReasonCount(4, "second"), "no_json": ReasonCount(2)},
        texts={"paymentType": {"CSH": 8}, "payeeName": None},
    )


def test_a_record_is_due_every_few_seconds_and_at_the_end_of_the_hour() -> None:
    meter = HealthMeter((), marker(-1))
    written = [
        [
            (each.hour // HOUR_MS, each.rows)
            for each in meter.add(side(1), (), NO_RULES, marker(at), NOW_MS + now_ms, now_ms)
        ]
        for at, now_ms in enumerate((0, 10, INTERVAL_MS, INTERVAL_MS + 10, HOUR_MS, 2 * HOUR_MS))
    ]
    assert written == [[(480_000, 1)], [], [(480_000, 3)], [], [(480_000, 4), (480_001, 1)], [(480_002, 1)]]


def test_a_start_continues_the_hour_and_counts_the_batches_that_no_record_has() -> None:
    before = HealthHour(480_000 * HOUR_MS, NOW_MS, NOW_MS, "q", 5, rows=7)
    (hour,) = HealthMeter([before], marker(8)).add(side(1), (), NO_RULES, marker(9), NOW_MS + 5, 0)
    assert (hour.rows, hour.since, hour.batch_id, hour.uncounted_batches) == (8, NOW_MS, 9, 3)
    (later,) = HealthMeter([hour], marker(9)).add(side(1), (), NO_RULES, marker(10), NOW_MS + HOUR_MS, 0)
    assert (later.rows, later.uncounted_batches) == (1, 0)
    (other,) = HealthMeter([hour], marker(20, "other")).add(side(1), (), NO_RULES, marker(21, "other"), NOW_MS, 0)
    assert (other.rows, other.uncounted_batches) == (9, 3)


def test_an_hour_has_the_figures_of_each_rule_in_force() -> None:
    rules = rule_log([count_rule(rule_id, limit=1, windowMinutes=1) for rule_id in (5, 6)], 0).latest
    group = output(matches=[RuleMatches([5], [4], [3])], keys=[("payeeId", 8)], alerts=[alert(5, 70), alert(5, 60)])
    groups = [output(keys=[("payeeId", 2)]), group]
    meter = HealthMeter((), marker(-1))
    (hour,) = meter.add(BatchOutputs([group], []), groups, rules, marker(0), NOW_MS, 0)
    assert hour.keys == {"payeeId": 10}
    assert hour.rules == {5: RuleHour(4, 3, 2, 70, 10), 6: RuleHour(keys=10)}
    for number in range(2 * MOST_RULES):
        meter.add(BatchOutputs([output(alerts=[alert(number, 1)])], []), (), NO_RULES, marker(1), NOW_MS, 1)
    assert len(hour.rules) == MOST_RULES


def test_names_and_texts_of_an_hour_are_bounded() -> None:
    meter = HealthMeter((), marker(-1))
    many = tuple(rejected(f"reason {number}") for number in range(300))
    counts = [{f"text {batch} {n}": 1 for n in range(30)} for batch in range(2)]
    meter.add(side(1, rejected=many, texts={"type": counts[0]}), (), NO_RULES, marker(0), NOW_MS, 0)
    (hour,) = meter.add(side(1, texts={"type": counts[1]}), (), NO_RULES, marker(1), NOW_MS, INTERVAL_MS)
    assert (len(hour.quarantined), hour.quarantined[OTHERS].count) == (201, 100)
    assert hour.texts == {"type": None}


def test_the_hours_share_a_bounded_number_of_keys() -> None:
    keys = {hour_record(HealthHour(n * HOUR_MS, 0, 0, "q", 0), DetectorSettings()).key for n in range(3 * SLOTS)}
    assert len(keys) == SLOTS


def test_a_task_counts_nulls_and_few_texts() -> None:
    batch = texts("CSH", "CRD", "CSH", "CSH")
    assert nulls_of(batch) == {"type": 1}
    assert texts_of(batch) == {"type": {"CSH": 2, "CRD": 1}}
    assert texts_of(texts(*(str(n) for n in range(MOST_TEXTS + 1)))) == {"type": None}
    assert texts_of(texts("", "x" * 300))["type"] == {"x" * 100: 1}
