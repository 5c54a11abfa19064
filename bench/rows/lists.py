"""Measures lists of values: the look-up, the memory, the reading of a long list, and a change of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import psutil

from bench.figures import Figure, Rows, Scale, at_most
from bench.lab import Lab
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.codec.rules.lists import encode_list_records
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.log_entry import LogEntry
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.value_list import ListOperation, ListType

_VALUES = 1_000_000
_LOOKED_UP = (1_000, 4_000)
_CHANGED = 100
_CHANGES = 10_000
_REPEATS = 25


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    rng, process = np.random.default_rng(1), psutil.Process()
    count = scale.of(_VALUES, 50_000)
    values = np.unique(rng.integers(10**11, 10**12, count + count // 10))[:count]
    records = _records(ListOperation.SET, values.tolist())
    reader = EntryReader(TransactionSchema.load(Project.find().config / "schema.yaml"), DetectorSettings().limits)
    gc.collect()
    memory, before = process.memory_info().rss, time.thread_time()
    timeline = RuleTimeline(_entries(reader, 0, records))
    found = {"first_read_s": time.thread_time() - before}
    gc.collect()
    found["memory_mb"] = (process.memory_info().rss - memory) / 1e6 * (1_000_000 / count)
    known = timeline.lists["measured"]
    for n in _LOOKED_UP:
        asked = rng.permutation(np.concatenate([rng.choice(values, n // 2), rng.integers(1, 10**12, n - n // 2)]))
        found[f"lookup_{n}_ns"] = 1e9 / n * _median_s(partial(known.contains_longs, asked))
    change = _records(ListOperation.REMOVE, values[:_CHANGED].tolist())
    found["change_ms"] = 1e3 * _median_s(
        lambda: timeline.extended(_entries(reader, timeline.end, change)).lists["measured"].size
    )
    added = values[:_CHANGES].tolist()
    room = timeline.extended(_entries(reader, timeline.end, _records(ListOperation.REMOVE, added)))
    singles = [record for value in added for record in _records(ListOperation.ADD, [value])]
    before = time.thread_time()
    assert room.extended(_entries(reader, room.end, singles)).lists["measured"].size == count
    found["changes_us"] = 1e6 * (time.thread_time() - before) / _CHANGES
    return found


def _records(operation: ListOperation, values: list[int | str]) -> list[bytes]:
    most = DetectorSettings().limits.max_list_record_bytes
    return encode_list_records("measured", operation, ListType.LONG, values, "bench", most)


def _entries(reader: EntryReader, start: int, records: list[bytes]) -> list[LogEntry]:
    return [reader.read(start + position, 1, record) for position, record in enumerate(records)]


def _median_s(work: Callable[[], object]) -> float:
    """The median CPU time of a call, in seconds."""
    spent = []
    for _ in range(_REPEATS):
        before = time.thread_time()
        work()
        spent.append(time.thread_time() - before)
    return sorted(spent)[_REPEATS // 2]


ROWS = (
    Rows(
        "lists",
        "A list of a million values, one process",
        f"The list has {_VALUES:,} longs. Half of the looked-up values are listed. The first read decodes the records "
        "and builds the list; the memory, for a million values, includes the records that the rule log keeps. A change "
        "removes values in one record; its time includes the decoding. The values that single records add "
        "were removed before, because a list has at most a million. Times are CPU time of the thread.",
        (
            *(
                Figure(f"lookup_{n}_ns", f"look-up of a value, batches of {n:,}", "ns", at_most(100))
                for n in _LOOKED_UP
            ),
            Figure("memory_mb", "memory of a million longs in a process", "MB", at_most(64)),
            Figure("first_read_s", "first read of the list", "s", at_most(5)),
            Figure("change_ms", f"change of {_CHANGED} values", "ms", at_most(1_000)),
            Figure("changes_us", f"each of {_CHANGES:,} records that add one value", "µs", at_most(50)),
        ),
        _measure,
        needs_broker=False,
    ),
)
