"""Measures the engine without Spark and Kafka: the CPU time of a large batch under several rule sets, in turns.

A batch is decoded, fanned out, evaluated by all key groups and concluded, as tasks and the driver do it. The sets take
turns batch by batch, so that a busy machine slows all of them alike. The first batches are not measured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import median

import numpy as np

from bench.figures import Figure, Rows, Scale, at_least
from bench.inputs.loads import UNIFORM_500K, Made, transactions
from bench.inputs.rulesets import RULES_10, RULES_10_V2, RULES_10_V3, Document
from bench.inputs.shapes import PLACES
from bench.lab import Lab
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.conclusion import conclude
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.model.output import KeyGroupOutput, MarkUpdate
from fraud_rules.model.schema import TransactionSchema
from tests.support.rules import rule_log

_BATCH = 20_000
_BATCHES, _FIRST = 16, 4


class Engines:
    """The engines of all key groups under one rule set. `decode_s` and `evaluate_s` are the CPU times of each batch,
    and `alerts` counts the alerts by rule."""

    def __init__(self, rules: Sequence[Document], schema: TransactionSchema) -> None:
        self.decode_s: list[float] = []
        self.evaluate_s: list[float] = []
        self.alerts: Counter[int] = Counter()
        self._schema, self._settings = schema, DetectorSettings.load(Project.find().config / "detector.yaml")
        self._timeline = rule_log(rules, schema=schema, limits=self._settings.limits)
        assert len(self._timeline.latest.rules) == sum("ruleId" in each for each in rules)
        views, self._marks = HeapViews(), list[MarkUpdate]()
        self._engines = [
            KeyGroupEngine(group, schema, self._settings, MemoryStateLog(), views)
            for group in range(self._settings.key_groups)
        ]

    def evaluate(self, made: Sequence[Made]) -> None:
        """Evaluate a batch."""
        n, settings = len(made), self._settings
        positions, times = np.array([i for i, _, _ in made]), np.full(n, made[-1][1])
        records = RawTransactions.of([text for _, _, text in made], np.zeros(n, dtype=np.int32), positions, times)
        began = time.thread_time()
        batch = decode_transactions(records, self._schema, settings.record_limits).batch
        decoded = time.thread_time()
        assert len(batch) == n
        blobs = fan_out(batch, self._timeline, self._schema, settings.key_groups)
        outputs = [
            KeyGroupOutput.decode(engine.process([blobs[group]], self._timeline, 0, 0, marks=self._marks).encode())
            for group, engine in enumerate(self._engines)
        ]
        concluded, self._marks = conclude(outputs, self._timeline)
        self.evaluate_s.append(time.thread_time() - decoded)
        self.decode_s.append(decoded - began)
        self.alerts.update(alert.rule_id for each in concluded for alert in each.alerts)


def in_turns(count: int, batches: int) -> Mapping[str, Engines]:
    """Evaluate batches of `count` transactions under all rule sets."""
    plain = TransactionSchema.load(Project.find().config / "schema.yaml")
    sides = {
        "rules10": Engines(RULES_10, plain),
        "rules10_v2": Engines(RULES_10_V2, plain),
        "rules10_v3": Engines(RULES_10_V3, TransactionSchema.parse(PLACES.schema())),
    }
    made = transactions(UNIFORM_500K)
    for number in range(batches):
        batch = list(islice(made, count))
        placed = list(PLACES.of(batch))
        names = list(sides)
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            sides[name].evaluate(placed if name == "rules10_v3" else batch)
    return sides


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    count = scale.of(_BATCH)
    sides = in_turns(count, _BATCHES)
    return dict(_values(sides, count))


def _values(sides: Mapping[str, Engines], count: int) -> Iterator[tuple[str, float]]:
    base = np.array(sides["rules10"].evaluate_s[_FIRST:])
    base_decode = np.array(sides["rules10"].decode_s[_FIRST:])
    for name, side in sides.items():
        evaluate, decode = np.array(side.evaluate_s[_FIRST:]), np.array(side.decode_s[_FIRST:])
        yield name, 1e6 * median(evaluate.tolist()) / count
        yield f"{name}_decode", 1e6 * median(decode.tolist()) / count
        if side is not sides["rules10"]:
            yield f"{name}_share", 100 * median((base / evaluate).tolist())
            yield f"{name}_whole_share", 100 * median(((base + base_decode) / (evaluate + decode)).tolist())


ROWS = (
    Rows(
        "engine",
        "The engine alone: CPU time of a large batch",
        f"{_BATCHES - _FIRST} batches of {_BATCH:,} transactions of `uniform_500k`, fanned out, evaluated by the key "
        "groups and concluded in one thread. The rule sets take turns batch by batch. Shares are medians over batches.",
        (
            Figure("rules10", "`rules10`, a transaction", "us"),
            Figure("rules10_v2", "`rules10_v2`, a transaction", "us"),
            Figure("rules10_v3", "`rules10_v3`, a transaction", "us"),
            Figure("rules10_v2_share", "`rules10_v2`: speed in % of `rules10`", "%", at_least(70)),
            Figure("rules10_v3_share", "`rules10_v3`: speed in % of `rules10`", "%", at_least(60)),
            Figure("rules10_v3_whole_share", "`rules10_v3`: the same, with decoding", "%", at_least(60)),
        ),
        _measure,
        needs_broker=False,
    ),
)
