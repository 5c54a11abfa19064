"""A prepared history of a warm-up: the same results as without preparation, and as after a restore."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.prepared import PreparedHistory, prepare_history, warm_state_id
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.state.store import MappedViews
from fraud_rules.engine.statelog import read_image
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.model.warm_up import request_at
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording
from fraud_rules.replay.warm_up import histories_of
from tests.support.conformance import load_schema
from tests.support.streams.generated import START_MS, warmed_documents
from tests.support.streams.runs import drawn

SCHEMA = load_schema("nullable")


def outputs(result: Any) -> list[tuple[Any, ...]]:
    """The written outputs of a batch."""
    return [
        ([alert.json for alert in output.alerts], [late.json for late in output.late], output.duplicates)
        for output in result.outputs
    ]


class Unstored:
    """A durable store whose chunks are not read."""

    def send(self, name: str, content: bytes) -> None: ...

    def flush(self) -> None: ...


class Stream:
    """A stream with warm-ups: its batches, and the histories that each adds, by key group."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self.recording = Recording.of_document(document)
        self.settings = settings_of_recording(self.recording, DetectorSettings())
        self.cuts = list(batch_inputs(self.recording, SCHEMA, self.settings))
        self.folder = folder
        self._prepared = 0

    @classmethod
    def generated(cls, seed: int, folder: Path) -> Self:
        return cls(drawn(seed, warmed_documents()), folder)

    def histories(self, cut: Any) -> list[Mapping[int, WarmHistory]]:
        requests = [(request_at(cut.timeline, each.version), each.ends) for each in cut.warm_ups]
        return [
            histories_of(request, ends, self.recording.transactions, SCHEMA, self.settings)
            for request, ends in requests
            if request is not None
        ]

    def prepared(self, cut: Any, histories: list[Mapping[int, WarmHistory]]) -> list[Mapping[int, WarmHistory]]:
        """The same histories, prepared under the rules of the batch."""
        return [{group: self._prepare(cut, each) for group, each in found.items()} for found in histories]

    def _prepare(self, cut: Any, history: WarmHistory) -> WarmHistory:
        grouping = cut.timeline.latest.groupings.get(history.fields)
        if grouping is None:
            return history
        self._prepared += 1
        folder = self.folder / f"prepared-{self._prepared}"
        prepare_history(history.version, grouping, history.rows, history.begins_ms, SCHEMA, folder, Unstored())
        prepared = PreparedHistory.find(folder)
        assert prepared is not None
        return WarmHistory.of_prepared(prepared, lambda: history.rows)

    def mapped(self) -> Replay:
        return Replay(SCHEMA, self.settings, MappedViews(self.folder / "views", SCHEMA))


def has_adopted(replay: Replay) -> bool:
    heads = [decode_head(read_image(image)[0]) for image in replay.images().values()]
    return any(state.id >= warm_state_id(0) for head in heads for state in head.states)


@pytest.mark.parametrize("seed", range(20))
def test_a_prepared_history_gives_the_same_results(seed: int, tmp_path: Path) -> None:
    stream = Stream.generated(seed, tmp_path)
    plain, mapped, restored = Replay(SCHEMA, stream.settings), stream.mapped(), list[Replay]()
    for cut in stream.cuts:
        histories = stream.histories(cut)
        expected = outputs(plain.evaluate(cut.records, cut.timeline, 0, histories))
        prepared = stream.prepared(cut, histories)
        assert outputs(mapped.evaluate(cut.records, cut.timeline, 0, prepared)) == expected
        for each in restored:
            assert outputs(each.evaluate(cut.records, cut.timeline, 0, histories)) == expected
        if histories:
            restored.append(Replay(SCHEMA, stream.settings))
            restored[-1].restore(mapped.images())


def test_a_prepared_history_keeps_its_rows_when_the_recent_ones_need_more_room(tmp_path: Path) -> None:
    """All rows of the history are older than those that the grouping's shorter window has retained."""
    rule = {
        "ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">=", "limit": 200, "windowSeconds": 4,
    }  # fmt: skip
    paid = [
        {"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, "payeeId": 1}}
        for number, at_ms in enumerate(range(START_MS, START_MS + 30_000, 100))
    ]
    end_ms = START_MS + 30_000
    longer = {"at": end_ms, "rule": {**rule, "ruleId": 2, "windowSeconds": 60, "warmUp": True}}
    last = {"at": end_ms + 1, "tx": {"transactionId": 300, "eventTime": end_ms + 1, "payeeId": 1}}
    stream = Stream(
        {
            "settings": {"maxOutOfOrdernessMs": 0},
            "steps": [{"at": START_MS, "rule": rule}, *paid, longer, last],
            "batches": [
                {"offsets": {"transactions": {"0": 300}}, "pin": 1},
                {"offsets": {"transactions": {"0": 301}}, "pin": 2, "warmUps": [{"version": 1, "ends": {"0": 200}}]},
            ],
        },
        tmp_path,
    )
    mapped, counts = stream.mapped(), []
    for cut in stream.cuts:
        result = mapped.evaluate(cut.records, cut.timeline, 0, stream.prepared(cut, stream.histories(cut)))
        counts += [json.loads(alert.json)["windowCount"] for output in result.outputs for alert in output.alerts]
    assert has_adopted(mapped)
    assert counts == [200 + 41 + 1]


@pytest.mark.parametrize("seed", range(5))
def test_a_task_that_died_may_have_moved_the_prepared_arrays(seed: int, tmp_path: Path) -> None:
    stream = Stream.generated(seed, tmp_path)
    plain, mapped = Replay(SCHEMA, stream.settings), stream.mapped()
    for cut in stream.cuts:
        histories = stream.histories(cut)
        prepared = stream.prepared(cut, histories)
        for each in (each for found in prepared for each in found.values() if each.prepared is not None):
            shutil.rmtree(each.prepared.arrays)
        expected = outputs(plain.evaluate(cut.records, cut.timeline, 0, histories))
        assert outputs(mapped.evaluate(cut.records, cut.timeline, 0, prepared)) == expected


def test_the_generated_streams_adopt_prepared_histories(tmp_path: Path) -> None:
    adopted = 0
    for seed in range(5):
        stream = Stream.generated(seed, tmp_path / str(seed))
        mapped = stream.mapped()
        for cut in stream.cuts:
            mapped.evaluate(cut.records, cut.timeline, 0, stream.prepared(cut, stream.histories(cut)))
            adopted += has_adopted(mapped)
    assert adopted > 2
