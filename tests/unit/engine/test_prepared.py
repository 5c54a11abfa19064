"""A prepared history of a warm-up: the same results as without preparation, and as after a restore."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fraud_rules.engine.prepared import warm_state_id
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.statelog import read_image
from fraud_rules.replay.replay import Replay
from tests.support.rules import count_rule
from tests.support.streams.generated import START_MS
from tests.support.streams.warmed import WarmedStream, outputs


def has_adopted(replay: Replay) -> bool:
    heads = [decode_head(read_image(image)[0]) for image in replay.images().values()]
    return any(state.id >= warm_state_id(0) for head in heads for state in head.states)


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 20), marks=pytest.mark.long)])
def test_a_prepared_history_gives_the_same_results(seeds: range, tmp_path: Path) -> None:
    """The further streams are a long test, which looks for the same faults."""
    adopted = 0
    for seed in seeds:
        stream = WarmedStream.generated(seed, tmp_path / str(seed))
        plain, mapped, restored = stream.plain(), stream.mapped(), list[Replay]()
        for cut in stream.cuts:
            histories = stream.histories(cut)
            expected = outputs(plain.evaluate(cut.records, cut.timeline, 0, histories))
            prepared = stream.prepared(cut, histories)
            assert outputs(mapped.evaluate(cut.records, cut.timeline, 0, prepared)) == expected, seed
            adopted += has_adopted(mapped)
            for each in restored:
                assert outputs(each.evaluate(cut.records, cut.timeline, 0, histories)) == expected, seed
            if histories:
                restored.append(stream.plain())
                restored[-1].restore(mapped.images())
    assert adopted > 10


def test_a_prepared_history_keeps_its_rows_when_the_recent_ones_need_more_room(tmp_path: Path) -> None:
    """All rows of the history are older than those that the grouping's shorter window has retained."""
    rule = count_rule(limit=200, windowSeconds=4)
    paid = [
        {"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, "payeeId": 1}}
        for number, at_ms in enumerate(range(START_MS, START_MS + 30_000, 100))
    ]
    end_ms = START_MS + 30_000
    longer = {"at": end_ms, "rule": {**rule, "ruleId": 2, "windowSeconds": 60, "warmUp": True}}
    last = {"at": end_ms + 1, "tx": {"transactionId": 300, "eventTime": end_ms + 1, "payeeId": 1}}
    stream = WarmedStream(
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
    stream = WarmedStream.generated(seed, tmp_path)
    plain, mapped = stream.plain(), stream.mapped()
    for cut in stream.cuts:
        histories = stream.histories(cut)
        prepared = stream.prepared(cut, histories)
        for each in (each for found in prepared for each in found.values() if each.prepared is not None):
            shutil.rmtree(each.prepared.arrays)
        expected = outputs(plain.evaluate(cut.records, cut.timeline, 0, histories))
        assert outputs(mapped.evaluate(cut.records, cut.timeline, 0, prepared)) == expected
