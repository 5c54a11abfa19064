"""The engines of a detector in memory, with a rule log and payments in compressed time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import psutil

from bench.figures import Figure
from bench.inputs.rulesets import Document
from bench.rows.soaks.compressed import flat
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.state.head import GroupingStateHead, decode_head
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.engine.task_rows import spread
from fraud_rules.logs.detector_status import TrafficCounts
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.log_entry import LogEntry, UndecodedRule
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.value_list import ListChange
from fraud_rules.stream.driver.progress import BatchOutputs, RunTotals
from tests.support.records.payments import payment_record

_KEY_GROUPS = 2
_START_MS = 1_700_000_000_000
_PAYEES = 200
_POINTERS_BYTES = 50
"""The positions of a record in the rule log."""

RULE_LOG = (
    Figure("entries", "records in the rule log, last third", ""),
    Figure("record_bytes", "memory of a record of the rule log", "bytes"),
    *flat("rest_mib", "RSS without the rule log", "MiB"),
)


class CompressedEngine:
    """Evaluates batches of payments. `totals` has the figures that a detector reports."""

    def __init__(self, step_ms: int) -> None:
        """`step_ms` is the event time between two batches."""
        self.schema = TransactionSchema.load(Project.find().config / "schema.yaml")
        self.settings = DetectorSettings(key_groups=_KEY_GROUPS, max_out_of_orderness_ms=60_000)
        self.timeline = RuleTimeline()
        self.totals = RunTotals(TrafficCounts(0, 0, 0, 0))
        self._step_ms = step_ms
        self._now_ms, self._batches, self._payments, self._log_bytes = _START_MS, 0, 0, 0
        self._reader = EntryReader(self.schema, self.settings.limits)
        self._logs, views = [MemoryStateLog() for _ in range(_KEY_GROUPS)], HeapViews()
        self._engines = [
            KeyGroupEngine(group, self.schema, self.settings, log, views) for group, log in enumerate(self._logs)
        ]

    def change(self, records: Iterable[Document]) -> None:
        """Append records to the rule log."""
        end = self.timeline.end
        encoded = [json.dumps(record).encode() for record in records]
        entries = [self._reader.read(end + n, self._now_ms, value) for n, value in enumerate(encoded)]
        self.timeline = self.timeline.extended(entries)
        self._log_bytes += sum(map(_held_bytes, entries))

    def pay(self, count: int, between: Iterable[Document] = ()) -> None:
        """Evaluate a batch of payments, which are evenly spaced in the time of a step. The records `between` reach the
        rule log in the middle of the batch."""
        offsets = self._payments + np.arange(count)
        append_ms = self._now_ms + (np.arange(count) * self._step_ms) // count
        self._now_ms += self._step_ms // 2
        self.change(between)
        self._now_ms += self._step_ms // 2
        self._payments += count
        values = [_payment(int(n), int(at_ms)) for n, at_ms in zip(offsets, append_ms, strict=True)]
        partitions = np.zeros(count, dtype=np.int32)
        batch = decode_transactions(
            RawTransactions.of(values, partitions, offsets, append_ms), self.schema, RecordLimits()
        ).batch
        rows = spread(batch, self.timeline, self.schema, _KEY_GROUPS)
        outputs = [
            engine.process_rows(rows.get(group, []), self.timeline, self._batches, 0)
            for group, engine in enumerate(self._engines)
        ]
        self._batches += 1
        self.totals.add(BatchOutputs(outputs, []))

    def states(self) -> list[GroupingStateHead]:
        """The heads of all grouping states."""
        encoded = [log.head() for log in self._logs]
        return [state for each in encoded if each is not None for state in decode_head(each).states]

    def sizes(self) -> Mapping[str, float]:
        """The state that the detector reports, and the groupings that it holds."""
        return {
            "retained_rows": self.totals.retained_events,
            "state_mib": self.totals.retained_bytes / 2**20,
            "groupings": len({state.fields for state in self.states()}),
            "entries": len(self.timeline),
            "record_bytes": self._log_bytes / len(self.timeline),
            "rest_mib": (psutil.Process().memory_info().rss - self._log_bytes) / 2**20,
        }


def rule(rule_id: int, fields: Iterable[str], **members: Any) -> Document:
    """A rule that never fires."""
    return {
        "ruleId": rule_id,
        "ruleState": "ACTIVE",
        "groupingKeyNames": list(fields),
        "aggregatorFunctionType": "SUM",
        "aggregateFieldName": "paymentAmount",
        "limitOperatorType": ">",
        "limit": 10**9,
        **({} if "windowSeconds" in members else {"windowMinutes": 10}),
        **members,
    }


def _held_bytes(entry: LogEntry) -> int:
    """The memory that only this record needs."""
    content = entry.content
    held: list[object] = [entry, content, entry.version, entry.append_ms]
    if isinstance(content, UndecodedRule):
        held.append(content.value)
    elif isinstance(content.change, ListChange):
        held += [content.change, content.change.name, content.change.encoded]
    return _POINTERS_BYTES + sum(map(sys.getsizeof, held))


def _payment(number: int, at_ms: int) -> bytes:
    kind = "CSH" if number % 3 else "CRD"
    members = {"payeeId": number % _PAYEES, "beneficiaryId": number % 7, "paymentType": kind, "paymentAmount": "12.50"}
    return payment_record(number, at_ms, **members)
