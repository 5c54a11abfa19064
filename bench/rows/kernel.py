"""Measures the window kernel on one core: one grouping state accepts rows and evaluates each row for all rules.

The time contains all work on a row: the duplicate check, its insertion (out of order or not), expiry, and one
evaluation per rule. 20% of the rows are displaced, by up to `_DISPLACED` rows of their own key. All rules share the
window, or the window and its baseline, so every evaluation covers the stated number of rows. The unmeasured warm-up
fills the window two and a half times. The measured rows replace its content once more, so that expiry and clean-up
count. Time is the thread's CPU time, so other processes do not change it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.figures import Figure, Rows, Scale, at_least, at_most
from bench.inputs.rulesets import rule
from bench.lab import Lab
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.rules import rule_log

_KEYS = 10
_GAP_MS = 10
_SHARE_DISPLACED = 0.2
_DISPLACED = 50
_BATCH = 50_000
_START_MS = 1_700_000_000_000
_NEVER = 10**14
_CONTENTS = (100, 1_000, 10_000, 100_000)
_MEASURED = 400_000


@dataclass(frozen=True, slots=True)
class Mix:
    """A rule set: each aggregator has `times` rules."""

    key: str
    title: str
    aggregators: tuple[str, ...]
    times: int
    baselines: tuple[Mapping[str, object], ...] = ()
    """The baselines of the rules, in turn; each is nine times as long as the window."""

    @property
    def rules(self) -> int:
        return len(self.aggregators) * self.times

    def of_each(self, times: int) -> Mix:
        """The same rule set with another number of rules of each aggregator."""
        return replace(self, times=times)


_COMPARED = ("SUM", "COUNT", "AVG", "AVG")
_ALL_EIGHT = ("SUM", "AVG", "MIN", "MAX", "COUNT", "COUNT_WITH_RESET", "COUNT_DISTINCT", "STDDEV")
MIXES = (
    Mix("sum", "20 SUM rules", ("SUM",), 20),
    Mix("totals", "20 rules: SUM, AVG, COUNT, STDDEV", ("SUM", "AVG", "COUNT", "STDDEV"), 5),
    Mix(
        "baseline",
        "20 rules with a baseline: SUM, COUNT, AVG, and AVG in deviations",
        _COMPARED,
        5,
        ({}, {}, {}, {"deviations": True}),
    ),
    Mix("eight", "24 rules", _ALL_EIGHT, 3),
)

_BASELINE = next(mix for mix in MIXES if mix.baselines)
_PLAIN = Mix("plain", "the same rules without a baseline", _COMPARED, 5)
_COST_CONTENTS = (100, 10_000)


def stream(rows: int, seed: int = 1) -> TransactionBatch:
    """Rows over `_KEYS` keys, `_GAP_MS` apart in arrival, some displaced in event time."""
    rng = np.random.default_rng(seed)
    arrival = _START_MS + np.arange(rows, dtype=np.int64) * _GAP_MS
    displaced = rng.random(rows) < _SHARE_DISPLACED
    event = arrival - np.where(displaced, rng.integers(1, _DISPLACED * _KEYS + 1, rows) * _GAP_MS, 0)
    zeros = np.zeros(rows, dtype=np.int64)
    numbers = {
        "transactionId": np.arange(rows, dtype=np.int64),
        "eventTime": event,
        "payeeId": rng.integers(0, _KEYS, rows),
        "beneficiaryId": rng.integers(0, 1_000, rows),
        "paymentAmount": rng.integers(100, 20_000, rows),
        "ingestionTimestamp": arrival,
    }
    columns = {name: Column(values, None, None) for name, values in numbers.items()}
    columns["paymentType"] = Column(zeros, None, ("CSH",))
    return TransactionBatch(arrival, zeros.astype(np.int32), np.arange(rows, dtype=np.int64), columns)


def evaluations_per_s(mix: Mix, content: int, measured: int) -> float:
    """Return millions of rule evaluations per second with `content` rows of a key in every window."""
    root = Project.find()
    schema, settings = TransactionSchema.load(root.config / "schema.yaml"), DetectorSettings()
    timeline = timeline_of(mix, content * _KEYS * _GAP_MS // 1_000, schema)
    state = GroupingState.create(schema, ("payeeId",), HeapArrays())
    plan = state.plan([timeline.latest.groupings["payeeId",]])
    retained = (content + 2 * _DISPLACED) * _KEYS
    filling, measured = retained * 5 // 2, max(measured, retained)
    batch = stream(filling + measured)
    versions = np.zeros(_BATCH, dtype=np.int64)
    spent = 0.0
    for start in (*range(0, filling, _BATCH), *range(filling, filling + measured, _BATCH)):
        end = min(start + _BATCH, filling if start < filling else len(batch))
        part = batch.take(np.arange(start, end))
        before = time.thread_time()
        state.accept(part, versions[: len(part)], plan, settings.max_out_of_orderness_ms, explain=False)
        spent += time.thread_time() - before if start >= filling else 0.0
    return measured * mix.rules / spent / 1e6


def timeline_of(mix: Mix, window_s: int, schema: TransactionSchema) -> RuleTimeline:
    """The rules of a mix over windows of so many seconds. None of them fires."""
    documents = []
    for i in range(mix.rules):
        aggregator = mix.aggregators[i % len(mix.aggregators)]
        unique = ["beneficiaryId"] if aggregator == "COUNT_DISTINCT" else []
        # No rule fires. Limits differ, so that rules cannot share an evaluation.
        limit = -1 - i if aggregator == "MIN" else _NEVER + i
        operator = "LESS" if aggregator == "MIN" else "GREATER"
        members: dict[str, object] = {"windowSeconds": window_s, "unique": unique, "limitOperatorType": operator}
        if mix.baselines:
            members["windowSeconds"] = max(1, window_s // 10)
            members["baseline"] = {
                **mix.baselines[i % len(mix.baselines)],
                "windowSeconds": window_s - members["windowSeconds"],
            }
        documents.append(rule(i + 1, ["payeeId"], aggregator, limit, **members))
    return rule_log(documents, schema=schema)


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    measured = scale.of(_MEASURED, 50_000)
    contents = [content for content in _CONTENTS if content <= _CONTENTS[-1] * scale.share]
    values: dict[str, float] = {}
    for mix in MIXES:
        evaluations_per_s(mix, _CONTENTS[0], measured)  # warm up: compile and load once
        for content in contents:
            values[f"{mix.key}_{content}"] = evaluations_per_s(mix, content, measured)
        values[f"{mix.key}_flat"] = flatness([values[f"{mix.key}_{content}"] for content in contents])
    for content in (content for content in _COST_CONTENTS if content in contents):
        values[f"baseline_cost_{content}"] = rule_s(_BASELINE, content, measured) / rule_s(_PLAIN, content, measured)
    return values


def rule_s(mix: Mix, content: int, measured: int) -> float:
    """The time that one more rule costs per million rows, in seconds: the slope between few rules and many."""
    few, many = mix.of_each(1), mix.of_each(mix.times)
    few_s, many_s = (each.rules / evaluations_per_s(each, content, measured) for each in (few, many))
    return (many_s - few_s) / (many.rules - few.rules)


def flatness(speeds: Sequence[float]) -> float:
    """Return the slowest speed in % of the first."""
    return 100 * min(speeds) / speeds[0]


def _figures() -> list[Figure]:
    found = []
    for mix in MIXES:
        for content in _CONTENTS:
            title = f"{mix.title}; {content:,} rows"
            target = at_least(12 if mix.baselines else 20)
            shown = mix is MIXES[0] and content == _CONTENTS[-1]
            found.append(Figure(f"{mix.key}_{content}", title, "million/s", target, promise=shown))
        flat = at_least(75 if mix.baselines else 90)
        found.append(Figure(f"{mix.key}_flat", f"{mix.title}; slowest in % of 100 rows", "%", flat))
    for content in _COST_CONTENTS:
        title = f"cost of a rule with a baseline, in rules without one; {content:,} in the window"
        found.append(Figure(f"baseline_cost_{content}", title, "rules", at_most(2.5)))
    return found


ROWS = (
    Rows(
        "kernel",
        "The kernel alone, one core",
        f"{_KEYS} keys, {_SHARE_DISPLACED:.0%} of the rows out of order. CPU time with all work on a row: duplicate "
        "check, insertion, expiry, one evaluation per rule. Rules share no evaluation, and none fires.",
        tuple(_figures()),
        _measure,
        needs_broker=False,
    ),
)
