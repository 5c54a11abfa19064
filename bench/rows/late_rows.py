"""Measures rows far out of order of one hot key: the time of one batch of them, in one grouping state.

The key has `_RETAINED` rows in its window. All measured rows are displaced by a uniform share of the window. They are
either all late (below the watermark, so that no rule is evaluated), or every second one is in order and evaluated.
Time is the thread's CPU time, so other processes do not change it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import numpy as np

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.rulesets import rule
from bench.lab import Lab
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

_RETAINED = 1_000_000
_LATE = 10_000
_GAP_MS = 10
_START_MS = 1_700_000_000_000
_AGGREGATORS = ("SUM", "AVG", "COUNT", "MIN", "MAX")
_NEVER = 10**14


def _rows(event_ms: np.ndarray, first_id: int, now_ms: int) -> TransactionBatch:
    n = len(event_ms)
    zeros, append = np.zeros(n, dtype=np.int64), np.full(n, now_ms)
    numbers = {
        "transactionId": first_id + np.arange(n, dtype=np.int64),
        "eventTime": event_ms,
        "payeeId": zeros,
        "beneficiaryId": np.arange(n, dtype=np.int64) % 1_000,
        "paymentAmount": np.arange(n, dtype=np.int64) % 20_000,
        "ingestionTimestamp": append,
    }
    columns = {name: Column(values, None, None) for name, values in numbers.items()}
    columns["paymentType"] = Column(zeros, None, ("CSH",))
    return TransactionBatch(append, zeros.astype(np.int32), np.arange(n, dtype=np.int64), columns)


def us_per_late_row(retained: int, late: int, *, alternating: bool) -> float:
    """Return the CPU time of a batch per late row, in microseconds."""
    schema = TransactionSchema.load(Project.find().config / "schema.yaml")
    timeline = _timeline(2 * retained * _GAP_MS // 1_000, schema)
    state = GroupingState.create(schema, ("payeeId",), HeapArrays())
    plan = state.plan([timeline.latest.groupings["payeeId",]])
    end_ms = _START_MS + retained * _GAP_MS

    def accept(rows: TransactionBatch) -> float:
        before = time.thread_time()
        state.accept(rows, np.zeros(len(rows), dtype=np.int64), plan, 0, explain=False)
        return time.thread_time() - before

    accept(_rows(_START_MS + np.arange(retained, dtype=np.int64) * _GAP_MS, 0, end_ms))
    event_ms = _START_MS + np.random.default_rng(1).integers(0, retained * _GAP_MS, late)
    if alternating:
        event_ms = np.stack([event_ms, end_ms + np.arange(late) * _GAP_MS], axis=1).ravel()
    return accept(_rows(event_ms, retained, end_ms + late * _GAP_MS)) / late * 1e6


def _timeline(window_s: int, schema: TransactionSchema) -> RuleTimeline:
    """Rules that never fire."""
    entries = []
    for i, aggregator in enumerate(_AGGREGATORS):
        operator, limit = ("LESS", -1) if aggregator == "MIN" else ("GREATER", _NEVER)
        document = rule(i + 1, ["payeeId"], aggregator, limit, windowSeconds=window_s, limitOperatorType=operator)
        entries.append(read_entry(i, 1, json.dumps(document).encode(), schema, DetectorSettings().limits))
    assert all(entry.change for entry in entries), entries[0].reasons
    return RuleTimeline(entries)


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    us_per_late_row(10_000, 100, alternating=True)  # warm up: compile and load once
    retained, late = scale.of(_RETAINED, 20_000), scale.of(_LATE, 1_000)
    return {
        "late_us": us_per_late_row(retained, late, alternating=False),
        "alternating_us": us_per_late_row(retained, late, alternating=True),
    }


ROWS = (
    Rows(
        "late_rows",
        "Late rows of a hot key",
        f"A key with {_RETAINED:,} rows in its windows; one batch with {_LATE:,} rows that are late by a uniform share "
        f"of the window; {len(_AGGREGATORS)} rules ({', '.join(_AGGREGATORS)}). The thread's CPU time contains all "
        "work on the batch. No rule fires.",
        (
            Figure("late_us", "all rows of the batch are late", "us per late row", at_most(20)),
            Figure("alternating_us", "every second row is in order and evaluated", "us per late row"),
        ),
        _measure,
        needs_broker=False,
    ),
)
