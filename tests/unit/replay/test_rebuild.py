"""A rebuilt state equals the original: later batches have the same outputs, however a rebuild joins batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.replay.rebuild import SegmentEvaluation
from fraud_rules.replay.recording import RecordedTransaction, Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording
from fraud_rules.replay.segments import BatchEnd, Segment, segments_of
from tests.support.conformance import load_schema
from tests.support.streams.long import long_document

STREAM_SCHEMA = load_schema("nullable")


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
        found.append(BatchEnd(cut.timeline.end, dict(reached)))
    return found


def decoded(records: Sequence[RecordedTransaction], settings: DetectorSettings) -> TransactionBatch:
    return decode_transactions(
        [record.value for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [record.append_ms for record in records],
        STREAM_SCHEMA,
        settings.future_tolerance_ms,
        settings.max_transaction_bytes,
    ).batch


def rebuilt_images(cuts: Sequence[Any], settings: DetectorSettings, most_records: int) -> dict[int, bytes]:
    """The images that a rebuild computes. Two tasks decode the transactions of a segment."""
    timelines: dict[int, RuleTimeline] = {cut.timeline.end: cut.timeline for cut in cuts}
    records, ends = [record for cut in cuts for record in cut.records], ends_of(cuts)
    logs, views = [MemoryStateLog() for _ in range(settings.key_groups)], HeapViews()
    for segment in segments_of(ends, dict.fromkeys(ends[-1].ends, 0), most_records):
        evaluation = SegmentEvaluation(segment, timelines.__getitem__, STREAM_SCHEMA, settings)
        mine = [
            each for each in records if segment.starts[each.partition] <= each.offset < segment.ends[each.partition][-1]
        ]
        blobs: dict[int, dict[int, list[bytes]]] = {}
        for task in (mine[1::2], mine[::2]):
            for part, key_group, blob in evaluation.fan_out(decoded(task, settings)):
                blobs.setdefault(key_group, {}).setdefault(part, []).append(blob)
        for key_group, parts in blobs.items():
            evaluation.evaluate(key_group, parts, logs[key_group], views)
    return {key_group: image for key_group, log in enumerate(logs) if (image := log.image()) is not None}


@pytest.mark.parametrize("most_records", [1, 60, 10_000])
@pytest.mark.parametrize("seed", range(8))
def test_batches_after_a_rebuild_have_the_same_outputs(seed: int, most_records: int) -> None:
    recording = Recording.of_document(long_document(seed, 600))
    settings = settings_of_recording(recording, DetectorSettings())
    cuts = list(batch_inputs(recording, STREAM_SCHEMA, settings))
    middle = len(cuts) // 2
    original = Replay(STREAM_SCHEMA, settings)
    for cut in cuts[:middle]:
        original.evaluate(cut.records, cut.timeline, 0)
    rebuilt = Replay(STREAM_SCHEMA, settings)
    rebuilt.restore(rebuilt_images(cuts[:middle], settings, most_records))
    for cut in cuts[middle:]:
        expected, got = (run.evaluate(cut.records, cut.timeline, 0) for run in (original, rebuilt))
        assert outputs(got) == outputs(expected)


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
