"""Measures the state of a long window in compressed time: 30 days of event time, of which a tenth is retained.

The measurement runs the key groups' engines without Spark, as `state` does. Memory and chunks are sampled after each
batch from the time on at which the first window is full and clean-up has begun.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from bench.figures import Figure, Rows, Scale, at_most
from bench.lab import Lab
from bench.loads import UNIFORM_500K, Load, transactions
from bench.rows.state import SizedLog
from bench.rulesets import PAIR, encoded, rule
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import EMPTY_BLOB, fan_out
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

_EVENTS = 10_000_000
_BATCH = 20_000
_DAY_MS = 86_400_000
_SPAN_MS = 30 * _DAY_MS
_WINDOW_MINUTES = 3 * 1_440
_FULL_AT = 0.4
_MIB = 1_048_576


@dataclass(slots=True)
class _Samples:
    """The figures of all batches from `_FULL_AT` of the run on."""

    retained: list[int] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    log_bytes: list[int] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    largest_chunk_bytes: int = 0

    def figures(self, events: int, seconds: float) -> dict[str, float]:
        half = len(self.memory_bytes) // 2
        first, second = max(self.memory_bytes[:half]), max(self.memory_bytes[half:])
        return {
            "tx_s": events / seconds,
            "retained": max(self.retained),
            "memory_mib": max(self.memory_bytes) / _MIB,
            "memory_growth": 100 * (second / first - 1),
            "log_mib": max(self.log_bytes) / _MIB,
            "chunks": max(self.chunks),
            "chunk_mib": self.largest_chunk_bytes / _MIB,
        }


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    load = replace(UNIFORM_500K, count=scale.of(_EVENTS), marker_every=0)
    load = replace(load, spacing_ms=max(1, _SPAN_MS // load.count))
    project = Project.find()
    schema = TransactionSchema.load(project.config / "schema.yaml")
    settings = DetectorSettings.load(project.config / "detector.yaml")
    rules = (rule(1, PAIR, "SUM", 10**12, windowMinutes=_WINDOW_MINUTES),)
    entries = [read_entry(i, 1, text, schema, settings.limits) for i, (_, text) in enumerate(encoded(rules))]
    timeline, views = RuleTimeline(entries), HeapViews()
    logs = [SizedLog() for _ in range(settings.key_groups)]
    engines = [KeyGroupEngine(group, schema, settings, log, views) for group, log in enumerate(logs)]
    samples, seconds = _Samples(), 0.0
    for batch_id, batch in enumerate(_batches(load, schema)):
        started = time.process_time()
        blobs = fan_out(batch, timeline, settings.key_groups)
        outputs = [
            engine.process([blobs.get(group, EMPTY_BLOB)], timeline, batch_id, 0)
            for group, engine in enumerate(engines)
        ]
        seconds += time.process_time() - started
        if batch_id * _BATCH >= _FULL_AT * load.count:
            infos = [decode_head(head).chunks for log in logs if (head := log.head()) is not None]
            samples.retained.append(sum(output.retained_events for output in outputs))
            samples.memory_bytes.append(sum(output.retained_bytes for output in outputs))
            samples.log_bytes.append(sum(log.nbytes for log in logs))
            samples.chunks.append(max(len(chunks) for chunks in infos))
            largest = max(info.size_bytes for chunks in infos for info in chunks)
            samples.largest_chunk_bytes = max(samples.largest_chunk_bytes, largest)
    return samples.figures(load.count, seconds)


def _batches(load: Load, schema: TransactionSchema) -> Iterator[TransactionBatch]:
    made = transactions(load)
    for start in range(0, load.count, _BATCH):
        rows = list(islice(made, _BATCH))
        texts, times_ms = [text for _, _, text in rows], [time_ms for _, time_ms, _ in rows]
        places = np.arange(start, start + len(texts), dtype=np.int64)
        partition = np.zeros(len(texts), dtype=np.int32)
        yield decode_transactions(texts, partition, places, np.array(times_ms, dtype=np.int64), schema, 0).batch


ROWS = (
    Rows(
        "long_windows",
        "State of a window of three days",
        f"{_EVENTS:,} transactions over 30 days of event time, in batches of {_BATCH:,}, with one SUM over three days, "
        "which needs a tenth of them. Retained events include expired ones before their clean-up. Without "
        "Spark and Kafka. The figures are the largest after 12 days; the growth "
        "compares the largest memory of the two halves of that time. The speed is per second of CPU, without parsing.",
        (
            Figure("retained", "Retained events", ""),
            Figure("memory_mib", "Memory of the views", "MiB"),
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
