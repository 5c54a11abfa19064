"""Packed batches of one key group in which keys, types and disorder vary, for tests of its state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.state.store import ViewStore
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import TransactionBatch
from tests.support.records.decoded import decoded
from tests.support.records.payments import payment_record
from tests.support.rules import SCHEMA, rule_log

SETTINGS = DetectorSettings(key_groups=1, max_out_of_orderness_ms=2_000)
START_MS = 1_700_000_000_000
RULES = [
    ["payeeId", "paymentType"], ["payeeId"], ["payeeId", "beneficiaryId"],
]  # fmt: skip


def timeline() -> RuleTimeline:
    """Three rules over three groupings, with a reset and a cool-down."""
    common = {
        "ruleState": "ACTIVE",
        "aggregateFieldName": "paymentAmount",
        "limitOperatorType": ">",
        "windowSeconds": 10,
    }
    records = [
        {**common, "ruleId": 1, "groupingKeyNames": RULES[0], "aggregatorFunctionType": "SUM", "limit": 300},
        {**common, "ruleId": 2, "groupingKeyNames": RULES[1], "aggregatorFunctionType": "COUNT_WITH_RESET", "limit": 7},
        {**common, "ruleId": 3, "groupingKeyNames": RULES[2], "aggregatorFunctionType": "MAX", "limit": 90,
         "cooldownSeconds": 5},
    ]  # fmt: skip
    return rule_log(records, schema=SCHEMA)


def blobs(batches: int, rows: int, seed: int = 1, rules: RuleTimeline | None = None) -> list[bytes]:
    """Packed batches of a stream in which keys, types and disorder vary."""
    rules = rules or timeline()
    return [fan_out(batch, rules, SCHEMA, 1)[0] for batch in decoded_batches(batches, rows, seed)]


def decoded_batches(batches: int, rows: int, seed: int = 1) -> Iterator[TransactionBatch]:
    """The batches of `blobs` before the fan-out."""
    random = np.random.default_rng(seed)
    for batch in range(batches):
        number = batch * rows + np.arange(rows)
        append = START_MS + number * 20
        event = append - np.where(random.random(rows) < 0.2, random.integers(0, 3_000, rows), 0)
        values = [
            payment_record(
                int(number[i] - (7 if random.random() < 0.02 else 0)),
                int(event[i]),
                payeeId=int(random.integers(0, 9)),
                beneficiaryId=int(random.integers(0, 4)),
                paymentType=("CSH", "CRD", "a type of many letters")[int(random.integers(0, 3))],
                paymentAmount=f"{int(random.integers(100, 10_000)) / 100:.2f}",
            )
            for i in range(rows)
        ]
        yield decoded(values, append, number)


def comparable(output: KeyGroupOutput) -> tuple[object, ...]:
    """The outputs that the state determines."""
    return ([(alert.alert_id, alert.json) for alert in output.alerts], output.late, output.duplicates, output.rows)


def run(packed: list[bytes], log: MemoryStateLog, views: list[ViewStore]) -> list[tuple[object, ...]]:
    """Give the batches in turn to engines over these views; a fresh view store stands for another worker."""
    rules = timeline()
    answers = []
    for batch, blob in enumerate(packed):
        engine = KeyGroupEngine(0, SCHEMA, SETTINGS, log, views[batch % len(views)])
        answers.append(comparable(engine.process([blob], rules, batch, 0)))
    return answers
