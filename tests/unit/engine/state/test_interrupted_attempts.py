"""Attempts at batches that fail, and hosts that take turns, change no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from fraud_rules.configuration.project import Project
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.model.output import MarkUpdate
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.replay import Replay
from tests.support.recovery.rule_members import schema_with_account
from tests.support.streams.lagging import lagging_document
from tests.support.streams.runs import STREAMS, stream_seeds
from tests.support.streams.warmed import WarmedStream, outputs


class Interrupted:
    """Engines on two hosts. Some batches are evaluated on another host than the last one, on a new host, or a second
    time after an attempt whose state was not written."""

    def __init__(self, stream: WarmedStream, random: Random) -> None:
        self._stream, self._random = stream, random
        self._hosts = [HeapViews(), HeapViews()]
        self._images: Mapping[int, bytes] = {}
        self._marks: Sequence[MarkUpdate] = ()

    def evaluate(self, cut: Any, histories: Sequence[Mapping[int, WarmHistory]]) -> list[tuple[Any, ...]]:
        host = self._random.randrange(2)
        draw = self._random.random()
        if draw < 0.15:
            self._attempt(host, cut, histories)
            host = self._random.randrange(2)
        elif draw < 0.2:
            self._hosts[host] = HeapViews()
        result, self._images, self._marks = self._attempt(host, cut, histories)
        return result

    def _attempt(
        self, host: int, cut: Any, histories: Sequence[Mapping[int, WarmHistory]]
    ) -> tuple[list[tuple[Any, ...]], Mapping[int, bytes], Sequence[MarkUpdate]]:
        replay = Replay(self._stream.schema, self._stream.settings, self._hosts[host])
        replay.restore(self._images)
        replay.marks = self._marks
        found = outputs(replay.evaluate(cut.records, cut.timeline, 0, histories))
        return found, replay.images(), replay.marks


@stream_seeds(STREAMS // 40)
def test_attempts_that_fail_and_hosts_that_take_turns_change_no_answer(
    stream_seed: int, project: Project, tmp_path: Path
) -> None:
    schema = TransactionSchema.load(schema_with_account(tmp_path, project))
    document = lagging_document(stream_seed, 100 + 200 * (stream_seed % 4))
    stream = WarmedStream(document, Path(mkdtemp(dir=tmp_path)), schema)
    plain, interrupted = stream.plain(), Interrupted(stream, Random(stream_seed))
    for cut in stream.cuts:
        histories = stream.histories(cut)
        expected = outputs(plain.evaluate(cut.records, cut.timeline, 0, histories))
        assert interrupted.evaluate(cut, histories) == expected
