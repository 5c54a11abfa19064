"""A rebuilt state equals the original: later batches have the same outputs, however a rebuild joins batches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis.strategies import SearchStrategy

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.model.offset_ranges import share_of
from fraud_rules.model.output import KeyGroupOutput, MarkUpdate
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.model.warm_up import BatchWarmUp, request_at
from fraud_rules.replay.need import history_need
from fraud_rules.replay.rebuild import SegmentEvaluation
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording
from fraud_rules.replay.segments import BatchEnd, Segment, segments_of
from fraud_rules.replay.warm_up import histories_of
from tests.support.conformance import load_schema
from tests.support.records.decoded import decoded_recording
from tests.support.streams.features import Features, with_features
from tests.support.streams.generated import (
    START_MS,
    changing_documents,
    documents,
    documents_of_every_order,
    warmed_documents,
)
from tests.support.streams.long import long_document
from tests.support.streams.runs import drawn, numbers

STREAM_SCHEMA = load_schema("nullable")
NONE_WARM: Mapping[int, Mapping[int, WarmHistory]] = {}


def outputs(result: Any) -> list[tuple[Any, ...]]:
    """The written outputs of a batch."""
    return [
        ([alert.json for alert in output.alerts], [late.json for late in output.late], output.duplicates)
        for output in result.outputs
    ]


def ends_of(cuts: Sequence[Any]) -> list[BatchEnd]:
    """The ends of batches, as `detector-progress` has them."""
    reached: dict[int, int] = {}
    found = []
    for cut in cuts:
        for record in cut.records:
            reached[record.partition] = max(reached.get(record.partition, 0), record.offset + 1)
        warm_ups = tuple(BatchWarmUp(each.version, 0, "", {}) for each in cut.warm_ups)
        found.append(BatchEnd(cut.timeline.end, dict(reached), warm_ups))
    return found


def rebuilt_images(
    cuts: Sequence[Any],
    settings: DetectorSettings,
    most_records: int,
    known_from_ms: int | None = None,
    histories: Mapping[int, Mapping[int, WarmHistory]] = NONE_WARM,
) -> dict[int, bytes]:
    """The images that a rebuild computes, from the needed cuts. Two tasks decode the transactions of a segment."""
    timelines: dict[int, RuleTimeline] = {cut.timeline.end: cut.timeline for cut in cuts}
    records, ends = [record for cut in cuts for record in cut.records], ends_of(cuts)
    logs, views = [MemoryStateLog() for _ in range(settings.key_groups)], HeapViews()
    starts, first = dict.fromkeys(ends[-1].ends, 0), 0
    if known_from_ms is not None:
        first = next(i for i, cut in enumerate(cuts) if any(each.append_ms >= known_from_ms for each in cut.records))
        starts |= ends[first - 1].ends if first else {}
    marks: list[MarkUpdate] = []
    segments = list(segments_of(ends[first:], starts, most_records))
    for segment in [*segments, segments[-1].after]:
        evaluation = SegmentEvaluation(segment, timelines.__getitem__, STREAM_SCHEMA, settings, known_from_ms)
        mine = [
            each for each in records if segment.starts[each.partition] <= each.offset < segment.ends[each.partition][-1]
        ]
        blobs: dict[int, dict[int, list[bytes]]] = {}
        for task in (mine[1::2], mine[::2]):
            for part, key_group, blob in evaluation.fan_out(
                decoded_recording(task, STREAM_SCHEMA, settings.record_limits)
            ):
                blobs.setdefault(key_group, {}).setdefault(part, []).append(blob)
        added = [histories[each.version] for each in segment.warm_ups]
        found: list[KeyGroupOutput] = []
        for key_group in range(settings.key_groups) if added or marks else list(blobs):
            parts = blobs.setdefault(key_group, {})
            if added or marks:
                parts.setdefault(0, [])
            mine_added = [each[key_group] for each in added if key_group in each]
            mine_marks = [each for each in marks if each.key_group == key_group]
            found += evaluation.evaluate(key_group, parts, logs[key_group], views, mine_added, mine_marks)
        marks = segment.conclude(found, timelines[segment.rules_end])
    assert not marks
    return {key_group: image for key_group, log in enumerate(logs) if (image := log.image()) is not None}


@pytest.mark.parametrize("seed", numbers(6, 2))
def test_batches_after_a_rebuild_have_the_same_outputs(seed: int) -> None:
    recording = Recording.of_document(long_document(seed, 600))
    settings = settings_of_recording(recording, DetectorSettings())
    cuts = list(batch_inputs(recording, STREAM_SCHEMA, settings))
    middle = len(cuts) // 2
    original = Replay(STREAM_SCHEMA, settings)
    for cut in cuts[:middle]:
        original.evaluate(cut.records, cut.timeline, 0)
    rebuilt = {most: restored(rebuilt_images(cuts[:middle], settings, most), settings) for most in (1, 60, 10_000)}
    for cut in cuts[middle:]:
        expected = outputs(original.evaluate(cut.records, cut.timeline, 0))
        for most_records, each in rebuilt.items():
            assert outputs(each.evaluate(cut.records, cut.timeline, 0)) == expected, most_records


def restored(images: Mapping[int, bytes], settings: DetectorSettings) -> Replay:
    run = Replay(STREAM_SCHEMA, settings)
    run.restore(images)
    return run


@pytest.mark.parametrize("seed", numbers(12, 2))
def test_a_rebuild_adds_the_histories_of_warm_ups(seed: int) -> None:
    recording = Recording.of_document(drawn(seed, warmed_documents()))
    settings = settings_of_recording(recording, DetectorSettings())
    cuts = list(batch_inputs(recording, STREAM_SCHEMA, settings))
    histories: dict[int, Mapping[int, WarmHistory]] = {}
    for cut in cuts:
        for each in cut.warm_ups:
            request = request_at(cut.timeline, each.version)
            found = (
                {}
                if request is None
                else histories_of(request, each.ends, recording.transactions, STREAM_SCHEMA, settings)
            )
            histories[each.version] = found
    original = Replay(STREAM_SCHEMA, settings)
    expected = [
        outputs(original.evaluate(cut.records, cut.timeline, 0, [histories[each.version] for each in cut.warm_ups]))
        for cut in cuts
    ]
    for middle, most_records in product(range(1, len(cuts)), (1, 10_000)):
        if not any(cut.records for cut in cuts[:middle]):
            continue
        rebuilt = restored(rebuilt_images(cuts[:middle], settings, most_records, None, histories), settings)
        for cut, wanted in zip(cuts[middle:], expected[middle:], strict=True):
            warm = [histories[each.version] for each in cut.warm_ups]
            assert outputs(rebuilt.evaluate(cut.records, cut.timeline, 0, warm)) == wanted


NAMING = with_features(documents(), Features(conditions=True))


@pytest.mark.parametrize("strategy", [changing_documents(), NAMING], ids=["changing", "naming"])
@pytest.mark.parametrize("seed", numbers(12, 2))
def test_a_rebuild_follows_rules_and_lists_that_change_within_a_batch(
    seed: int, strategy: SearchStrategy[dict[str, Any]]
) -> None:
    recording = Recording.of_document(drawn(seed, strategy))
    settings = settings_of_recording(recording, DetectorSettings())
    cuts = list(batch_inputs(recording, STREAM_SCHEMA, settings))
    original = Replay(STREAM_SCHEMA, settings)
    expected = [outputs(original.evaluate(cut.records, cut.timeline, 0)) for cut in cuts]
    for middle, most_records in product(range(1, len(cuts) + 1), (1, 10_000)):
        if not any(cut.records for cut in cuts[:middle]):
            continue
        rebuilt = restored(rebuilt_images(cuts[:middle], settings, most_records), settings)
        for cut, wanted in zip(cuts[middle:], expected[middle:], strict=True):
            assert outputs(rebuilt.evaluate(cut.records, cut.timeline, 0)) == wanted


def test_a_rebuild_reads_changes_of_a_rule_and_its_list_in_many_orders() -> None:
    for document in islice(documents_of_every_order(), 0, None, 5):
        recording = Recording.of_document(document)
        settings = settings_of_recording(recording, DetectorSettings())
        cuts = list(batch_inputs(recording, STREAM_SCHEMA, settings))
        original = Replay(STREAM_SCHEMA, settings)
        for cut in cuts:
            original.evaluate(cut.records, cut.timeline, 0)
        assert rebuilt_images(cuts, settings, 1_000).keys() == original.images().keys()


UNMARKED = [{"aggregatorFunctionType": name} for name in ("SUM", "MIN", "COUNT_DISTINCT", "STDDEV")]
MARKED = [{"cooldownSeconds": 7}, {"aggregatorFunctionType": "COUNT_WITH_RESET"}]


def bursts_document(seed: int, rules: Sequence[dict[str, Any]], pause_ms: int) -> dict[str, Any]:
    """Bursts of payments with pauses, for rules with windows of five seconds. Only the first burst has a payment type,
    so the state of the last rule's grouping stays as it is from then on."""
    random, steps = Random(seed), list[dict[str, Any]]()
    for rule_id, members in enumerate(rules, 1):
        rule = {"ruleId": rule_id, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "limitOperatorType": ">="}
        rule |= {"aggregateFieldName": "paymentAmount", "aggregatorFunctionType": "COUNT", "limit": 3}
        rule |= {"windowSeconds": 5, **members}
        rule["unique"] = ["beneficiaryId"] if rule["aggregatorFunctionType"] == "COUNT_DISTINCT" else []
        steps.append({"at": START_MS, "rule": rule})
    quiet = {**steps[0]["rule"], "ruleId": 9, "groupingKeyNames": ["paymentType"]}
    steps.append({"at": START_MS, "rule": quiet})
    now_ms, batches, transactions = START_MS, list[dict[str, Any]](), 0
    for burst in range(30):
        now_ms += pause_ms
        for _ in range(random.randint(5, 40)):
            now_ms += random.randint(0, 400)
            transactions += 1
            late_ms = random.choice([0, 0, 500, 3_000])
            tx = {"transactionId": transactions, "eventTime": now_ms - late_ms, "payeeId": random.randint(1, 3)}
            tx |= {"beneficiaryId": random.randint(1, 5), "paymentAmount": "1"}
            steps.append({"at": now_ms, "tx": tx if burst else {**tx, "paymentType": "CSH"}})
            if random.random() < 0.2:
                batches.append({"offsets": {"transactions": {"0": transactions}}, "pin": len(rules) + 1})
    return {"keyGroups": 3, "settings": {"maxOutOfOrdernessMs": 1000}, "steps": steps, "batches": batches}


@pytest.mark.parametrize(("rules", "pause_ms"), [(UNMARKED, 1_000), (MARKED, 30_000)])
@pytest.mark.parametrize("seed", numbers(4, 2))
def test_the_needed_history_gives_the_same_outputs(rules: Sequence[dict[str, Any]], pause_ms: int, seed: int) -> None:
    """The rest of the history only adds to the counts of suppressed alerts."""
    recording = Recording.of_document(bursts_document(seed, rules, pause_ms))
    settings = replace(settings_of_recording(recording, DetectorSettings()), future_tolerance_ms=1_000)
    cuts = list(batch_inputs(recording, STREAM_SCHEMA, settings))
    middle = 2 * len(cuts) // 3
    original = Replay(STREAM_SCHEMA, settings)
    for cut in cuts[:middle]:
        result = original.evaluate(cut.records, cut.timeline, 0)
    watermark_ms = max(each.watermark_ms for each in result.outputs if each.watermark_ms is not None)
    need = history_need(cuts[middle - 1].timeline.latest, settings, watermark_ms)
    assert need.marks == (rules is MARKED)
    assert need.from_ms > cuts[middle // 2].records[0].append_ms, "most of the history is not needed"
    rebuilt = restored(rebuilt_images(cuts[:middle], settings, 100, need.from_ms), settings)
    for cut in cuts[middle:]:
        expected, got = (run.evaluate(cut.records, cut.timeline, 0) for run in (original, rebuilt))
        assert without_suppressed(outputs(got)) == without_suppressed(outputs(expected))


def without_suppressed(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [([re.sub(rb'"suppressed":\d+', b"", each) for each in alerts], *rest) for alerts, *rest in found]


def shape(segment: Segment) -> tuple[list[int], list[int], list[int]]:
    """The ends of partition 0, the parts, and the rules of the parts."""
    parts = segment.part_of.tolist()
    return segment.ends[0].tolist(), parts, [segment.rules_end_of(part) for part in sorted(set(parts))]


@pytest.mark.parametrize(
    ("batches", "segments"),
    [
        ([(1, 2), (1, 3)], [([2, 3], [0, 0], [1])]),
        ([(1, 1), (2, 2), (2, 3)], [([1, 2, 3], [0, 1, 1], [1, 2])]),  # later batches saw other rules
        ([(1, 1), (2, 1), (1, 2)], [([1, 2], [0, 0], [1])]),  # the second batch has no transactions
        ([(1, 4), (1, 5)], [([4], [0], [1]), ([5], [0], [1])]),  # the first batch fills a segment
        ([(1, 0)], []),
    ],
)
def test_batches_are_joined_to_segments(
    batches: list[tuple[int, int]], segments: list[tuple[list[int], list[int], list[int]]]
) -> None:
    ends = [BatchEnd(rules_end, {0: end}) for rules_end, end in batches]
    assert [shape(segment) for segment in segments_of(ends, {0: 0}, 4)] == segments


def test_a_row_belongs_to_the_batch_that_has_read_it() -> None:
    (segment,) = segments_of([BatchEnd(1, {0: 2, 1: 0}), BatchEnd(1, {0: 3, 1: 2})], {0: 0, 1: 0})
    places = [(0, 1), (0, 2), (1, 0), (1, 1)]
    partition, offset = (np.array(each, dtype=np.int64) for each in zip(*places, strict=True))
    rows = TransactionBatch(offset, partition.astype(np.int32), offset, {})
    assert segment.batch_of(rows).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_shares_of_a_segment_have_each_record_once(count: int) -> None:
    segment = Segment({0: 5, 1: 0, 2: 9}, {0: np.array([7, 16]), 1: np.array([0, 1]), 2: np.array([9, 9])}, np.ones(2))
    shares = [share_of(segment.ranges, number, count) for number in range(count)]
    read = [(at, offset) for share in shares for at, (start, end) in share.items() for offset in range(start, end)]
    assert sorted(read) == [*((0, offset) for offset in range(5, 16)), (1, 0)]
