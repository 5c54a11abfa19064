"""Evaluates a recorded stream in memory, with the parser, fan-out and engine that the detector runs.

A recording is a document `{"keyGroups": 1, "steps": [...], "batches": [...], "settings": {...}}`. A step is
`{"at": append ms, "rule": record}` or `{"at": append ms, "tx": record, "partition": 0}`, in append order; a record is an
object, or the text of a record as it was. The position of a rule among the rule steps is its version, that of a
transaction among those of its partition its offset. `batches` are recorded cuts: `{"offsets": {"transactions": {"0":
end}}, "pin": rule records seen, "refused": {version: [reasons]}}`, ends exclusive; what no batch has read makes one
more, which sees the whole rule log. `settings` may hold `maxOutOfOrdernessMs` and `futureToleranceMs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fraud_rules.codec import decode_transactions
from fraud_rules.engine import KeyGroupEngine
from fraud_rules.errors import Reason
from fraud_rules.fanout import EMPTY_BLOB, fan_out
from fraud_rules.output import KeyGroupOutput
from fraud_rules.rule_codec import read_entry
from fraud_rules.ruleset import LogEntry, RuleTimeline
from fraud_rules.schema import ID_FIELD, TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.statelog import MemoryLog
from fraud_rules.window.store import HeapViews, ViewStore

_encoder = msgspec.json.Encoder(decimal_format="number")
_ALERT_MEMBERS = (
    "ruleId", "ruleVersion", "shadow", "key", "triggeringValue", "windowStart", "windowEnd", "windowCount",
    "windowComplete", "suppressed", "alertId",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Record:
    """One transaction record of the recording."""

    append_ms: int
    partition: int
    offset: int
    value: bytes
    transaction_id: object


@dataclass(frozen=True, slots=True)
class _Cut:
    """One batch: its records, and how much of the rule log it sees."""

    records: Sequence[_Record]
    pin: int
    refused: Mapping[int, Sequence[Reason]]


class Replay:
    """Engines for every key group, in memory, fed batch by batch."""

    def __init__(self, schema: TransactionSchema, settings: DetectorSettings, views: ViewStore | None = None) -> None:
        self._schema = schema
        self._settings = settings
        views = views or HeapViews()
        self._engines = [
            KeyGroupEngine(key_group, schema, settings, MemoryLog(), views)
            for key_group in range(settings.key_groups)
        ]
        self._batches = 0

    def take(
        self, records: Sequence[_Record], timeline: RuleTimeline, detection_ms: int
    ) -> tuple[list[KeyGroupOutput], list[_Record]]:
        """One batch: what each key group made of it, and the records for quarantine."""
        decoded = decode_transactions(
            [record.value for record in records],
            [record.partition for record in records],
            [record.offset for record in records],
            [record.append_ms for record in records],
            self._schema,
            self._settings.future_tolerance_ms,
            self._settings.max_transaction_bytes,
        )
        blobs = fan_out(decoded.batch, timeline, self._settings.key_groups)
        outputs = [
            engine.process([blobs.get(key_group, EMPTY_BLOB)], timeline, self._batches, detection_ms)
            for key_group, engine in enumerate(self._engines)
        ]
        self._batches += 1
        return outputs, [records[reject.index] for reject in decoded.rejects]


def replay(document: Mapping[str, Any], schema: TransactionSchema, settings: DetectorSettings) -> dict[str, list[Any]]:
    """The answer to a recording: `{"alerts", "late", "quarantine", "duplicates", "rejected"}`.

    Alerts in the order of (arrival, rule id); late, quarantined and ignored transactions by id, once each, in arrival order;
    rejected rules with their reasons. Raises KeyError or TypeError for a document of another shape.
    """
    settings = _settings_for(document, settings)
    log = _rule_log(document, schema, settings)
    run = Replay(schema, settings)
    answer: dict[str, list[Any]] = {"alerts": [], "late": [], "quarantine": [], "duplicates": []}
    for cut in _cuts(document, len(log)):
        timeline = RuleTimeline(
            [e.refused(cut.refused[e.version]) if e.version in cut.refused else e for e in log[: cut.pin]], cut.pin
        )
        outputs, rejects = run.take(cut.records, timeline, 0)
        known = {(record.partition, record.offset): record.transaction_id for record in cut.records}
        _gather(answer, outputs, known)
        answer["quarantine"] += [record.transaction_id for record in sorted(rejects, key=_arrival)]
    answer["rejected"] = [
        {"ruleVersion": entry.version, "reasons": [str(reason) for reason in entry.reasons]}
        for entry in log
        if entry.change is None
    ]
    return answer


def _gather(
    answer: dict[str, list[Any]], outputs: Sequence[KeyGroupOutput], known: Mapping[tuple[int, int], object]
) -> None:
    """Add a batch's outputs, merged over key groups."""
    alerts = sorted(
        (alert for output in outputs for alert in output.alerts),
        key=lambda alert: (alert.append_ms, alert.partition, alert.offset, alert.rule_id),
    )
    for alert in alerts:
        decoded = msgspec.json.decode(alert.json)
        answer["alerts"].append(
            {name: decoded[name] for name in _ALERT_MEMBERS}
            | {"transactionId": decoded["triggeringEvent"][ID_FIELD]}
        )
    for part, items in (
        ("late", [item for output in outputs for item in output.late]),
        ("duplicates", [item for output in outputs for item in output.duplicates]),
    ):
        places = sorted({(item.append_ms, item.partition, item.offset) for item in items})
        answer[part] += [known[place[1:]] for place in places]


def _settings_for(document: Mapping[str, Any], settings: DetectorSettings) -> DetectorSettings:
    given = document.get("settings", {})
    return replace(
        settings,
        key_groups=document.get("keyGroups", 1),
        max_out_of_orderness_ms=given.get("maxOutOfOrdernessMs", settings.max_out_of_orderness_ms),
        future_tolerance_ms=given.get("futureToleranceMs", settings.future_tolerance_ms),
    )


def _rule_log(document: Mapping[str, Any], schema: TransactionSchema, settings: DetectorSettings) -> list[LogEntry]:
    steps = [step for step in document["steps"] if "rule" in step]
    return [
        read_entry(version, step["at"], _value(step["rule"]), schema, settings.limits)
        for version, step in enumerate(steps)
    ]


def _cuts(document: Mapping[str, Any], rules_end: int) -> Iterator[_Cut]:
    by_partition: dict[int, list[_Record]] = {}
    for step in document["steps"]:
        if "tx" in step:
            partition = step.get("partition", 0)
            records = by_partition.setdefault(partition, [])
            tx = step["tx"]
            identity = tx.get(ID_FIELD) if isinstance(tx, Mapping) else None
            records.append(_Record(step["at"], partition, len(records), _value(tx), identity))
    starts = dict.fromkeys(by_partition, 0)
    for recorded in document.get("batches", ()):
        records = []
        for name, end in recorded["offsets"].get("transactions", {}).items():
            partition = int(name)
            records += by_partition.get(partition, [])[starts.get(partition, 0) : end]
            starts[partition] = end
        yield _Cut(records, recorded["pin"], _refused(recorded))
    rest = [record for partition, records in by_partition.items() for record in records[starts[partition] :]]
    if rest:
        yield _Cut(rest, rules_end, {})


def _refused(recorded: Mapping[str, Any]) -> dict[int, list[Reason]]:
    return {
        int(version): [Reason("state", str(reason)) for reason in reasons]
        for version, reasons in recorded.get("refused", {}).items()
    }


def _value(record: object) -> bytes:
    """A record's bytes: objects as JSON, exact for `Decimal`; text as it is."""
    return record.encode("utf-8", "surrogatepass") if isinstance(record, str) else _encoder.encode(record)


def _arrival(record: _Record) -> tuple[int, int, int]:
    return record.append_ms, record.partition, record.offset
