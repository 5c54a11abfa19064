"""A rebuilt state is the state that was: what comes after it is the same, however the batches before were joined."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.engine.statelog import restore_image
from fraud_rules.logs.judged_batches import HistoryBatch
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay import replay
from fraud_rules.replay.rebuild import merge_batches, rebuild_state
from fraud_rules.replay.recording import RecordedTransaction, Recording
from fraud_rules.replay.replay import Replay
from tests.support.conformance import load_schema
from tests.support.streams.long import long_document

STREAM_SCHEMA = load_schema("nullable")


def tx(append_ms: int, partition: int = 0, offset: int = 0) -> RecordedTransaction:
    return RecordedTransaction(append_ms, partition, offset, None)


def outputs(taken: Any) -> list[tuple[Any, ...]]:
    """What is written of a batch."""
    return [
        ([alert.json for alert in output.alerts], [late.json for late in output.late], output.duplicates)
        for output in taken.outputs
    ]


@pytest.mark.parametrize("seed", range(8))
def test_what_comes_after_is_the_same(seed: int) -> None:
    recording = Recording.of_document(long_document(seed, 600))
    settings = replay._settings_for(recording, replay.DetectorSettings())
    log = replay._rule_log(recording, STREAM_SCHEMA, settings)
    cuts = list(replay._cuts(recording, log))
    middle = len(cuts) // 2
    original = Replay(STREAM_SCHEMA, settings)
    for cut in cuts[:middle]:
        original.evaluate(cut.records, cut.timeline, 0)
    timelines: dict[int, RuleTimeline] = {cut.timeline.end: cut.timeline for cut in cuts}
    batches = [HistoryBatch(cut.timeline.end, list(cut.records)) for cut in cuts[:middle]]
    rebuilt = Replay(STREAM_SCHEMA, settings)
    for key_group, image in rebuild_state(batches, timelines.__getitem__, STREAM_SCHEMA, settings).items():
        restore_image(rebuilt._logs[key_group], image)
    for cut in cuts[middle:]:
        expected, got = (run.evaluate(cut.records, cut.timeline, 0) for run in (original, rebuilt))
        assert outputs(got) == outputs(expected)


@pytest.mark.parametrize(
    ("batches", "joined"),
    [
        ([(1, [1, 2]), (1, [3])], [(1, [1, 2, 3])]),
        ([(1, [1, 3]), (1, [2])], [(1, [1, 3]), (1, [2])]),  # the second holds what arrived before
        ([(1, [1]), (2, [2])], [(1, [1]), (2, [2])]),  # it saw other rules
        ([(1, [1]), (2, []), (1, [2])], [(1, [1, 2])]),
        ([(1, [1, 2, 3]), (1, [4, 5])], [(1, [1, 2, 3]), (1, [4, 5])]),  # too many at once
        ([(1, [])], []),
    ],
)
def test_batches_are_joined_where_nothing_changes(
    batches: list[tuple[int, list[int]]], joined: list[tuple[int, list[int]]]
) -> None:
    judged = [HistoryBatch(rules_end, [tx(at) for at in times]) for rules_end, times in batches]
    found = [(rules_end, [record.append_ms for record in records]) for rules_end, records in merge_batches(judged, 4)]
    assert found == joined


def test_the_shipped_schema_can_be_rebuilt_from_nothing(project: Project) -> None:
    schema = TransactionSchema.load(project.config / "schema.yaml")
    assert rebuild_state([], lambda end: RuleTimeline(), schema, replay.DetectorSettings()) == {}
