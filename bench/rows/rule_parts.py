"""Measures single parts of rules on one core: an expression, a large map, a condition, and sums by step.

All times are CPU times. The variants of a comparison take turns in one process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np
import psutil
from numpy.typing import NDArray

from bench.figures import Figure, Rows, Scale, at_least, at_most
from bench.inputs.rulesets import Document, rule
from bench.lab import Lab
from bench.rows.kernel import stream
from bench.rows.state import SizedLog
from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.lookups import lookup_columns
from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.task_rows import spread
from fraud_rules.model.expressions.lookups import lookups_of
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from fraud_rules.runtime.compression import compress
from tests.support.rules import rule_log

Ints = NDArray[np.int64]

_TURNS = 7
_ROWS = 20_000

EXPRESSION: Final = "paymentAmount * 3 + 1 - abs(paymentAmount - 100) * 2 > 5 and hour(eventTime) * 60 + 1 < 1440"
"""Ten operations beside the `and`."""

_ENTRIES, _PER_RECORD, _CHANGED = 1_000_000, 40_000, 100
_LOOKUP: Final = "map('limits', payeeId) > 100"

_CONTENT, _MEASURED, _RULES = 1_000, 200_000, 20
_NEVER = 10**14

_HOUR_MS, _START_MS = 3_600_000, 1_700_006_400_000
_KEYS, _PLAIN_KEYS = 100_000, 10_000
_HOURS, _PAYMENTS = 2_160, 125
_BATCHES, _STEPS_OF_KEY = 90, 4


def _schema() -> TransactionSchema:
    return TransactionSchema.load(Project.find().config / "schema.yaml")


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def expression_ns(rows: int) -> float:
    """The time of the expression for one payment of a large batch."""
    tree = parse_filter(EXPRESSION, _schema(), RuleLimits(), "when")
    columns = stream(rows).columns
    return 1e9 / rows * median(_cpu_s(lambda: tree.mask(columns, rows)) for _ in range(_TURNS))


def _map_records(entries: int) -> Iterator[bytes]:
    """A map of so many entries, as records of the rule log."""
    for first in range(0, entries, _PER_RECORD):
        values = {str(7 * key): f"{key % 9_000}.50" for key in range(first, min(first + _PER_RECORD, entries))}
        yield json.dumps(_map_change("ADD" if first else "SET", values), separators=(",", ":")).encode()


def _map_change(operation: str, entries: Mapping[str, str]) -> Document:
    types = {"keyType": "long", "valueType": "decimal"}
    return {"mapName": "limits", "mapOperation": operation, **types, "entries": entries, "source": "bench"}


def map_of(entries: int) -> RuleTimeline:
    """The rule log with the map, as a worker process holds it."""
    reader = EntryReader(_schema(), RuleLimits())
    return RuleTimeline([reader.read(version, 1, record) for version, record in enumerate(_map_records(entries))])


def map_mib(entries: int) -> float:
    """The memory of the rule log with the map: the growth of a process that reads it."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.rows.rule_parts", str(entries)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _print_map_mib(entries: int) -> None:
    map_of(1_000)
    process = psutil.Process()
    before = process.memory_info().rss
    timeline = map_of(entries)
    assert timeline.collections_at(timeline.end).maps["limits"].size == entries
    print((process.memory_info().rss - before) / 2**20)


def map_figures(entries: int, rows: int) -> dict[str, float]:
    """The time of a look-up, and of a live change with the first look-ups after it."""
    timeline = map_of(entries)
    schema = _schema()
    tree, reader = parse_filter(_LOOKUP, schema, RuleLimits(), "when"), EntryReader(schema, RuleLimits())
    keys = np.random.default_rng(1).integers(0, 8 * entries, rows)
    columns = {"payeeId": Column(keys, None, None)}

    def look_up() -> None:
        lookup_columns(lookups_of([tree]), timeline, columns, np.full(rows, timeline.end))

    look_up_s = median(_cpu_s(look_up) for _ in range(_TURNS))
    changes_s = []
    for number in range(2 * 16_384 // _CHANGED):  # so many changes need the whole map to be copied
        values = {str(7 * (number * _CHANGED + k)): "1" for k in range(_CHANGED)}
        record = json.dumps(_map_change("ADD", values)).encode()
        began = time.thread_time()
        timeline = timeline.extended([reader.read(timeline.end, 1, record)])
        look_up()
        changes_s.append(time.thread_time() - began)
    return {
        "map_lookup_ns": 1e9 * look_up_s / rows,
        "map_change_ms": 1e3 * median(changes_s),
        "map_change_most_ms": 1e3 * max(changes_s),
    }


def condition_share(content: int, measured: int) -> dict[str, float]:
    """The evaluations per second of rules with one condition, in % of those of the same rules without. All own
    aggregates hold, so that every condition is evaluated, in a window that is half as long."""
    window_s = content * 10 * 10 // 1_000
    beside = {"aggregatorFunctionType": "COUNT", "limitOperatorType": "GREATER", "windowSeconds": window_s // 2}
    sets = {
        name: [
            rule(i + 1, ["payeeId"], "SUM", -1 - i, windowSeconds=window_s, **more(i)) | {"ruleState": "SIGNAL"}
            for i in range(_RULES)
        ]
        for name, more in (
            ("plain", lambda i: {}),
            ("condition", lambda i: {"conditions": [{**beside, "limit": _NEVER + i}]}),
        )
    }
    found: dict[str, list[float]] = {name: [] for name in sets}
    for _ in range(_TURNS):
        for name, rules in sets.items():
            found[name].append(_rows_per_s(rules, 3 * content * 10, measured))
    share = 100 * median(b / a for a, b in zip(found["plain"], found["condition"], strict=True))
    return {
        "plain_per_s": median(found["plain"]) * _RULES / 1e6,
        "condition_per_s": median(found["condition"]) * _RULES / 1e6,
        "condition_share": share,
    }


def _rows_per_s(rules: list[Document], filling: int, measured: int) -> float:
    schema, settings = _schema(), DetectorSettings()
    state = GroupingState.create(schema, ("payeeId",), HeapArrays())
    plan = state.plan([rule_log(rules, schema=schema).latest.groupings["payeeId",]])
    batch, spent = stream(filling + measured), 0.0
    for start, end in ((0, filling), (filling, filling + measured)):
        part = batch.take(np.arange(start, end))
        versions = np.zeros(len(part), dtype=np.int64)
        accept = partial(state.accept, part, versions, plan, settings.max_out_of_orderness_ms, explain=False)
        spent = _cpu_s(accept)
    return measured / spent


def steps_figures(keys: int, plain_keys: int) -> dict[str, float]:
    """The bytes of a payment in a window of 90 days, as single rows and in sums of an hour: in views and in the log."""
    plain, sums = _retained(plain_keys, {}), _retained(keys, {"resolutionSeconds": 3_600})
    return {
        **{f"rows_{name}": value for name, value in plain.items()},
        **{f"sums_{name}": value for name, value in sums.items()},
        **{f"sums_{name}_share": 100 * sums[name] / plain[name] for name in plain},
    }


class _CompressedLog(SizedLog):
    """A state log that counts the bytes of its records in Kafka."""

    def put_chunk(self, name: str, blob: bytes) -> None:
        super().put_chunk(name, blob)
        self._sizes[name] = len(compress(blob))


def _retained(keys: int, members: Mapping[str, Any]) -> dict[str, float]:
    """The bytes of a payment in all key groups after 90 days under one SUM rule. Each key pays `_PAYMENTS` times in
    each of `_STEPS_OF_KEY` hours; a batch has the payments of one hour."""
    schema = _schema()
    settings = replace(DetectorSettings(), limits=replace(RuleLimits(), max_window_minutes=_HOURS * 60))
    document = rule(1, ["payeeId"], "SUM", 10**15, windowMinutes=_HOURS * 60, **members)
    timeline = rule_log([document], _START_MS, schema, settings.limits)
    logs, views = [_CompressedLog() for _ in range(settings.key_groups)], HeapViews()
    engines = [KeyGroupEngine(group, schema, settings, log, views) for group, log in enumerate(logs)]
    rng = np.random.default_rng(1)
    hours_of = rng.permuted(np.tile(np.arange(_BATCHES), (keys, 1)), axis=1)[:, :_STEPS_OF_KEY]
    paid, outputs = 0, list[KeyGroupOutput]()
    for number in range(_BATCHES):
        payees = np.repeat(np.flatnonzero((hours_of == number).any(axis=1)), _PAYMENTS)
        batch = _payments(rng.permutation(payees), _START_MS + number * (_HOURS // _BATCHES) * _HOUR_MS, paid, rng)
        paid += len(batch)
        rows = spread(batch, timeline, schema, settings.key_groups)
        outputs = [
            engine.process_rows(rows.get(group, []), timeline, number, 0) for group, engine in enumerate(engines)
        ]
    return {
        "view": sum(output.retained_bytes for output in outputs) / paid,
        "log": sum(log.nbytes for log in logs) / paid,
    }


def _payments(payees: Ints, start_ms: int, first: int, rng: np.random.Generator) -> TransactionBatch:
    """Payments of these payees within an hour."""
    n = len(payees)
    times, ids = start_ms + np.sort(rng.integers(0, _HOUR_MS, n)), np.arange(first, first + n)
    amounts = rng.integers(100, 20_000, n)
    numbers = {"transactionId": ids, "eventTime": times, "payeeId": payees, "beneficiaryId": payees % 7}
    columns = {name: Column(values, None, None) for name, values in {**numbers, "paymentAmount": amounts}.items()}
    columns["paymentType"] = Column(np.zeros(n, dtype=np.int64), None, ("CSH",))
    return TransactionBatch(times, np.zeros(n, dtype=np.int32), ids, columns)


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    entries = scale.of(_ENTRIES)
    return {
        "expression_ns": expression_ns(_ROWS),
        **map_figures(entries, _ROWS),
        "map_mib": map_mib(entries),
        **condition_share(_CONTENT, scale.of(_MEASURED, 20_000)),
        **steps_figures(scale.of(_KEYS), scale.of(_PLAIN_KEYS)),
    }


ROWS = (
    Rows(
        "rule_parts",
        "Single parts of rules, one core",
        "CPU times. An expression over a batch of 20,000 payments, a map of a million entries from longs to decimals "
        "in one process, a condition in a window of its own beside an own aggregate that holds, and one SUM over 90 "
        f"days: {_KEYS:,} keys, each with {_PAYMENTS} payments in each of {_STEPS_OF_KEY} hours.",
        (
            Figure("expression_ns", "an expression of ten operations, a payment", "ns", at_most(100)),
            Figure("map_lookup_ns", "a look-up in a map of 1,000,000 entries", "ns", at_most(150)),
            Figure("map_mib", "this map in a worker process", "MiB", at_most(96)),
            Figure("map_change_most_ms", "a live change of 100 of its entries", "ms", at_most(1_000)),
            Figure("map_change_ms", "a live change, median", "ms"),
            Figure("plain_per_s", "20 rules without a condition", "million/s"),
            Figure("condition_per_s", "20 rules with one condition each", "million/s"),
            Figure("condition_share", "rules with one condition: speed in % of those without", "%", at_least(60)),
            Figure("rows_view", "90 days, single rows: memory of the views", "bytes per payment"),
            Figure("rows_log", "90 days, single rows: durable log", "bytes per payment"),
            Figure("sums_view", "90 days in steps of an hour: memory of the views", "bytes per payment"),
            Figure("sums_log", "90 days in steps of an hour: durable log", "bytes per payment"),
            Figure("sums_view_share", "90 days in steps: views in % of single rows", "%", at_most(5)),
            Figure("sums_log_share", "90 days in steps: log in % of single rows", "%", at_most(5)),
        ),
        _measure,
        needs_broker=False,
    ),
)

if __name__ == "__main__":
    _print_map_mib(int(sys.argv[1]))
