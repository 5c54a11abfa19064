"""A view that is behind gets only the versions that it lacks, and then equals a view that is rebuilt from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.state.head import ANCESTORS
from fraud_rules.engine.state.journal import Journal
from fraud_rules.engine.state.store import HeapViews, KeyGroupView, MappedViews, ViewStore
from fraud_rules.engine.statelog import MemoryStateLog, restore_image
from fraud_rules.engine.window import layout as at
from fraud_rules.model.output import KeyGroupOutput, ViewRefresh
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording
from tests.support.conformance import load_schema
from tests.support.rules import SCHEMA
from tests.support.streams.generated import documents
from tests.support.streams.long import long_document
from tests.support.streams.packed import SETTINGS, blobs, comparable, run, timeline
from tests.support.streams.runs import STREAMS, check_long, check_stream, stream_seeds

NULLABLE = load_schema("nullable")


class Workers:
    """Hosts without common files. A host chosen at random holds a key group for a random number of batches."""

    def __init__(self, random: Random) -> None:
        self.hosts = [HeapViews() for _ in range(3)]
        self._random = random
        self._turns: dict[int, tuple[HeapViews, int]] = {}

    @contextmanager
    def hold(self, key_group: int) -> Iterator[KeyGroupView]:
        host, left = self._turns.get(key_group, (self.hosts[0], 0))
        if left == 0:
            host, left = self._random.choice(self.hosts), self._random.choice([1, 1, 1, 2, 20])
        self._turns[key_group] = host, left - 1
        with host.hold(key_group) as view:
            yield view


class Replayed(NamedTuple):
    """The outputs of a recording, its state logs by key group, and the rules whose marks are kept."""

    outputs: list[KeyGroupOutput]
    logs: Sequence[MemoryStateLog]
    kept: frozenset[int]


def replayed(document: dict[str, Any], views: ViewStore) -> Replayed:
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    detector, outputs, kept = Replay(NULLABLE, settings, views), list[KeyGroupOutput](), frozenset[int]()
    for batch in batch_inputs(recording, NULLABLE, settings):
        outputs += detector.evaluate(batch.records, batch.timeline, 0).outputs
        kept = frozenset(each.incarnation for each in batch.timeline.latest.rules.values())
    return Replayed(outputs, detector._logs, kept)


def check_workers(document: dict[str, Any]) -> Counter[ViewRefresh]:
    """The outputs of workers that take turns, and their views at the end, equal those of one worker."""
    workers = Workers(Random(len(document["steps"])))
    found, alone = replayed(document, workers), replayed(document, HeapViews())
    assert [comparable(each) for each in found.outputs] == [comparable(each) for each in alone.outputs]
    for key_group, log in enumerate(found.logs):
        rebuilt = content(log, HeapViews(), key_group, found.kept)
        for views in workers.hosts:
            assert content(log, views, key_group, found.kept) == rebuilt
    return Counter(each.refreshed for each in found.outputs)


def content(log: MemoryStateLog, views: HeapViews, key_group: int, kept: frozenset[int]) -> dict[int, object]:
    """The content of each grouping state in a view, once the view is at the version of the log."""
    with views.hold(key_group) as view:
        journal = Journal(
            NULLABLE, log, view, longest_cooldown_ms=DetectorSettings().limits.max_cooldown_seconds * 1_000
        )
        view.commit(*journal.head.state_version)
        return {each.id: content_of(journal.open(each), kept) for each in journal.head.states}


def content_of(state: GroupingState, kept: frozenset[int]) -> object:
    rows, marks = state.rows(), state.marks()
    header = [int(state.header[i]) for i in (at.H_WATERMARK, at.H_BOUND, at.H_FIRST, at.H_SEQ)]
    columns = {name: plain(column) for name, column in rows.columns.items()}
    numbers = [at.M_RULE, at.M_RESET_SEQ, at.M_RESET_TIME, at.M_LAST_TIME, at.M_SUPPRESSED]
    keys = zip(*(plain(column) for column in marks.keys), strict=True) if marks.keys else [()] * len(marks.rows)
    marked = [repr(each) for each in zip(keys, marks.rows[:, numbers].tolist(), strict=True) if each[1][0] in kept]
    return header, state.arrival_numbers().tolist(), rows.append_ms.tolist(), columns, sorted(marked)


def plain(column: Any) -> list[object]:
    values = column.values.tolist()
    if column.dictionary is not None:
        values = [column.dictionary[code] for code in values]
    valid = [True] * len(values) if column.valid is None else column.valid.tolist()
    return [value if known else None for value, known in zip(values, valid, strict=True)]


@stream_seeds(STREAMS // 5)
def test_workers_that_take_turns_equal_one_worker(stream_seed: int) -> None:
    check_stream(stream_seed, documents(), check_workers)


@stream_seeds(STREAMS // 40)
def test_workers_that_take_turns_equal_one_worker_for_long(stream_seed: int) -> None:
    check_long(long_document(stream_seed, transactions=100 + 200 * (stream_seed % 4)), check_workers)


@pytest.mark.parametrize(
    "seed", [2, pytest.param(17, marks=pytest.mark.long), pytest.param(24, marks=pytest.mark.long)]
)
def test_most_refreshes_of_long_streams_catch_up(seed: int) -> None:
    """Two of the streams are long tests, which look for the same faults."""
    done = check_workers(long_document(seed, transactions=700))
    assert done[ViewRefresh.CATCH_UP] > 5 * done[ViewRefresh.REBUILD] > 0


@pytest.fixture(scope="module")
def packed() -> list[bytes]:
    return blobs(batches=85, rows=40)


@pytest.fixture(scope="module")
def answers(packed: list[bytes]) -> list[tuple[object, ...]]:
    return run(packed, MemoryStateLog(), [HeapViews()])


@pytest.mark.parametrize(
    ("batches_behind", "expected"),
    [
        pytest.param(1, ViewRefresh.CATCH_UP, marks=pytest.mark.long),
        pytest.param(20, ViewRefresh.CATCH_UP, marks=pytest.mark.long),
        (ANCESTORS, ViewRefresh.CATCH_UP),
        (ANCESTORS + 1, ViewRefresh.REBUILD),
    ],
)
def test_a_view_within_the_known_ancestors_catches_up(
    batches_behind: int, expected: ViewRefresh, packed: list[bytes], answers: list[tuple[object, ...]], tmp_path: Path
) -> None:
    """The default run has both sides of the bound."""
    log, rules = MemoryStateLog(), timeline()
    left, other = MappedViews(tmp_path / "left", SCHEMA), MappedViews(tmp_path / "other", SCHEMA)
    begin, end = 5, 5 + batches_behind
    for batch, blob in enumerate(packed):
        views = other if begin <= batch < end else left
        output = KeyGroupEngine(0, SCHEMA, SETTINGS, log, views).process([blob], rules, batch, 0)
        assert comparable(output) == answers[batch]
        assert output.refreshed == {begin: ViewRefresh.REBUILD, end: expected}.get(batch, ViewRefresh.NONE)


def test_a_view_of_a_batch_with_another_content_is_rebuilt(
    packed: list[bytes], answers: list[tuple[object, ...]]
) -> None:
    """The view has the right number of a version, but a batch that was never written led to it."""
    log, rules, views = MemoryStateLog(), timeline(), HeapViews()
    for batch, blob in enumerate(packed[:10]):
        KeyGroupEngine(0, SCHEMA, SETTINGS, log, views).process([blob], rules, batch, 0)
    image = log.image()
    KeyGroupEngine(0, SCHEMA, SETTINGS, log, views).process([packed[50]], rules, 10, 0)
    assert image is not None
    restored = MemoryStateLog()
    restore_image(restored, image)
    for batch in (10, 11):
        KeyGroupEngine(0, SCHEMA, SETTINGS, restored, HeapViews()).process([packed[batch]], rules, batch, 0)
    output = KeyGroupEngine(0, SCHEMA, SETTINGS, restored, views).process([packed[12]], rules, 12, 0)
    assert output.refreshed is ViewRefresh.REBUILD
    assert comparable(output) == answers[12]
