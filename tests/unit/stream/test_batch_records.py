"""From the outputs of key groups to the records of a batch: one order, late transactions once, bounded sizes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DecisionSettings, DetectorSettings, TopicNames
from fraud_rules.engine.decision import alerts_in_order
from fraud_rules.errors import (
    Reason,
)
from fraud_rules.kafka.writer import OutRecord
from fraud_rules.logs.detector_status import (
    BatchProgress,
    TrafficCounts,
    ViewCounts,
    decode_progress,
    encode_progress,
)
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.output import AlertRecord, DuplicateRecord, KeyGroupOutput, LateRecord, ViewRefresh
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.compression import decompress
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver.metrics import DetectorMetrics
from fraud_rules.stream.driver.progress import BatchOutputs, RulesInForce, RunTotals, batch_progress
from fraud_rules.stream.driver.records import (
    BatchTime,
    alert_records,
    decision_records,
    export_records,
    late_records,
    quarantine_records,
    rule_operation_records,
    traces_of,
)
from fraud_rules.stream.pins import NO_PIN, Pin
from fraud_rules.stream.worker.wire import SideOutput, Trace, UnreadableRecord, quantiles_ms

TOPICS = TopicNames()


def output(key_group: int = 0, **parts: Any) -> KeyGroupOutput:
    empty: dict[str, Any] = {"alerts": [], "late": [], "duplicates": [], "evaluations": []}
    return KeyGroupOutput(key_group, 0, 10, 100, 1_000 + key_group, **{**empty, **parts})


def alert(append_ms: int, partition: int, offset: int, rule_id: int, **parts: Any) -> AlertRecord:
    name = f"{append_ms}/{partition}/{offset}/{rule_id}"
    members = {"shadow": False, "json": b"{}", "restriction": None, "rule_version": 0, "weight": 25}
    members |= {"transaction_id": offset, "event_ms": 7, "transaction_at": 0, "transaction_end": 2}
    return AlertRecord(append_ms, partition, offset, rule_id, name, **{**members, **parts})


def keys(records: list[OutRecord]) -> list[str]:
    return [(record.key or b"").decode() for record in records]


def test_alerts_are_in_arrival_order_and_then_by_rule_however_they_were_spread() -> None:
    groups = [
        output(0, alerts=[alert(2, 0, 8, 1), alert(1, 1, 3, 2)]),
        output(1, alerts=[alert(1, 0, 9, 1), alert(1, 1, 3, 1)]),
    ]
    expected = ["1/0/9/1", "1/1/3/1", "1/1/3/2", "2/0/8/1"]
    assert keys(list(alert_records(alerts_in_order(groups), TOPICS))) == expected
    assert keys(list(alert_records(alerts_in_order(groups[::-1]), TOPICS))) == expected


def test_shadow_alerts_and_restrictions_have_topics_of_their_own() -> None:
    groups = [output(alerts=[alert(1, 0, 1, 1, shadow=True), alert(1, 0, 2, 1, restriction=b"{}")])]
    assert [record.topic for record in alert_records(alerts_in_order(groups), TOPICS)] == [
        "shadow-alerts",
        "alerts",
        "restrictions",
    ]


def fired(offset: int, rule_id: int, transaction_id: int | str, **parts: Any) -> AlertRecord:
    event = json.dumps({"transactionId": transaction_id}).encode()
    text = b'{"triggeringEvent":' + event + b"}"
    place = {"transaction_at": len(text) - len(event) - 1, "transaction_end": len(text) - 1}
    return alert(1, 0, offset, rule_id, json=text, transaction_id=transaction_id, **place, **parts)


def test_the_alerts_of_a_transaction_make_one_decision_however_they_were_spread() -> None:
    groups = [
        output(0, alerts=[fired(2, 5, "b", weight=10), fired(1, 9, 1, weight=60, rule_version=3)]),
        output(1, alerts=[fired(1, 4, 1, weight=40), fired(1, 6, 1, weight=900, shadow=True)]),
        output(2, alerts=[fired(3, 1, 3, shadow=True)]),
    ]
    records = list(decision_records(alerts_in_order(groups), DetectorSettings(), BatchTime(4, 99)))
    assert [(record.topic, record.key) for record in records] == [("decisions", b"1"), ("decisions", b"b")]
    documents = [json.loads(record.value or b"") for record in records]
    assert documents[0] == {
        "transactionId": 1,
        "score": 100,
        "outcome": "DECLINE",
        "alerts": [
            {"ruleId": 4, "ruleVersion": 0, "alertId": "1/0/1/4", "weight": 40},
            {"ruleId": 9, "ruleVersion": 3, "alertId": "1/0/1/9", "weight": 60},
        ],
        "eventTime": 7,
        "ingestionTime": 1,
        "detectionTime": 99,
        "transaction": {"transactionId": 1},
    }
    assert (documents[1]["transactionId"], documents[1]["score"], documents[1]["outcome"]) == ("b", 10, "NOTE")
    assert records == list(decision_records(alerts_in_order(groups[::-1]), DetectorSettings(), BatchTime(4, 99)))


def test_outputs_of_a_transaction_have_the_headers_of_its_trace() -> None:
    traces = traces_of([SideOutput(), SideOutput(traces=(Trace(0, 2, (("traceparent", b"00-a"),)),))])
    alerts = [fired(1, 1, 1), fired(2, 1, 2, restriction=b"{}"), fired(2, 2, 2, shadow=True)]
    decided = decision_records(alerts, DetectorSettings(), BatchTime(4, 99), traces)
    records = [*alert_records(alerts, TOPICS, traces), *decided]
    assert [(each.topic, bool(each.headers)) for each in records] == [
        ("alerts", False), ("alerts", True), ("restrictions", True), ("shadow-alerts", True),
        ("decisions", False), ("decisions", True),
    ]  # fmt: skip
    assert {tuple(each.headers) for each in records if each.headers} == {(("traceparent", b"00-a"),)}


@pytest.mark.parametrize(
    ("thresholds", "outcome"),
    [((61, 61), "NOTE"), ((61, 60), "REVIEW"), ((60, 60), "DECLINE"), ((60, 1), "DECLINE")],
)
def test_the_settings_decide_about_the_outcome_of_a_score(thresholds: tuple[int, int], outcome: str) -> None:
    settings = DetectorSettings(decisions=DecisionSettings(*thresholds))
    (record,) = decision_records([fired(1, 1, 1, weight=60)], settings, BatchTime(4, 99))
    assert json.loads(record.value or b"")["outcome"] == outcome


def test_a_late_transaction_is_written_once_with_every_grouping_concerned() -> None:
    def late(offset: int, grouping: str, lateness_ms: int) -> LateRecord:
        return LateRecord(5, 0, offset, grouping, lateness_ms, b'{"transactionId":%d}' % offset)

    groups = [
        output(0, late=[late(7, "payeeId", 30), late(7, "", 10)]),
        output(1, late=[late(7, "a&b", 40), late(6, "payeeId", 20), late(7, "payeeId", 35)]),
    ]
    documents = [json.loads(record.value or b"") for record in late_records(groups, TOPICS)]
    assert [document["transaction"]["transactionId"] for document in documents] == [6, 7]
    assert documents[1]["latenessMs"] == 40
    assert documents[1]["groupings"] == [
        {"fields": [], "latenessMs": 10},
        {"fields": ["a", "b"], "latenessMs": 40},
        {"fields": ["payeeId"], "latenessMs": 35},
    ]


def test_quarantined_records_have_their_bytes_and_a_reason() -> None:
    refused = [
        UnreadableRecord(1, 9, 5, "malformed_json", "x\udcff", b"\x00{"),
        UnreadableRecord(0, 4, 5, "empty", "", b""),
    ]
    first, second = quarantine_records(refused, TOPICS, 100)
    assert (first.value, second.value) == (b"", b"\x00{")
    assert dict(second.headers)["reason"] == b"malformed_json"
    assert dict(second.headers)["offset"] == b"9"
    assert dict(second.headers)["detail"] == b"x\\udcff"


def test_a_record_too_large_to_be_written_is_cut_and_marked() -> None:
    (record,) = quarantine_records([UnreadableRecord(0, 1, 1, "too_large", "", b"x" * 50)], TOPICS, 10)
    assert record.value == b"x" * 10
    assert dict(record.headers)["truncatedFrom"] == b"50"


@pytest.fixture
def timeline(project: Project) -> RuleTimeline:
    rule = (
        b'{"ruleId":%d,"ruleState":"ACTIVE","groupingKeyNames":["payeeId"],"aggregatorFunctionType":"COUNT",'
        b'"limitOperatorType":">","limit":1.50,"windowMinutes":1}'
    )
    control = b'{"ruleState":"CONTROL","controlType":"EXPORT_RULES_CURRENT"}'
    values = [rule % 2, b"?", rule % 1, control, b'{"ruleId":1,"ruleState":"DELETE"}']
    schema = TransactionSchema.load(project.config / "schema.yaml")
    entries = [read_entry(i, 100 + i, value, schema, RuleLimits()) for i, value in enumerate(values)]
    entries[2] = entries[2].rejected_by_pin([Reason("windowMinutes", "too wide")])
    return RuleTimeline(entries)


def test_each_rule_record_is_reported_once_live_or_rejected(timeline: RuleTimeline) -> None:
    records = list(rule_operation_records(timeline.entries, timeline, NO_PIN, BatchTime(7, 999), TOPICS))
    documents = [json.loads(record.value or b"") for record in records]
    assert [document["status"] for document in documents] == ["LIVE", "REJECTED", "REJECTED", "LIVE", "LIVE"]
    assert [document["ruleVersion"] for document in documents] == [0, 1, 2, 3, 4]
    assert [document["operation"] for document in documents] == [
        "ACTIVE", None, None, "EXPORT_RULES_CURRENT", "DELETE",
    ]  # fmt: skip
    assert documents[2]["reasons"] == [{"field": "windowMinutes", "message": "too wide"}]
    assert [document.get("refusedInPin") for document in documents] == [None, False, True, None, None]
    assert {document["batchId"] for document in documents} == {7}
    assert ["cpuNs" in document for document in documents] == [True, False, False, False, False]
    assert documents[0]["cpuNs"] > 0
    assert keys(records)[0] == "2"


def test_an_export_has_the_rules_in_force_at_its_place(timeline: RuleTimeline) -> None:
    records = list(export_records(timeline.entries, timeline, TOPICS))
    assert keys(records) == ["2"]
    document = json.loads(records[0].value or b"")
    beside = {"export": 3, "position": 0, "rules": 1, "ruleVersion": 0}
    assert document == {
        "ruleId": 2,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">",
        "limit": 1.5,
        "windowMinutes": 1,
        **beside,
    }
    assert b'"limit":1.50' in (records[0].value or b"")


def test_lists_are_reported_by_name_and_exported_with_their_versions() -> None:
    schema = TransactionSchema.load(Project.find().config / "schema.yaml")
    change = {"listName": "mules", "listOperation": "SET", "listType": "long", "values": [3, 4, 3]}
    records = [
        {**change, "listOperation": "ADD"},
        change,
        {"ruleState": "CONTROL", "controlType": "EXPORT_RULES_CURRENT"},
        {**change, "listOperation": "DELETE", "values": None},
    ]
    log = [read_entry(i, i, json.dumps(each).encode(), schema, RuleLimits()) for i, each in enumerate(records)]
    timeline = RuleTimeline(log)
    reports = list(rule_operation_records(timeline.entries, timeline, NO_PIN, BatchTime(4, 99), TOPICS))
    assert [report.key for report in reports] == [b"list:mules", b"list:mules", b"control", b"list:mules"]
    documents = [json.loads(report.value or b"") for report in reports]
    assert [(each["operation"], each["status"]) for each in documents] == [
        (None, "REJECTED"),
        ("SET", "LIVE"),
        ("EXPORT_RULES_CURRENT", "LIVE"),
        ("DELETE", "LIVE"),
    ]
    assert documents[0]["listName"] == "mules"
    (exported,) = export_records(timeline.entries, timeline, TOPICS)
    about = {"listName": "mules", "listType": "long", "size": 2, "listVersion": 1, "export": 2, "lists": 1}
    assert (exported.key, json.loads(exported.value or b"")) == (b"list:mules", about)


def test_latency_comes_from_append_times_weighted_by_rows() -> None:
    quick = SideOutput(900, 0, quantiles_ms(np.arange(900)))
    slow = SideOutput(100, 0, quantiles_ms(np.full(100, 5_000)))
    assert BatchOutputs([], [quick, slow]).append_ms(0.5) == pytest.approx(500, abs=20)
    assert BatchOutputs([], [quick, slow, SideOutput()]).append_ms(1.0) == 5_000
    assert BatchOutputs([], [SideOutput()]).append_ms(0.5) is None
    assert SideOutput.decode(quick.encode()) == quick


def test_a_stray_event_time_does_not_widen_the_span_of_a_batch() -> None:
    minute = SideOutput(1_000, event_quantiles_ms=quantiles_ms(np.arange(60_000, 120_000, 60)))
    stray = SideOutput(1, event_quantiles_ms=quantiles_ms(np.zeros(1, np.int64)))
    span_ms = BatchOutputs([], [minute, stray]).event_span_ms
    assert span_ms == (pytest.approx(63_000, abs=700), pytest.approx(117_000, abs=700))
    assert BatchOutputs([], [SideOutput()]).event_span_ms is None


def test_the_account_keeps_the_last_figures_of_each_key_group() -> None:
    totals = RunTotals(TrafficCounts(0, 0, 0, 0))
    totals.add(BatchOutputs([output(0, alerts=[alert(1, 0, 1, 1)]), output(1)], []))
    totals.add(BatchOutputs([msgspec.structs.replace(output(1), retained_events=50)], []))
    assert totals.retained_events == 60
    assert totals.watermark_ms == 1_001
    assert totals.groups[0].alerts == []


def test_a_batch_counts_what_its_tasks_found() -> None:
    refused = (UnreadableRecord(0, 1, 1, "empty", "", b""),)
    outputs = BatchOutputs([], [SideOutput(5, 1, (1,)), SideOutput(rejected=refused), SideOutput(7, 0, (2,))])
    assert (outputs.rows, outputs.ignored, outputs.rejected) == (12, 1, 1)


def test_a_late_transaction_counts_once_however_many_groupings_it_was_late_in() -> None:
    def late(partition: int, offset: int, grouping: str) -> LateRecord:
        return LateRecord(5, partition, offset, grouping, 30, b"{}")

    refused = (UnreadableRecord(0, 1, 1, "empty", "", b""),)
    groups = [output(0, late=[late(0, 7, "a"), late(1, 7, "a")]), output(1, late=[late(0, 7, "b")])]
    outputs = BatchOutputs(groups, [SideOutput(5, 0, (1,), rejected=refused)])
    totals = RunTotals(TrafficCounts(1_000, 0, 0, 0))
    totals.add(outputs)
    totals.add(outputs)
    assert totals.traffic == TrafficCounts(1_000, rows=10, late=4, quarantined=2)
    progress = progress_of(outputs, totals)
    assert (progress.rows, progress.late, progress.late_transactions) == (5, 3, 2)
    assert progress.since_start == totals.traffic


def test_duplicates_and_null_keys_count_each_transaction_once_per_batch_and_since_the_start() -> None:
    def duplicate(offset: int, grouping: str, *, conflicting: bool) -> DuplicateRecord:
        return DuplicateRecord(5, 0, offset, grouping, 7, conflicting)

    first = [duplicate(7, "a", conflicting=False), duplicate(8, "a", conflicting=False)]
    groups = [output(0, duplicates=first), output(1, duplicates=[duplicate(7, "b", conflicting=True)])]
    groups = [KeyGroupOutput.decode(each.encode()) for each in groups]
    sides = [SideOutput.decode(each.encode()) for each in (SideOutput(5, null_keys=2), SideOutput(4, null_keys=1))]
    totals, metrics, outputs = (
        RunTotals(TrafficCounts(0, 0, 0, 0)),
        DetectorMetrics("detector"),
        BatchOutputs(groups, sides),
    )
    for _ in range(2):
        totals.add(outputs)
        progress = progress_of(outputs, totals)
        metrics.add_batch(progress)
    assert (progress.duplicates, progress.conflicting_duplicates, progress.null_keys) == (2, 1, 3)
    assert progress.since_start == TrafficCounts(0, 18, 0, 0, duplicates=4, conflicting_duplicates=2, null_keys=6)
    counted = [
        metrics.registry.get_sample_value(f"fraud_detector_{name}_total", {"detector": "detector"})
        for name in ("duplicate_transactions", "conflicting_transactions", "null_key_transactions")
    ]
    assert counted == [4, 2, 6]


def test_views_that_were_not_current_are_counted_per_batch_and_since_the_start() -> None:
    refreshed = [ViewRefresh.REBUILD, ViewRefresh.CATCH_UP, ViewRefresh.NONE, ViewRefresh.CATCH_UP]
    groups = [msgspec.structs.replace(output(i), refreshed=each) for i, each in enumerate(refreshed)]
    totals, metrics = RunTotals(TrafficCounts(0, 0, 0, 0)), DetectorMetrics("detector")
    for batch in (groups, groups[:1]):
        outputs = BatchOutputs([KeyGroupOutput.decode(each.encode()) for each in batch], [])
        totals.add(outputs)
        progress = progress_of(outputs, totals)
        metrics.add_batch(progress)
    assert (progress.view_catch_ups, progress.view_rebuilds) == (0, 1)
    assert progress.views_since_start == ViewCounts(catch_ups=2, rebuilds=2)
    labels = {"detector": "detector"}
    assert metrics.registry.get_sample_value("fraud_detector_view_rebuilds_total", labels) == 2
    assert metrics.registry.get_sample_value("fraud_detector_view_catch_ups_total", labels) == 2


def test_a_blob_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        decompress(b"\x07blob")


def progress_of(outputs: BatchOutputs, totals: RunTotals) -> BatchProgress:
    """The progress of a batch, as a reader decodes it."""
    written = batch_progress(Marker("q", 1, {}, Pin(1, 0)), outputs, totals, RulesInForce(0))
    read = decode_progress(encode_progress(written))
    assert read == written
    return read
