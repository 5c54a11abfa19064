"""Measures the bytes of a retained transaction: in memory (the views) and in the durable log (`detector-state`).

The measurement runs the key groups' engines without Spark, over the same blobs, and adds up all key groups. A
transaction counts once for each grouping that retains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from bench.figures import Figure, Rows, Scale
from bench.inputs.loads import UNIFORM_500K, transactions
from bench.inputs.rulesets import RULES_1, RULES_10, Document
from bench.lab import Lab
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import EMPTY_BLOB, fan_out
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog, StateVersion
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.runtime.clock import now_ms
from tests.support.rules import rule_log

_TRANSACTIONS = 250_000
_BATCH = 5_000


class SizedLog(MemoryStateLog):
    """A state log that counts its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, int] = {}
        self._head_bytes = 0

    @property
    def nbytes(self) -> int:
        return self._head_bytes + sum(self._sizes.values())

    def put_head(self, head: bytes, version: StateVersion) -> None:
        super().put_head(head, version)
        self._head_bytes = len(head)

    def put_chunk(self, name: str, blob: bytes) -> None:
        super().put_chunk(name, blob)
        self._sizes[name] = len(blob)

    def delete_chunk(self, name: str) -> None:
        super().delete_chunk(name)
        del self._sizes[name]


def retained(rules: tuple[Document, ...], count: int) -> dict[str, float]:
    """Return the bytes per event after this number of transactions, and the number of events."""
    project = Project.find()
    schema = TransactionSchema.load(project.config / "schema.yaml")
    settings = DetectorSettings.load(project.config / "detector.yaml")
    timeline, views = rule_log(rules, schema=schema, limits=settings.limits), HeapViews()
    logs = [SizedLog() for _ in range(settings.key_groups)]
    engines = [KeyGroupEngine(group, schema, settings, log, views) for group, log in enumerate(logs)]
    outputs = []
    for batch_id, batch in enumerate(_batches(count, schema)):
        blobs = fan_out(batch, timeline, schema, settings.key_groups)
        outputs = [
            engine.process([blobs.get(group, EMPTY_BLOB)], timeline, batch_id, now_ms())
            for group, engine in enumerate(engines)
        ]
    events = sum(output.retained_events for output in outputs)
    return {
        "events": events,
        "memory": sum(output.retained_bytes for output in outputs) / events,
        "log": sum(log.nbytes for log in logs) / events,
    }


def _batches(count: int, schema: TransactionSchema) -> Iterator[TransactionBatch]:
    made = transactions(UNIFORM_500K.first(count))
    for start in range(0, count, _BATCH):
        texts = [text for _, _, text in islice(made, _BATCH)]
        places = np.arange(start, start + len(texts), dtype=np.int64)
        append_ms = np.full(len(texts), now_ms(), dtype=np.int64)
        yield decode_transactions(
            RawTransactions.of(texts, np.zeros(len(texts), dtype=np.int32), places, append_ms), schema, RecordLimits(0)
        ).batch


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    values = {}
    for name, rules in (("rules1", RULES_1), ("rules10", RULES_10)):
        values |= {f"{name}_{key}": value for key, value in retained(rules, scale.of(_TRANSACTIONS)).items()}
    return values


def _figures(name: str) -> Iterator[Figure]:
    yield Figure(f"{name}_events", f"`{name}`: retained events, counted once per grouping", "")
    yield Figure(f"{name}_memory", f"`{name}`: memory of the views", "bytes per event")
    yield Figure(f"{name}_log", f"`{name}`: durable log", "bytes per event")


ROWS = (
    Rows(
        "state",
        "State: bytes per retained event",
        f"After {_TRANSACTIONS:,} transactions of `uniform_500k` in batches of {_BATCH:,}. An event is a transaction "
        "in one grouping. Memory has all arrays of the kernel, with free space.",
        (*_figures("rules1"), *_figures("rules10")),
        _measure,
        needs_broker=False,
    ),
)
