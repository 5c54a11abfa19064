"""The oracle's input: a recorded stream as rows in arrival order, and the rule log folded up to any point.

Like the rest of `oracle`, this module is written from the specification alone.
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
from fraud_rules.model.value_list import ListChange, ListOperation, ListType
from tests.support.oracle.arithmetic import Value
from tests.support.oracle.filters import parse_when
from tests.support.oracle.texts import text_of

LONG_AGO_MS = -(10**18)
FLOOR_MS = 946_684_800_000  # 2000-01-01T00:00:00Z
TOLERANCE_MS = 300_000

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

    Parsing sets `values`. Evaluation sets `rules_seen`, the number of rule records that apply to the transaction.
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
    """The rule records. A rule's time is the running maximum by offset. A rejected record has used its version.

    A record has also used its version if a recorded batch refused it, for its state budget or its append time. Then its
    append time is in no rule time.
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
        if len(log) not in refused:
            time_ms = max(time_ms, step["at"])
        record = step["rule"] if isinstance(step["rule"], str) else json.dumps(step["rule"])
        try:
            change = parse_rule_record(record.encode(), schema, RuleLimits())
            reasons = refused.get(len(log), []) + lists_against(change, fold(log), schema)
            log.append(LogEntry(len(log), time_ms, None if reasons else change, reasons))
        except RuleRejected as rejection:
            reasons = [*(str(reason) for reason in rejection.reasons), *refused.get(len(log), [])]
            log.append(LogEntry(len(log), time_ms, None, reasons))
    return log


@dataclass(frozen=True)
class WarmUp:
    """A warm-up that joined the state: the version of its rule record, and the ends of the transactions read."""

    version: int
    ends: Mapping[int, int]
    pin: int


@dataclass
class Batch:
    """One batch: the warm-ups that join the state at its start, and its rows in arrival order."""

    warm_ups: list[WarmUp]
    rows: list[Row]


def arrivals(document: Document, rules_end: int) -> Iterator[Row]:
    """Every transaction in arrival order: batches in turn, inside a batch by (append time, partition, offset)."""
    for batch in batches(document, rules_end):
        yield from batch.rows


def batches(document: Document, rules_end: int) -> Iterator[Batch]:
    """The batches in turn."""
    by_partition = _logs(document, rules_end)
    recorded = [*document.get("batches", []), {}]
    arrival = 0
    for members, cut in zip(recorded, _cut(document, by_partition), strict=True):
        warm_ups = [
            WarmUp(each["version"], {int(at): end for at, end in each["ends"].items()}, members["pin"])
            for each in members.get("warmUps", [])
        ]
        rows = sorted(cut, key=lambda row: (row.append_ms, row.partition, row.offset))
        for row in rows:
            row.arrival, arrival = arrival, arrival + 1
        yield Batch(warm_ups, rows)


def records(document: Document) -> list[Row]:
    """Every transaction record by (append time, partition, offset)."""
    rows = [row for log in _logs(document, 0).values() for row in log]
    return sorted(rows, key=lambda row: (row.append_ms, row.partition, row.offset))


def _logs(document: Document, rules_end: int) -> dict[int, list[Row]]:
    by_partition: dict[int, list[Row]] = {}
    for step in document["steps"]:
        if "tx" in step:
            rows = by_partition.setdefault(step.get("partition", 0), [])
            rows.append(Row(step["at"], step.get("partition", 0), len(rows), rules_end, step["tx"]))
    return by_partition


def _cut(document: Document, by_partition: Mapping[int, list[Row]]) -> Iterator[list[Row]]:
    """The recorded batches. Unread records form one more batch, which sees the whole rule log."""
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
    tx: Mapping[str, Any], append_ms: int, schema: TransactionSchema, settings: Document
) -> dict[str, Value] | None:
    """Decode the declared fields as exact Python values; None for a record that goes to quarantine. `settings` are
    those of the recording."""
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
    first_ms = settings.get("eventTimeFloorMs", FLOOR_MS)
    last_ms = append_ms + settings.get("futureToleranceMs", TOLERANCE_MS)
    return values if isinstance(event_ms, int) and first_ms <= event_ms <= last_ms else None


def _value(raw: Any, declared: Field) -> Value:
    match declared.type:
        case FieldType.STRING:
            return text_of(str(raw), declared)
        case FieldType.LONG:
            return int(raw)
        case FieldType.BOOLEAN:
            if not isinstance(raw, bool):
                raise ValueError(f"{raw} is not a boolean")  # noqa: TRY004 - as for other values that do not fit  # noqa: TRY004 - as for other values that do not fit
            return raw
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
    """The amount in units of its last decimal place. Raises ValueError if it exceeds the declared digits."""
    numerator, denominator = amount.as_integer_ratio()
    whole, rest = divmod(numerator * int(10**declared.scale), denominator)
    if rest or abs(whole) >= 10**declared.precision:
        raise ValueError(f"{amount} does not fit decimal({declared.precision},{declared.scale})")
    return whole


# The rule log, folded


@dataclass(frozen=True)
class ActiveRule:
    """A rule in force. `incarnation` is the version that added the rule or moved it to its grouping."""

    rule: Rule
    version: int
    incarnation: int


@dataclass(frozen=True)
class Boundary:
    """The start of a grouping, or a clear. Later rows do not count rows that arrived before `time_ms`."""

    version: int
    time_ms: int


@dataclass(frozen=True)
class FoldedList:
    """A list: `version` is that of the last accepted record, which may have left the values the same."""

    type: ListType
    version: int
    values: frozenset[int | str]


@dataclass
class FoldedRules:
    """The rules and lists in force after a number of records. `starts` also keeps the starts of ended groupings."""

    rules: dict[int, ActiveRule] = field(default_factory=dict)
    lists: dict[str, FoldedList] = field(default_factory=dict)
    starts: dict[Grouping, list[Boundary]] = field(default_factory=dict)
    clears: list[Boundary] = field(default_factory=list)

    @property
    def groupings(self) -> set[Grouping]:
        return {in_force.rule.grouping for in_force in self.rules.values()}

    def of(self, grouping: Grouping) -> list[ActiveRule]:
        """The rules that use the grouping, by rule id."""
        return [self.rules[rule_id] for rule_id in sorted(self.rules) if self.rules[rule_id].rule.grouping == grouping]

    def boundaries(self, grouping: Grouping) -> list[Boundary]:
        return self.starts.get(grouping, []) + self.clears

    def incarnation(self, grouping: Grouping) -> int:
        """The version that last started the grouping."""
        return self.starts[grouping][-1].version

    def epoch(self, grouping: Grouping) -> int:
        """The version of the last boundary: the grouping's start, or a later clear."""
        return max(boundary.version for boundary in self.boundaries(grouping))


def fold(log: Sequence[LogEntry]) -> FoldedRules:
    """Fold the records. A grouping ends when its last rule moves to another grouping."""
    folded = FoldedRules()
    for entry in log:
        here = Boundary(entry.version, entry.time_ms)
        match entry.change:
            case Rule() as rule:
                known = folded.rules.pop(rule.rule_id, None)
                stays = known is not None and known.rule.grouping == rule.grouping
                if not stays and rule.grouping not in folded.groupings:
                    folded.starts.setdefault(rule.grouping, []).append(here)
                incarnation = known.incarnation if known is not None and stays else entry.version
                folded.rules[rule.rule_id] = ActiveRule(rule, entry.version, incarnation)
            case RuleDeletion(rule_id):
                folded.rules.pop(rule_id, None)
            case ListChange() as change:
                _apply_to_lists(folded.lists, entry.version, change)
            case Control(ControlType.DELETE_RULES_ALL):
                folded.rules.clear()
            case Control(ControlType.CLEAR_STATE_ALL | ControlType.CLEAR_STATE_ALL_STOP):
                folded.clears.append(here)
    return folded


# Lists


def lists_against(change: RuleChange | None, folded: FoldedRules, schema: TransactionSchema) -> list[str]:
    """The reasons why the log before a record speaks against it: lists that are missing, in use, or of another type."""
    match change:
        case Rule() as rule:
            return [
                f"when: {name}"
                for name, needed in lists_of(rule, schema).items()
                if name not in folded.lists or folded.lists[name].type.value != needed.value
            ]
        case ListChange(name, operation, given):
            known = folded.lists.get(name)
            used = any(name in lists_of(each.rule, schema) for each in folded.rules.values())
            if operation is ListOperation.SET:
                values = frozenset(change.values())
                fits = len(values) <= RuleLimits().max_list_values and (
                    len(folded.lists) < RuleLimits().max_lists if known is None else not used or known.type is given
                )
            elif known is None or (given is not None and given is not known.type):
                fits = False
            elif operation is ListOperation.ADD:
                fits = len(known.values.union(change.values())) <= RuleLimits().max_list_values
            else:
                fits = operation is ListOperation.REMOVE or not used
            return [] if fits else [f"listName: {name}"]
    return []


def lists_of(rule: Rule, schema: TransactionSchema) -> Mapping[str, FieldType]:
    """The lists that the rule's record names."""
    text = rule.document.get("when")
    return parse_when(str(text), schema)[1] if text is not None else {}


def _apply_to_lists(lists: dict[str, FoldedList], version: int, change: ListChange) -> None:
    values = frozenset(change.values())
    known = lists.pop(change.name, None)
    match change.operation:
        case ListOperation.SET:
            assert change.type is not None
            lists[change.name] = FoldedList(change.type, version, values)
        case ListOperation.ADD | ListOperation.REMOVE:
            assert known is not None
            adds = change.operation is ListOperation.ADD
            lists[change.name] = FoldedList(
                known.type, version, known.values | values if adds else known.values - values
            )
