"""Compares the estimated CPU time of rules (`engine.cpu_cost`) with measurements, and measures the cost of measuring.

A rule's cost is the slope between few rules and many in one grouping state, as in `bench.rows.kernel`. The time of a
thread is CPU time, so other processes change it little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from bench.figures import Figure, Rows, Scale, at_least, at_most
from bench.lab import Lab
from bench.rows.kernel import Mix, rule_s, stream, timeline_of
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.cpu_cost import CpuLoad
from fraud_rules.engine.rule_meter import RuleMeter
from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.model.schema import TransactionSchema

_FUNCTIONS: Final = ("SUM", "AVG", "STDDEV", "COUNT", "COUNT_WITH_RESET")
_MANY: Final = 20
_CONTENT: Final = 1_000
_ROWS: Final = 100_000
_SMALL_BATCH: Final = 100
_SAMPLED: Final = 2_000


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    schema = TransactionSchema.load(Project.find().config / "schema.yaml")
    values: dict[str, float] = {}
    for function in _FUNCTIONS:
        mix = Mix(function, function, (function,), _MANY)
        measured_ns = rule_s(mix, _CONTENT, scale.of(_ROWS, 20_000)) * 1_000  # s for a million rows
        values[f"{function}_ns"] = measured_ns
        values[f"{function}_share"] = _estimate_ns(mix, schema) / measured_ns
    return values | _sampling(schema, scale.of(_SAMPLED, 200))


def _estimate_ns(mix: Mix, schema: TransactionSchema) -> float:
    """The estimate of what `rule_s` measures."""
    few, many = CpuLoad(), CpuLoad()
    few.follow(timeline_of(mix.of_each(1), 60, schema).latest.rules)
    many.follow(timeline_of(mix, 60, schema).latest.rules)
    return (many.total_ns - few.total_ns) / (mix.rules - 1)


def _sampling(schema: TransactionSchema, runs: int) -> Mapping[str, float]:
    """The CPU time that a sample adds to a run of `_SMALL_BATCH` rows with `_MANY` rules."""
    mix = Mix("totals", "", ("SUM", "AVG", "COUNT", "STDDEV"), _MANY // 4)
    state = GroupingState.create(schema, ("payeeId",), HeapArrays())
    plan = state.plan([timeline_of(mix, 60, schema).latest.groupings["payeeId",]])
    meter, batch = RuleMeter(interval_s=0), stream(2 * runs * _SMALL_BATCH)
    versions, lateness_ms = np.zeros(_SMALL_BATCH, dtype=np.int64), DetectorSettings().max_out_of_orderness_ms
    spent_us: dict[bool, list[float]] = {True: [], False: []}
    for run in range(2 * runs):
        part, sampled = batch.take(np.arange(run * _SMALL_BATCH, (run + 1) * _SMALL_BATCH)), run % 2 == 1
        began = time.thread_time_ns()
        sample = meter.sample((str(run),), mix.rules, _SMALL_BATCH) if sampled else None
        state.accept(part, versions, plan, lateness_ms, explain=False, sample=sample)
        if sample is not None:
            meter.costs(sample, plan, _SMALL_BATCH)
        spent_us[sampled].append((time.thread_time_ns() - began) / 1_000)
    added_us = statistics.median(spent_us[True]) - statistics.median(spent_us[False])
    return {"sample_us": added_us, "sample_percent": added_us / 10_000}


def _figures() -> list[Figure]:
    found = []
    for function in _FUNCTIONS:
        found.append(Figure(f"{function}_ns", f"one more {function} rule, for each transaction", "ns"))
        found.append(
            Figure(f"{function}_share", f"{function}: estimate in parts of the measurement", "", at_least(0.5))
        )
    return [
        *found,
        Figure("sample_us", f"a sample of {_MANY} rules over {_SMALL_BATCH} rows", "us"),
        Figure("sample_percent", "one such sample a second, in % of a core", "%", at_most(0.1)),
    ]


ROWS = (
    Rows(
        "rule_cost",
        "The CPU time of a rule, and of its measurement",
        f"One core, {_CONTENT:,} rows of a key in each window. The cost of a rule is the additional time of "
        f"{_MANY - 1} more rules of the kind in one grouping. The estimate is the one that the CPU budget uses. A "
        "worker process takes at most one sample a second of each grouping.",
        tuple(_figures()),
        _measure,
        needs_broker=False,
    ),
)
