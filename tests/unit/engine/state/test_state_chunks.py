"""The chunks of a key group's log: bounded in size, ordered by level, and without rows that have expired."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest

from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.state import chunk_ages, journal
from fraud_rules.engine.state import head as state_head
from fraud_rules.engine.state.chunk_ages import MERGE_WIDTH, Merge
from fraud_rules.engine.state.chunks import MAX_CHUNK_BYTES, ChunkInfo, decode_parts, unpack_marks
from fraud_rules.engine.state.head import GroupingStateHead, Head, decode_head
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog, StateVersion, is_content_of
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import TransactionBatch
from tests.support.records.decoded import decoded
from tests.support.rules import SCHEMA, count_rule, rule_log
from tests.support.streams.packed import SETTINGS, START_MS, blobs, comparable, run, timeline

SMALL_BYTES = 20_000


def head_of(log: MemoryStateLog) -> Head:
    encoded = log.head()
    assert encoded is not None
    return decode_head(encoded)


def long_rules(**members: Any) -> RuleTimeline:
    """A rule with a window of ten days."""
    return rule_log([count_rule(**{"limit": 1_000_000, "windowSeconds": 864_000, **members})])


def rows_of(rules: RuleTimeline, first: int, at_ms: Sequence[int] | np.ndarray, payees: int = 50) -> bytes:
    """A packed batch with a row at each time. The amounts differ, so that the rows compress badly."""
    values = [
        b'{"transactionId":%d,"eventTime":%d,"payeeId":%d,"beneficiaryId":%d,"paymentType":"CSH","paymentAmount":%d.%02d}'
        % (first + i, time_ms, i % payees, i * 7_919 % 100_003, i * 31 % 9_973, i % 100)
        for i, time_ms in enumerate(at_ms)
    ]
    return fan_out(decoded(values, at_ms, first + np.arange(len(values))), rules, SCHEMA, 1)[0]


class Detector:
    """An engine with its state in memory. `fresh` rebuilds the view for each batch."""

    def __init__(self, rules: RuleTimeline, *, fresh: bool = False) -> None:
        self.log, self._rules, self._views, self._fresh = MemoryStateLog(), rules, HeapViews(), fresh
        self.batch_id = 0

    def evaluate(self, packed: bytes) -> tuple[object, ...]:
        views = HeapViews() if self._fresh else self._views
        output = KeyGroupEngine(0, SCHEMA, SETTINGS, self.log, views).process([packed], self._rules, self.batch_id, 0)
        self.batch_id += 1
        return comparable(output)

    @property
    def chunks(self) -> list[ChunkInfo]:
        return head_of(self.log).chunks

    def stored_rows(self, name: str) -> int:
        parts = decode_parts(self.log.chunk(name))
        return sum(len(TransactionBatch.unpack(part.rows)) for part in parts)


def test_a_large_batch_is_split_into_chunks_of_bounded_size() -> None:
    rules, rows = long_rules(), 200_000
    detector = Detector(rules)
    detector.evaluate(rows_of(rules, 0, START_MS + np.arange(rows)))
    stored = [detector.log.chunk(info.name) for info in detector.chunks]
    assert len(stored) > 1
    assert max(map(len, stored)) < MAX_CHUNK_BYTES * 1.01
    assert sum(detector.stored_rows(info.name) for info in detector.chunks) == rows
    assert [info.size_bytes for info in detector.chunks] == [len(blob) for blob in stored]
    restored = Detector(rules, fresh=True)
    restored.log = detector.log
    after = rows_of(rules, rows, [START_MS + rows])
    assert restored.evaluate(after)[-1] == 1
    (state,) = head_of(restored.log).states
    assert state.next_number == rows + 1


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (chunk_ages, journal):
        monkeypatch.setattr(module, "MAX_CHUNK_BYTES", SMALL_BYTES)


@pytest.mark.usefixtures("small_chunks")
def test_many_marks_of_a_batch_are_split_into_chunks_of_bounded_size() -> None:
    rules, payees = long_rules(limit=0), 3_000
    detector = Detector(rules)
    detector.evaluate(rows_of(rules, 0, START_MS + np.arange(payees), payees))
    parts = [part for info in detector.chunks for part in decode_parts(detector.log.chunk(info.name))]
    assert sum(len(unpack_marks(part.marks).rows) for part in parts if part.marks is not None) == payees
    assert max(info.size_bytes for info in detector.chunks) <= SMALL_BYTES * 1.1


@pytest.mark.usefixtures("small_chunks")
def test_merges_stop_at_the_limit_and_levels_stay_ordered() -> None:
    rules, rows, batches = long_rules(), 60, 200
    detector = Detector(rules)
    for batch in range(batches):
        first = batch * rows
        detector.evaluate(rows_of(rules, first, START_MS + (first + np.arange(rows)) * 10))
        found = detector.chunks
        assert [info.level for info in found] == sorted((info.level for info in found), reverse=True)
        assert {info.name for info in found} == detector.log._chunks.keys()
    one_batch = found[-1].size_bytes
    assert max(info.size_bytes for info in found) <= SMALL_BYTES < MERGE_WIDTH * one_batch
    assert len(found) < batches / 2, "chunks are merged nevertheless"
    numbers = [int(info.name.partition("-")[0]) for info in found]
    assert numbers == sorted(numbers), "oldest first"
    assert sum(detector.stored_rows(info.name) for info in found) == rows * batches


def test_merges_of_many_groupings_take_several_batches_and_change_no_answer() -> None:
    """A process that has each batch spreads a merge. A process that has every second one merges at once."""
    rules, rows, batches = twelve_groupings(), 8, 90
    steady, alternating = Detector(rules), Detector(rules)
    others = HeapViews(), HeapViews()
    longest = 0
    begun: set[int] = set()
    for batch in range(batches):
        first = batch * rows
        packed = rows_of(rules, first, START_MS + (first + np.arange(rows)) * 10, payees=4)
        alternating._views = others[batch % 2]
        assert steady.evaluate(packed) == alternating.evaluate(packed)
        for each in (steady, alternating):
            found = each.chunks
            assert [info.level for info in found] == sorted((info.level for info in found), reverse=True)
            assert {info.name for info in found} == each.log._chunks.keys()
            longest = max(longest, len(found))
        with steady._views.hold(0) as view:
            assert view.known_head is not None
            assert view.known_head.ages is not None
            if view.known_head.ages.merge is not None:
                begun.add(batch)
    assert len(begun) > 5, "merges wait for further batches"
    assert longest < 3 * MERGE_WIDTH
    stored = [[each.stored_rows(info.name) for info in each.chunks] for each in (steady, alternating)]
    assert sum(stored[0]) == sum(stored[1]) == rows * batches * len(rules.latest.groupings)
    restored = Detector(rules, fresh=True)
    restored.log = steady.log
    after = rows_of(rules, rows * batches, [START_MS + rows * batches * 10], payees=4)
    assert restored.evaluate(after) == alternating.evaluate(after)


def test_a_merge_begins_again_if_other_rules_have_marks() -> None:
    """The part of a merge that is done has the marks of the rules of its beginning."""
    rules, rows = twelve_groupings(cooldownSeconds=600, limit=1), 8
    detector, first = Detector(rules), 0

    def evaluate() -> Merge | None:
        nonlocal first
        packed = rows_of(detector._rules, first, START_MS + (first + np.arange(rows)) * 10, payees=4)
        first += rows
        detector.evaluate(packed)
        with detector._views.hold(0) as view:
            assert view.known_head is not None
            assert view.known_head.ages is not None
            return view.known_head.ages.merge

    while (merge := evaluate()) is None:
        assert first < 100 * rows
    detector._rules = twelve_groupings(cooldownSeconds=600, limit=1, first=2)
    again = evaluate()
    assert again is not None
    assert again is not merge


def twelve_groupings(first: int = 1, **members: Any) -> RuleTimeline:
    """A rule for each of twelve groupings, from number `first` on."""
    fields = ["payeeId", "beneficiaryId", "paymentType", "paymentAmount"]
    groupings = [chosen for count in (1, 2, 3) for chosen in combinations(fields, count)][:12]
    with_id = list(enumerate(groupings, start=1))[first - 1 :]
    return rule_log(
        [
            count_rule(
                rule_id, **{"groupingKeyNames": list(each), "limit": 1_000_000, "windowSeconds": 864_000, **members}
            )
            for rule_id, each in with_id
        ]
    )


@pytest.mark.usefixtures("small_chunks")
def test_the_rows_of_batches_with_several_chunks_become_sums() -> None:
    rules, rows, batches = long_rules(resolutionSeconds=3_600), 1_000, 60
    detector = Detector(rules)
    for batch in range(batches):
        detector.evaluate(rows_of(rules, batch * rows, START_MS + batch * 10_800_000 + np.arange(rows)))
        if batch == 0:
            assert len(detector.chunks) > 2
    stored = [detector.stored_rows(info.name) for info in detector.chunks]
    assert sum(stored) == 9 * rows, "those of the last day are not settled"


@pytest.mark.usefixtures("small_chunks")
def test_small_chunks_change_no_answer() -> None:
    packed = blobs(batches=60, rows=40)
    small = run(packed, MemoryStateLog(), [HeapViews(), HeapViews()])
    with pytest.MonkeyPatch.context() as patch:
        for module in (chunk_ages, journal):
            patch.setattr(module, "MAX_CHUNK_BYTES", MAX_CHUNK_BYTES)
        assert run(packed, MemoryStateLog(), [HeapViews()]) == small


def test_a_chunk_above_the_limit_has_a_single_row_and_is_never_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (chunk_ages, journal):
        monkeypatch.setattr(module, "MAX_CHUNK_BYTES", 10)
    rules = long_rules()
    detector = Detector(rules)
    for batch in range(20):
        detector.evaluate(rows_of(rules, 5 * batch, START_MS + 5 * batch + np.arange(5)))
    assert [detector.stored_rows(info.name) for info in detector.chunks] == [1] * 100
    assert max(info.level for info in detector.chunks) > 0


def test_a_chunk_whose_rows_have_expired_keeps_its_marks_only() -> None:
    """A reset is a mark that a later window still needs."""
    cooled = {"windowSeconds": 10, "limit": 1, "cooldownSeconds": 600}
    rules = long_rules(**cooled)
    detector, kept = Detector(rules), Detector(rules, fresh=True)
    times = [START_MS + np.arange(40) * 10, [START_MS + 320_000], [START_MS + 321_000]]
    first = 0
    for at_ms in times:
        packed = rows_of(rules, first, at_ms, payees=4)
        assert detector.evaluate(packed) == kept.evaluate(packed)
        first += len(at_ms)
    oldest = detector.chunks[0]
    assert oldest.has_marks
    assert detector.stored_rows(oldest.name) == 0
    assert is_content_of(oldest.name, detector.log.chunk(oldest.name))
    assert detector.log._chunks.keys() == {info.name for info in detector.chunks}


def test_an_idle_batch_changes_nothing() -> None:
    class Unwritable(MemoryStateLog):
        """A log that counts its changes."""

        changes = 0

        def put_head(self, head: bytes, version: StateVersion) -> None:
            self.changes += 1
            super().put_head(head, version)

        def put_chunk(self, name: str, blob: bytes) -> None:
            self.changes += 1
            super().put_chunk(name, blob)

    rules, log, views = timeline(), Unwritable(), HeapViews()
    packed = blobs(batches=5, rows=40)
    for batch, blob in enumerate(packed):
        KeyGroupEngine(0, SCHEMA, SETTINGS, log, views).process([blob], rules, batch, 0)
    changes, head = log.changes, log.head()
    for fresh in (views, HeapViews()):  # with a view, and with a view to restore
        output = KeyGroupEngine(0, SCHEMA, SETTINGS, log, fresh).process([], rules, 5, 0)
        assert output.rows == 0
        assert (log.changes, log.head()) == (changes, head)


def test_the_digest_covers_everything_in_the_head() -> None:
    """Each member of the head, of a grouping state and of a chunk changes the digest of the next version."""
    log = MemoryStateLog()
    run(blobs(batches=12, rows=40), log, [HeapViews()])
    head = head_of(log)
    assert head.states
    assert head.chunks
    known = state_head._digest(msgspec.msgpack.encode(head))
    state, chunk = head.states[0], head.chunks[0]
    heads = [msgspec.structs.replace(head, **{name: other(value)}) for name, value in members_of(head)]
    heads += [
        msgspec.structs.replace(head, states=[msgspec.structs.replace(state, **{name: other(value)}), *head.states[1:]])
        for name, value in members_of(state)
    ]
    heads += [
        msgspec.structs.replace(head, chunks=[msgspec.structs.replace(chunk, **{name: other(value)}), *head.chunks[1:]])
        for name, value in members_of(chunk)
    ]
    digests = [state_head._digest(msgspec.msgpack.encode(each)) for each in heads]
    assert len({known, *digests}) == 1 + len(heads)
    assert len(heads) == sum(len(kind.__struct_fields__) for kind in (Head, GroupingStateHead, ChunkInfo))


def members_of(struct: msgspec.Struct) -> list[tuple[str, Any]]:
    return [(name, getattr(struct, name)) for name in struct.__struct_fields__]


def other(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value + "x"
        case tuple():
            return (*value, "x")
        case list():
            return value[:-1] if value else [1]
        case dict():
            return {**value, 99: 1}
        case _:
            return {99: (1, 1)}


def test_the_digest_of_a_version_covers_the_version_before_it() -> None:
    """Two logs with equal last batches and unequal earlier ones have different digests."""
    packed, others = blobs(batches=6, rows=40), blobs(batches=6, rows=40, seed=2)
    logs = [MemoryStateLog(), MemoryStateLog()]
    run(packed, logs[0], [HeapViews()])
    run([others[0], *packed[1:]], logs[1], [HeapViews()])
    first, second = (head_of(log) for log in logs)
    assert first.version == second.version
    assert first.digest != second.digest
