"""A rebuilt state equals the original: later batches have the same outputs, even if the rebuild joined batches."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.logs.batch_history import HistoryBatch
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.rebuild import merge_batches, rebuild_state
from fraud_rules.replay.recording import RecordedTransaction, Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording
from tests.support.conformance import load_schema
from tests.support.streams.long import long_document

STREAM_SCHEMA = load_schema("nullable")


def tx(append_ms: int, partition: int = 0, offset: int = 0) -> RecordedTransaction:
    return RecordedTransaction(append_ms, partition, offset, None)


def outputs(result: Any) -> list[tuple[Any, ...]]:
    """The written outputs of a batch."""
    return [
        ([alert.json for alert in output.alerts], [late.json for late in output.late], output.duplicates)
        for output in result.outputs
    ]


@pytest.mark.parametrize("seed", range(8))
def test_batches_after_a_rebuild_have_the_same_outputs(seed: int) -> None:
    recording = Recording.of_document(long_document(seed, 600))
    settings = settings_of_recording(recording, DetectorSettings())
    cuts = list(batch_inputs(recording, STREAM_SCHEMA, settings))
    middle = len(cuts) // 2
    original = Replay(STREAM_SCHEMA, settings)
    for cut in cuts[:middle]:
        original.evaluate(cut.records, cut.timeline, 0)
    timelines: dict[int, RuleTimeline] = {cut.timeline.end: cut.timeline for cut in cuts}
    batches = [HistoryBatch(cut.timeline.end, list(cut.records)) for cut in cuts[:middle]]
    rebuilt = Replay(STREAM_SCHEMA, settings)
    rebuilt.restore(rebuild_state(batches, timelines.__getitem__, STREAM_SCHEMA, settings))
    for cut in cuts[middle:]:
        expected, got = (run.evaluate(cut.records, cut.timeline, 0) for run in (original, rebuilt))
        assert outputs(got) == outputs(expected)


@pytest.mark.parametrize(
    ("batches", "joined"),
    [
        ([(1, [1, 2]), (1, [3])], [(1, [1, 2, 3])]),
        ([(1, [1, 3]), (1, [2])], [(1, [1, 3]), (1, [2])]),  # a record of the second batch arrived earlier
        ([(1, [1]), (2, [2])], [(1, [1]), (2, [2])]),  # the second batch saw other rules
        ([(1, [1]), (2, []), (1, [2])], [(1, [1, 2])]),
        ([(1, [1, 2, 3]), (1, [4, 5])], [(1, [1, 2, 3]), (1, [4, 5])]),  # too many rows for one batch
        ([(1, [])], []),
    ],
)
def test_batches_are_joined_if_the_outputs_stay_the_same(
    batches: list[tuple[int, list[int]]], joined: list[tuple[int, list[int]]]
) -> None:
    evaluated = [HistoryBatch(rules_end, [tx(at) for at in times]) for rules_end, times in batches]
    found = [
        (rules_end, [record.append_ms for record in records]) for rules_end, records in merge_batches(evaluated, 4)
    ]
    assert found == joined


def test_a_rebuild_from_no_batches_has_no_state(project: Project) -> None:
    schema = TransactionSchema.load(project.config / "schema.yaml")
    assert rebuild_state([], lambda end: RuleTimeline(), schema, DetectorSettings()) == {}
