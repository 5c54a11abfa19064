"""What the oracle reads: a recorded stream as rows in arrival order, and the rule log folded up to any point.

Part of `oracle`, and like it written from the specification alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Control, ControlType, Rule, RuleChange, RuleDeletion
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from tests.support.oracle.arithmetic import Value

LONG_AGO_MS = -(10**18)

Document = Mapping[str, Any]
Grouping = tuple[str, ...]


@dataclass(frozen=True)
class LogEntry:
    version: int
    time_ms: int
    change: RuleChange | None
    reasons: list[str] = field(default_factory=list)


@dataclass
class Row:
    """One transaction record; `pin` is that of its batch.

    `values` are set once it parsed, `rules_seen` when it is judged: how many rule records are in force for it.
    """

    append_ms: int
    partition: int
    offset: int
    pin: int
    tx: Mapping[str, Any]
    arrival: int = -1
    rules_seen: int = 0
    values: Mapping[str, Value] = field(default_factory=dict)

    @property
    def id(self) -> Value:
        return self.values["transactionId"]

    @property
    def event_ms(self) -> int:
        return int(self.values["eventTime"] or 0)


def read_rule_log(document: Document, schema: TransactionSchema) -> list[LogEntry]:
    """The rule records; a rule's time is the running maximum by offset, a rejected one has used its version.

    So has one that a recorded batch says it refused, for the state it would have taken.
    """
    refused = {
        int(version): [f"{field_name}: {reason}" for field_name, reason in reasons]
        for batch in document.get("batches", [])
        for version, reasons in batch.get("refused", {}).items()
    }
    log: list[LogEntry] = []
    time_ms = LONG_AGO_MS
    for step in document["steps"]:
        if "rule" not in step:
            continue
        time_ms = max(time_ms, step["at"])
        record = step["rule"] if isinstance(step["rule"], str) else json.dumps(step["rule"])
        try:
            change = parse_rule_record(record.encode(), schema, RuleLimits())
            reasons = refused.get(len(log), [])
            log.append(LogEntry(len(log), time_ms, None if reasons else change, reasons))
        except RuleRejected as rejection:
            log.append(LogEntry(len(log), time_ms, None, [str(reason) for reason in rejection.reasons]))
    return log


def arrivals(document: Document, rules_end: int) -> Iterator[Row]:
    """Every transaction in arrival order: batches in turn, inside a batch by (append time, partition, offset)."""
    by_partition: dict[int, list[Row]] = {}
    for step in document["steps"]:
        if "tx" in step:
            rows = by_partition.setdefault(step.get("partition", 0), [])
            rows.append(Row(step["at"], step.get("partition", 0), len(rows), rules_end, step["tx"]))
    arrival = 0
    for batch in _cut(document, by_partition):
        for row in sorted(batch, key=lambda row: (row.append_ms, row.partition, row.offset)):
            row.arrival, arrival = arrival, arrival + 1
            yield row


def _cut(document: Document, by_partition: Mapping[int, list[Row]]) -> Iterator[list[Row]]:
    """The batches as recorded. What no recorded batch has read makes one more, which sees the whole rule log."""
    starts = dict.fromkeys(by_partition, 0)
    for recorded in document.get("batches", []):
        batch: list[Row] = []
        for partition, end in recorded["offsets"].get("transactions", {}).items():
            rows = by_partition.get(int(partition), [])[starts.get(int(partition), 0) : end]
            for row in rows:
                row.pin = recorded["pin"]
            batch += rows
            starts[int(partition)] = end
        yield batch
    yield [row for partition, rows in by_partition.items() for row in rows[starts[partition] :]]


def parse(
    tx: Mapping[str, Any], append_ms: int, schema: TransactionSchema, tolerance_ms: int
) -> dict[str, Value] | None:
    """The declared fields as exact Python values; None for a record that goes to quarantine."""
    values: dict[str, Value] = {}
    for declared in schema.fields:
        raw = next((tx[name] for name in (declared.name, *declared.aliases) if tx.get(name) is not None), None)
        try:
            values[declared.name] = None if raw is None else _value(raw, declared)
        except (ValueError, InvalidOperation):
            return None
        if raw is None and not declared.nullable:
            return None
    event_ms = values["eventTime"]
    return values if isinstance(event_ms, int) and event_ms <= append_ms + tolerance_ms else None


def _value(raw: Any, declared: Field) -> Value:
    match declared.type:
        case FieldType.STRING:
            return str(raw)
        case FieldType.LONG:
            return int(raw)
        case FieldType.TIMESTAMP:
            if isinstance(raw, int):
                return raw
            stamp = datetime.fromisoformat(raw)
            stamp = stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
            return int((stamp - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
        case FieldType.DECIMAL:
            amount = Decimal(str(raw))
            unscaled(amount, declared)
            return amount


def unscaled(amount: Decimal, declared: Field) -> int:
    """The amount in units of its last decimal place. Raises ValueError when it does not fit the declared digits."""
    numerator, denominator = amount.as_integer_ratio()
    whole, rest = divmod(numerator * int(10**declared.scale), denominator)
    if rest or abs(whole) >= 10**declared.precision:
        raise ValueError(f"{amount} does not fit decimal({declared.precision},{declared.scale})")
    return whole


# The rule log, folded


@dataclass(frozen=True)
class InForce:
    """`incarnation` is the version that added the rule or moved it to its grouping."""

    rule: Rule
    version: int
    incarnation: int


@dataclass(frozen=True)
class Boundary:
    """The start of a grouping, or a clear: nothing that arrived before `time_ms` counts for what arrived since."""

    version: int
    time_ms: int


@dataclass
class Standing:
    """What holds after a number of rule records. `starts` remembers groupings that have ended since."""

    rules: dict[int, InForce] = field(default_factory=dict)
    starts: dict[Grouping, list[Boundary]] = field(default_factory=dict)
    clears: list[Boundary] = field(default_factory=list)

    @property
    def groupings(self) -> set[Grouping]:
        return {in_force.rule.grouping for in_force in self.rules.values()}

    def of(self, grouping: Grouping) -> list[InForce]:
        """The rules that use the grouping, by rule id."""
        return [self.rules[rule_id] for rule_id in sorted(self.rules) if self.rules[rule_id].rule.grouping == grouping]

    def boundaries(self, grouping: Grouping) -> list[Boundary]:
        return self.starts.get(grouping, []) + self.clears

    def incarnation(self, grouping: Grouping) -> int:
        """The version that began the grouping for the last time."""
        return self.starts[grouping][-1].version

    def epoch(self, grouping: Grouping) -> int:
        """The version of the last boundary: the grouping's start, or a clear since."""
        return max(boundary.version for boundary in self.boundaries(grouping))


def fold(log: Sequence[LogEntry]) -> Standing:
    """What holds after these records. Moving the last rule of a grouping to another ends the first one."""
    standing = Standing()
    for entry in log:
        here = Boundary(entry.version, entry.time_ms)
        match entry.change:
            case Rule() as rule:
                known = standing.rules.pop(rule.rule_id, None)
                stays = known is not None and known.rule.grouping == rule.grouping
                if not stays and rule.grouping not in standing.groupings:
                    standing.starts.setdefault(rule.grouping, []).append(here)
                incarnation = known.incarnation if known is not None and stays else entry.version
                standing.rules[rule.rule_id] = InForce(rule, entry.version, incarnation)
            case RuleDeletion(rule_id):
                standing.rules.pop(rule_id, None)
            case Control(ControlType.DELETE_RULES_ALL):
                standing.rules.clear()
            case Control(ControlType.CLEAR_STATE_ALL | ControlType.CLEAR_STATE_ALL_STOP):
                standing.clears.append(here)
    return standing
