"""Measures the state of a long window in compressed time: 30 days of event time, of which a tenth is retained.

The measurement runs the key groups' engines without Spark, as `state` does, in two processes with half of the key
groups each. Memory and chunks are sampled after each batch from the time on at which the first window is full and
clean-up has begun.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context

import numpy as np

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.rulesets import PAIR, encoded, rule
from bench.lab import Lab
from bench.rows.state import SizedLog
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import EMPTY_BLOB, fan_out
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

_EVENTS = 100_000_000
_BATCH = 50_000
_PROCESSES = 2
_DAY_MS = 86_400_000
_SPAN_MS = 30 * _DAY_MS
_WINDOW_MINUTES = 3 * 1_440
_FULL_AT = 0.4
_MIB = 1_048_576
_RULE = rule(1, PAIR, "SUM", 10**12, windowMinutes=_WINDOW_MINUTES)


@dataclass(slots=True)
class _Samples:
    """The figures of a process for all batches from `_FULL_AT` of the run on, and its CPU time in seconds."""

    retained: list[int] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    log_bytes: list[int] = field(default_factory=list)
    chunks: int = 0
    largest_chunk_bytes: int = 0
    fan_out_s: float = 0.0
    evaluation_s: float = 0.0

    def add(self, retained: int, memory_bytes: int, logs: Sequence[SizedLog]) -> None:
        """Add the figures after a batch."""
        infos = [decode_head(head).chunks for log in logs if (head := log.head()) is not None]
        self.retained.append(retained)
        self.memory_bytes.append(memory_bytes)
        self.log_bytes.append(sum(log.nbytes for log in logs))
        self.chunks = max(self.chunks, *(len(chunks) for chunks in infos))
        sizes = [info.size_bytes for chunks in infos for info in chunks]
        self.largest_chunk_bytes = max(self.largest_chunk_bytes, *sizes)


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    events = scale.of(_EVENTS, 100 * _BATCH)
    with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn")) as pool:
        return _figures(list(pool.map(partial(_run, events), range(_PROCESSES))), events)


def _figures(parts: Sequence[_Samples], events: int) -> dict[str, float]:
    memory = [sum(each) for each in zip(*(part.memory_bytes for part in parts), strict=True)]
    retained = [sum(each) for each in zip(*(part.retained for part in parts), strict=True)]
    log = [sum(each) for each in zip(*(part.log_bytes for part in parts), strict=True)]
    first, second = max(memory[: len(memory) // 2]), max(memory[len(memory) // 2 :])
    cpu_s = parts[0].fan_out_s + sum(part.evaluation_s for part in parts)
    return {
        "retained": max(retained),
        "memory_mib": max(memory) / _MIB,
        "memory_bytes": max(map(float.__truediv__, map(float, memory), map(float, retained))),
        "memory_growth": 100 * (second / first - 1),
        "log_mib": max(log) / _MIB,
        "chunks": max(part.chunks for part in parts),
        "chunk_mib": max(part.largest_chunk_bytes for part in parts) / _MIB,
        "tx_s": events / cpu_s,
    }


def _run(events: int, process: int) -> _Samples:
    """Evaluate all transactions for the key groups of a process."""
    project = Project.find()
    schema = TransactionSchema.load(project.config / "schema.yaml")
    settings = DetectorSettings.load(project.config / "detector.yaml")
    ((_, text),) = encoded((_RULE,))
    timeline, views = RuleTimeline([read_entry(0, 1, text, schema, settings.limits)]), HeapViews()
    logs = {group: SizedLog() for group in range(process, settings.key_groups, _PROCESSES)}
    engines = {group: KeyGroupEngine(group, schema, settings, log, views) for group, log in logs.items()}
    samples = _Samples()
    for batch_id, batch in enumerate(_batches(events, schema)):
        began_s = time.process_time()
        blobs = fan_out(batch, timeline, settings.key_groups)
        packed_s = time.process_time()
        outputs = [
            engine.process([blobs.get(group, EMPTY_BLOB)], timeline, batch_id, 0) for group, engine in engines.items()
        ]
        samples.fan_out_s += packed_s - began_s
        samples.evaluation_s += time.process_time() - packed_s
        if batch_id * _BATCH >= _FULL_AT * events:
            retained = sum(output.retained_events for output in outputs)
            samples.add(retained, sum(output.retained_bytes for output in outputs), list(logs.values()))
    return samples


def _batches(events: int, schema: TransactionSchema) -> Iterator[TransactionBatch]:
    """The transactions of `uniform_500k` again and again, with ids and times of their own."""
    decoded = list(_decoded(schema))
    for number in range(events // _BATCH):
        batch = decoded[number % len(decoded)]
        places = np.arange(number * _BATCH, (number + 1) * _BATCH, dtype=np.int64)
        times_ms = UNIFORM_500K.start_ms + places * _SPAN_MS // events
        own = {ID_FIELD: Column(places + 1, None, None), TIME_FIELD: Column(times_ms, None, None)}
        yield TransactionBatch(times_ms, batch.partition, places, batch.columns | own)


def _decoded(schema: TransactionSchema) -> Iterator[TransactionBatch]:
    load = replace(UNIFORM_500K, marker_every=0)
    made = transactions(load)
    for _ in range(load.count // _BATCH):
        texts = [text for _, _, text in islice(made, _BATCH)]
        zeros = np.zeros(_BATCH, dtype=np.int64)
        append_ms = np.full(_BATCH, load.end_ms, dtype=np.int64)
        yield decode_transactions(texts, zeros.astype(np.int32), zeros, append_ms, schema, RecordLimits(0)).batch


ROWS = (
    Rows(
        "long_windows",
        "State of a window of three days",
        f"{_EVENTS:,} transactions over 30 days of event time, in batches of {_BATCH:,}, with one SUM over three days, "
        "which needs a tenth of them. Retained events include expired ones before their clean-up. Without "
        f"Spark and Kafka, in {_PROCESSES} processes. The figures are the largest after 12 days; the growth "
        "compares the largest memory of the two halves of that time. The speed is per second of CPU, without parsing.",
        (
            Figure("retained", "Retained events", ""),
            Figure("memory_mib", "Memory of the views", "MiB"),
            Figure("memory_bytes", "Memory of the views", "bytes per event"),
            Figure("memory_growth", "Growth of the memory", "%", at_most(5)),
            Figure("log_mib", "Durable log", "MiB"),
            Figure("chunks", "Chunks of a key group", ""),
            Figure("chunk_mib", "Largest chunk", "MiB", at_most(4)),
            Figure("tx_s", "Transactions evaluated", "tx/s"),
        ),
        _measure,
        needs_broker=False,
    ),
)
