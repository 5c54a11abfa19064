"""The batches of the nights: found for each transaction, and small however many there are."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from fraud_rules.batch.archive.compaction import MOST_SMALL, compact
from fraud_rules.batch.archive.files import read_log
from fraud_rules.batch.archive.log_merge import merged_log
from fraud_rules.batch.archive.manifest import BatchResult, FileEntry, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.chain import ReplayPlan, check_same_topic
from fraud_rules.batch.reevaluation.evidence import ArchivedLogs
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import DayNotArchived, HistoryLost
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.transaction import TransactionBatch
from tests.support.nightly.archived import _progress
from tests.support.nightly.cuts import cuts_of_ends, evaluated_ends
from tests.support.nightly.log_files import LogRecord, write_log
from tests.support.rules import SCHEMA

DAY = Day.parse("2026-11-18")
SETTINGS = DetectorSettings()
DETECTOR = SETTINGS.detector.encode()
MOST_BYTES = 100
PARTITIONS = 12


def log_file(store: ArchiveStore, records: Sequence[LogRecord], day: Day = DAY) -> FileEntry:
    return write_log(store, Table.PROGRESS, day, records)


def batch(number: int, end: int, at_ms: int, pin: int = 0, partitions: int = 1) -> LogRecord:
    ends = {str(each): end + each for each in range(partitions)}
    return number, at_ms, DETECTOR, _progress(number, ends, pin, ())


def archive(folder: Path, files: Callable[[ArchiveStore], Iterable[FileEntry]]) -> ArchivedLogs:
    store = ArchiveStore(folder)
    store.commit(Manifest().with_batch({}, BatchResult(tuple(files(store)), 0)))
    return ArchivedLogs(store, store.latest(), SCHEMA, SETTINGS)


def transactions_file(day: Day, end: int) -> FileEntry:
    return FileEntry(Table.TRANSACTIONS, day.number, str(day), 1, 1, day.start_ms, day.start_ms, {"0": end})


def rows(places: Sequence[tuple[int, int]]) -> TransactionBatch:
    partitions, offsets = np.array(places, np.int64).T
    return TransactionBatch(np.zeros(len(places), np.int64), partitions.astype(np.int32), offsets, {})


def test_a_row_belongs_to_the_first_batch_that_read_it() -> None:
    rng = np.random.default_rng(7)
    steps = rng.integers(0, 4, (40_000, 3))
    table = np.cumsum(steps, axis=0)
    table[20_000:20_100] -= 500  # a checkpoint that reads evaluated records again
    ends = [dict(enumerate(row)) for row in table.tolist()]
    for each in ends[:17_000]:
        del each[2]  # a partition that was added later
    pins = [number // 9_000 for number in range(len(ends))]
    cuts = cuts_of_ends(ends, pins)
    reached = np.maximum.accumulate(np.array([[each.get(at, 0) for at in range(3)] for each in ends]), axis=0)
    places = [(at, int(offset)) for at in range(3) for offset in rng.integers(0, int(reached[-1, at]) + 50, 3_000)]
    wanted = [int(np.searchsorted(reached[:, at], offset, side="right")) for at, offset in places]
    found = cuts.batch_of(rows(places))
    assert found.tolist() == wanted and max(wanted) == len(cuts) == len(ends)
    assert evaluated_ends(cuts) == dict(enumerate(reached[-1].tolist()))
    changes = cuts.rules_changes(found)
    assert [pins[number] for number in wanted if number < len(cuts)] == cuts.rules_ends[
        changes[found < len(cuts)]
    ].tolist()
    assert set(changes[found == len(cuts)].tolist()) == {len(cuts.rules_ends)}


def test_no_batches_evaluate_no_row() -> None:
    cuts = cuts_of_ends([], [])
    assert cuts.batch_of(rows([(0, 0), (5, 9)])).tolist() == [0, 0]
    assert cuts.rules_changes(np.array([0])).tolist() == [0] and evaluated_ends(cuts) == {}


def test_a_task_receives_few_bytes_for_each_batch() -> None:
    steps = np.random.default_rng(1).integers(0, 200, (100_000, PARTITIONS))
    ends = (dict(enumerate(row)) for row in np.cumsum(steps, axis=0).tolist())
    cuts = cuts_of_ends(list(ends), [17] * len(steps))
    assert len(pickle.dumps(cuts)) < MOST_BYTES / 4 * len(cuts)


def test_reading_batches_holds_a_block_and_few_bytes_for_each_other_batch(tmp_path: Path) -> None:
    """All decoded batches would need 5 KB each, 100 MB in this test."""
    count = 20_000

    def files(store: ArchiveStore) -> list[FileEntry]:
        step_ms = DAY_MS // count
        return [
            write_log(
                store, Table.PROGRESS, DAY, [batch(n, 50 * n, DAY.start_ms + n * step_ms, 0, PARTITIONS) for n in part]
            )
            for part in (range(0, count, 2), range(1, count, 2))
        ]

    logs = archive(tmp_path, files)
    pool = pa.proxy_memory_pool(pa.system_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        cuts = logs.cuts(DAY, DAY, {0: 50 * count})
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert len(cuts) == count
    assert held < MOST_BYTES * count
    assert peak + pool.max_memory() < MOST_BYTES * count + 64 * 2**20


def test_batches_after_the_last_transaction_of_the_days_are_not_read(tmp_path: Path) -> None:
    """A late transaction of the day lies at offset 350, which a batch of the fourth day evaluates."""

    def files(store: ArchiveStore) -> Iterable[FileEntry]:
        for number in range(10):
            day, first = DAY.plus(number), 100 * number
            steps = DAY_MS // 100
            records = [batch(n, n + 1, day.start_ms + (n - first) * steps) for n in range(first, first + 100)]
            yield log_file(store, records, day)
        yield transactions_file(DAY, 80)
        yield transactions_file(DAY.plus(1), 350)

    logs = archive(tmp_path, files)
    assert logs.evaluated().ends == {0: 1_000}
    settled = 100 + SETTINGS.max_out_of_orderness_ms * 100 // DAY_MS + 1
    assert settled <= len(logs.cuts(DAY, DAY, {0: 1_000})) <= settled + 1
    assert len(logs.cuts(DAY, DAY.plus(1), {0: 1_000})) == 350
    assert len(logs.cuts(DAY, DAY.plus(1), {0: 300})) == 300, "the rest is not evaluated yet"
    with pytest.raises(DayNotArchived):
        replace(logs, settings=replace(SETTINGS, detector="another")).evaluated()


def test_the_batches_of_an_earlier_topic_do_not_count(tmp_path: Path) -> None:
    """The detector continues with the offsets of a topic that was created again."""
    lost = {"topic": "transactions", "partition": 0, "from": 1_000, "to": 0, "reason": "recreated"}
    began_ms = DAY.start_ms + 3_600_000

    def files(store: ArchiveStore) -> Iterable[FileEntry]:
        records = [batch(n, 100 * (n + 1), DAY.start_ms + n, 3) for n in range(10)]
        value = {**msgspec.json.decode(_progress(0, {"0": 5}, 7, ())), "lost": [lost]}
        records.append((10, began_ms, DETECTOR, msgspec.json.encode(value)))
        yield log_file(store, [*records, batch(11, 40, began_ms + 1, 7)])
        yield transactions_file(DAY, 40)

    logs = archive(tmp_path, files)
    evaluated = logs.evaluated().ends
    cuts = logs.cuts(DAY, DAY, evaluated)
    assert evaluated == evaluated_ends(cuts) == {0: 40}
    assert cuts.batch_of(rows([(0, 0), (0, 39), (0, 40)])).tolist() == [0, 1, 2]
    assert (cuts.rules_ends.tolist(), cuts.topic_began_ms) == ([7], began_ms)
    with pytest.raises(HistoryLost, match="created again on 2026-11-18"):
        check_same_topic(cuts.topic_began_ms, DAY.plus(1), 2, ReplayPlan(None, ()))
    check_same_topic(cuts.topic_began_ms, DAY.plus(2), 2, ReplayPlan(None, ()))
    check_same_topic(None, DAY, 2, ReplayPlan(None, ()))


def test_files_that_overlap_are_read_in_the_order_of_offsets(tmp_path: Path) -> None:
    """As after a merge of small files around a full one, and after a clock that stepped back at midnight."""
    times = [DAY.end_ms - 10_000 + 7 * n - 60 * (n % 11) for n in range(3_000)]

    def files(store: ArchiveStore) -> Iterable[FileEntry]:
        for number in (DAY.number, DAY.number + 1):
            mine = [batch(n, n, at) for n, at in enumerate(times) if Day.of(at).number == number]
            for part in (mine[::3], mine[1::3], mine[2::3]):
                yield log_file(store, part, Day(number))

    logs = archive(tmp_path, files)
    found = [n for part in merged_log(logs.store, logs.manifest.files, []) for n in part.column("_offset").to_pylist()]
    assert found == list(range(3_000))


def test_a_merge_of_small_files_keeps_their_records_in_order(tmp_path: Path) -> None:
    count = 3 * (MOST_SMALL + 1)

    def files(store: ArchiveStore) -> Iterable[FileEntry]:
        for first in range(3):
            for third in range(MOST_SMALL // 3 + 1):
                numbers = range(first + 3 * third, count, count // 3)
                yield log_file(store, [batch(n, n, DAY.start_ms + n) for n in numbers])

    logs = archive(tmp_path, files)
    wanted = read_log(logs.store, logs.manifest.of(Table.PROGRESS))
    merged = compact(logs.store, logs.manifest, SCHEMA, 0)
    (entry,) = merged.of(Table.PROGRESS)
    whole = read_log(logs.store, [entry])
    assert whole.equals(wanted)
    numbers = whole.column("_offset").to_pylist()
    assert numbers == sorted(numbers)
    assert (entry.rows, entry.first_ms, entry.last_ms) == (
        len(numbers),
        DAY.start_ms + numbers[0],
        DAY.start_ms + numbers[-1],
    )
    assert entry.ends == {"0": numbers[-1] + 1}


def test_a_merge_of_a_log_holds_a_part_of_each_file_only(tmp_path: Path) -> None:
    each, files = 4_000, MOST_SMALL + 1
    value = msgspec.json.encode({"text": "x" * 2_000})

    def written(store: ArchiveStore) -> Iterable[FileEntry]:
        for number in range(files):
            first = number * each
            yield write_log(
                store,
                Table.PROGRESS,
                DAY,
                [(n, DAY.start_ms + n, b"", b"%d" % n + value) for n in range(first, first + each)],
            )

    logs = archive(tmp_path, written)
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        compact(logs.store, logs.manifest, SCHEMA, 0)
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 1.5 * each * files * len(value), "a whole table and its sorted copy are twice that"
