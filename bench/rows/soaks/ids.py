"""Measures whether the state of a schema with string ids stays flat: every payment has an id that no other one has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.figures import Figure, Rows, Scale
from bench.inputs.rulesets import Document, rule
from bench.lab import Lab
from bench.rows.soaks.compressed import COMMON, flat, run
from bench.rows.soaks.steady import allocated_mib
from bench.rows.state import SizedLog
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import EMPTY_BLOB, fan_out
from fraud_rules.engine.state.store import MappedViews
from fraud_rules.engine.window.layout import H_STRINGS
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from tests.support.rules import rule_log

_BATCH = 2_000
_BATCH_MS = 20_000
_LATENESS_MS = 60_000
_KEY_GROUPS = 2
_WORKERS = 2
_PAYERS = 5_000
_DEVICES_USED = 500
"""The devices of a batch. A tenth of them are new."""
_START_MS = 1_700_000_000_000
_MIB = 2**20

SCHEMA = TransactionSchema(
    (
        Field("transactionId", FieldType.STRING),
        Field("eventTime", FieldType.TIMESTAMP),
        Field("payerId", FieldType.LONG),
        Field("deviceId", FieldType.STRING),
        Field("amount", FieldType.DECIMAL, precision=18, scale=2),
    )
)
RULES: tuple[Document, ...] = (
    rule(1, ["payerId"], "SUM", 900, aggregateFieldName="amount", windowMinutes=1),
    rule(2, ["payerId"], "COUNT_DISTINCT", 4, aggregateFieldName=None, unique=["deviceId"], windowMinutes=1),
    rule(3, ["deviceId"], "COUNT", 30, aggregateFieldName=None, windowMinutes=1),
)


class _Payments:
    """Batches of payments with ids and devices as UUIDs, `_BATCH_MS` apart in event time."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)
        self._devices = _uuids(_DEVICES_USED)

    def batch(self, number: int) -> TransactionBatch:
        """The payments of a batch, of which a tenth are up to two minutes out of order."""
        random, zeros = self._random, np.zeros(_BATCH, dtype=np.int64)
        fresh = _DEVICES_USED // 10
        self._devices = self._devices[fresh:] + _uuids(fresh)
        append_ms = _START_MS + number * _BATCH_MS + np.sort(random.integers(0, _BATCH_MS, _BATCH))
        displaced = np.where(random.random(_BATCH) < 0.1, random.integers(0, 2 * _LATENESS_MS, _BATCH), 0)
        columns = {
            "transactionId": Column(np.arange(_BATCH), None, tuple(_uuids(_BATCH))),
            "eventTime": Column(append_ms - displaced, None, None),
            "payerId": Column(random.integers(0, _PAYERS, _BATCH), None, None),
            "deviceId": Column(random.integers(0, _DEVICES_USED, _BATCH), None, tuple(self._devices)),
            "amount": Column(random.integers(100, 40_000, _BATCH), None, None),
        }
        places = number * _BATCH + np.arange(_BATCH, dtype=np.int64)
        return TransactionBatch(append_ms, zeros.astype(np.int32), places, columns)


def _uuids(count: int) -> list[str]:
    digits = os.urandom(16 * count).hex()
    return [
        f"{each[:8]}-{each[8:12]}-{each[12:16]}-{each[16:20]}-{each[20:]}"
        for each in (digits[start : start + 32] for start in range(0, len(digits), 32))
    ]


class _Detector:
    """The engines of all key groups, with common files, in workers that take turns."""

    def __init__(self, folder: Path) -> None:
        settings = replace(DetectorSettings(), key_groups=_KEY_GROUPS, max_out_of_orderness_ms=_LATENESS_MS)
        self._timeline, self._folder, self._payments = rule_log(RULES, schema=SCHEMA), folder, _Payments()
        self._logs = [SizedLog() for _ in range(_KEY_GROUPS)]
        self._views = [MappedViews(folder, SCHEMA) for _ in range(_WORKERS)]
        self._workers = [
            [KeyGroupEngine(group, SCHEMA, settings, log, views) for group, log in enumerate(self._logs)]
            for views in self._views
        ]
        self._outputs: list[KeyGroupOutput] = []

    def step(self, number: int) -> None:
        """Evaluate a batch in the next worker."""
        blobs = fan_out(self._payments.batch(number), self._timeline, SCHEMA, _KEY_GROUPS)
        self._outputs = [
            engine.process([blobs.get(group, EMPTY_BLOB)], self._timeline, number, 0)
            for group, engine in enumerate(self._workers[number % _WORKERS])
        ]

    def sizes(self) -> dict[str, float]:
        """The sizes of the state after the last batch."""
        outputs, strings = self._outputs, 0
        for group in range(_KEY_GROUPS):
            with self._views[0].hold(group) as view:
                strings += sum(int(state.header[H_STRINGS]) for state in view.states.values())
        return {
            "rows": sum(output.retained_events for output in outputs),
            "strings": strings,
            "string_mib": sum(output.string_bytes for output in outputs) / _MIB,
            "views_mib": sum(output.retained_bytes for output in outputs) / _MIB,
            "files_mib": allocated_mib(self._folder),
            "log_mib": sum(log.nbytes for log in self._logs) / _MIB,
            "marks": sum(output.retained_marks for output in outputs),
        }


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, Any]:
    with TemporaryDirectory(prefix="soak-ids-") as folder:
        detector = _Detector(Path(folder))
        found = run(scale.soak_minutes, detector.step, detector.sizes)
    return found | {"days": found["steps"] * _BATCH_MS / 86_400_000, "payments": found["steps"] * _BATCH}


ROWS = (
    Rows(
        "soak_ids",
        "String ids in compressed time",
        f"Every payment has a UUID as id, and each batch of {_BATCH:,} payments ({_BATCH_MS // 1_000} s of event time) "
        f"has {_DEVICES_USED // 10} devices that did not pay before. Three rules with a window of a minute, in two "
        f"groupings, one of them by device; {_LATENESS_MS // 1_000} s of lateness. The engines of {_KEY_GROUPS} key "
        f"groups, with the views in files, in {_WORKERS} workers of one process that take turns; without Spark and "
        "Kafka. A step is a batch. A string counts once in each grouping and key group that holds it. The log is not "
        "flat: each level of its merges can hold the marks of all keys again, and the RSS includes it.",
        (
            Figure("days", "event time", "days"),
            Figure("payments", "payments", ""),
            *COMMON,
            *flat("rows", "retained rows", ""),
            *flat("strings", "strings held", ""),
            *flat("string_mib", "bytes of the strings", "MiB"),
            *flat("views_mib", "all arrays of the views", "MiB"),
            *flat("files_mib", "files of the views", "MiB"),
            Figure("log_mib", "durable log, last third", "MiB"),
            Figure("log_mib_growth", "durable log, increase over the previous third", "%"),
            *flat("marks", "marks of alerts", ""),
        ),
        _measure,
        needs_broker=False,
        soak=True,
    ),
)
