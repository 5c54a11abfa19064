"""Measures what warm-ups leave behind in pins and in the driver, during months of rules that come and go."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import msgspec

from bench.figures import Figure, Rows, Scale
from bench.lab import Lab
from bench.rows.soaks.compressed import COMMON, TOLERATED, flat, run
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpPart, WarmUpResult
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.stream.driver.records import BatchTime, rule_operation_records, warm_up_records
from fraud_rules.stream.driver.rule_pinning import RulePinner
from fraud_rules.stream.driver.warm_ups import WarmUpWatch

_BASE_RULES = 200
_RULES_A_DAY = 10
_RULE_DAYS = 3
_DAY_S = 10.0
_FIELDS = ("beneficiaryId", "payeeId", "paymentType")
_GROUPINGS = [fields for count in (1, 2, 3) for fields in combinations(_FIELDS, count)]
_KEY_GROUPS = 8
_START_MS = 1_700_000_000_000
_ENDS = {"0": 1}


@dataclass
class _Topic:
    """A partition in memory, with the methods of a reader that the driver calls."""

    first: int = 0
    records: list[Record] = field(default_factory=list)

    def append(self, value: bytes, key: bytes | None = None) -> int:
        offset = self.first + len(self.records)
        self.records.append(Record(offset, _START_MS + offset, key, value))
        return offset

    def forget(self, kept: int) -> None:
        """Drop the oldest records, as retention does."""
        self.first += max(0, len(self.records) - kept)
        del self.records[: max(0, len(self.records) - kept)]

    def ends(self, partition: int = 0) -> tuple[int, int]:
        return self.first, self.first + len(self.records)

    def read(self, start: int, end: int, partition: int = 0) -> Sequence[Record]:
        return self.records[start - self.first : end - self.first]


def _rule(rule_id: int, **members: Any) -> bytes:
    known = {
        "ruleId": rule_id,
        "ruleState": "ACTIVE",
        "groupingKeyNames": _GROUPINGS[rule_id % len(_GROUPINGS)],
        "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">",
        "limit": 3,
        "windowMinutes": 60 + rule_id * 7_919 % 500,
    }
    return json.dumps({**known, **members}).encode()


class _Driver:
    """The part of a detector's driver that pins rules and warm-ups, and a job that answers each request at once."""

    def __init__(self, folder: Path) -> None:
        schema, settings = TransactionSchema.load(Project.find().config / "schema.yaml"), DetectorSettings()
        self.rules, self.results, self.sizes = _Topic(), _Topic(), dict[str, float]()
        self._topics, self._log_of = settings.topics, WarmUpLog(KafkaConnection(""), "warm-ups", settings.detector)
        self._watch = WarmUpWatch(self._log_of)
        log = RuleLog(self.rules.read, schema, RuleLimits())
        self._pinner = RulePinner(settings, log, warm_ups=self._watch)
        self._batch = 0
        for number in range(1, _BASE_RULES + 1):
            if number % len(_GROUPINGS) % 2:  # the other groupings end and start anew
                self.rules.append(_rule(number))
        self._run_batch()

    def step(self, day: int) -> None:
        """A day: a clear, then rules with a warm-up come, are edited, and those of three days ago go."""
        began, cpu, changes = time.monotonic(), time.process_time(), len(self.rules.records)
        ids = range(1_000 + day * _RULES_A_DAY, 1_000 + (day + 1) * _RULES_A_DAY)
        self.rules.append(b'{"ruleState":"CONTROL","controlType":"CLEAR_STATE_ALL"}')
        for rule_id in ids:
            version = self.rules.append(_rule(rule_id, warmUp=True))
            if self._run_batch()[version]["warmUp"]["state"] == "REQUESTED":
                self._answer(version, rule_id)
                self._run_batch()
        for rule_id in ids:
            version = self.rules.append(_rule(rule_id, limit=4, warmUp=True))
            assert self._run_batch()[version]["warmUp"]["state"] == "WARM", "an edit has started a job"
        for rule_id in range(ids.start - _RULE_DAYS * _RULES_A_DAY, ids.stop - _RULE_DAYS * _RULES_A_DAY):
            if rule_id >= 1_000:
                self.rules.append(b'{"ruleId":%d,"ruleState":"DELETE"}' % rule_id)
                self._run_batch()
        self.results.forget(_RULES_A_DAY)
        changes = len(self.rules.records) - changes
        pin = self._pinner.newest_pin()
        self.sizes = {
            "pin_bytes": len(msgspec.json.encode(pin)),
            "pinned": len(pin.warm_ups),
            "results": self._watch.result_count,
            "change_ms": 1_000 * (time.process_time() - cpu) / max(changes, 1),
            "log": len(self.rules.records),
            "warm_ups": self.results.ends()[1],
        }
        time.sleep(max(0.0, _DAY_S - (time.monotonic() - began)))

    def _run_batch(self) -> Mapping[int, Mapping[str, Any]]:
        """Pin the next batch, and return its reports on rule records, by version."""
        self._watch.read(cast(TopicReader, self.results))
        rules = self._pinner.rules_of(self._batch, len(self.rules.records), _ENDS)
        at = BatchTime(self._batch, _START_MS)
        self._batch += 1
        reports = [*rule_operation_records(rules.decided, rules.timeline, rules.pin, at, self._topics)]
        reports += warm_up_records(rules.warm_ups, rules.timeline, at, self._topics)
        documents = [json.loads(each.value or b"") for each in reports]
        assert all(each["status"] == "LIVE" for each in documents), documents
        return {each["ruleVersion"]: each for each in documents}

    def _answer(self, version: int, rule_id: int) -> None:
        parts = [WarmUpPart(number, 1_000, _START_MS, [(version, "chunk")]) for number in range(_KEY_GROUPS)]
        fields = _GROUPINGS[rule_id % len(_GROUPINGS)]
        result = WarmUpResult(version, rule_id, fields, 1, _ENDS, _KEY_GROUPS, parts, f"{version:032x}")
        self.results.append(msgspec.json.encode(result), f"{self._log_of.detector}/{version}".encode())


def _measure(_: Lab | None, scale: Scale) -> Mapping[str, Any]:
    Project.find().var.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Project.find().var, prefix="soak-") as folder:
        driver = _Driver(Path(folder))
        found = run(scale.soak_minutes, driver.step, lambda: driver.sizes)
        return found | {"all_warm_ups": driver.sizes["warm_ups"], "all_records": driver.sizes["log"]}


ROWS = (
    Rows(
        "soak_warm_ups",
        "Pins during months of rules with a warm-up",
        f"A step is a day of {_DAY_S:g} s: the state is cleared, and {_RULES_A_DAY} rules with `warmUp` begin, are "
        f"edited, and are deleted {_RULE_DAYS} days later, in {len(_GROUPINGS)} groupings, some of which end. Each "
        "change is in a batch of its own. The driver's code pins the rules, without Spark and Kafka. A job answers "
        "each request at once. The rule log stays in memory, by design. Flat means: the mean of the last third is at "
        f"most {TOLERATED}% above that of the previous third.",
        (
            *COMMON,
            Figure("all_warm_ups", "warm-ups in all", ""),
            Figure("all_records", "records of the rule log", ""),
            *flat("pin_bytes", "size of a pin", "bytes"),
            *flat("pinned", "warm-ups in a pin", ""),
            *flat("results", "results in memory", ""),
            *flat("change_ms", "CPU time of a rule change", "ms"),
        ),
        _measure,
        needs_broker=False,
        soak=True,
    ),
)
