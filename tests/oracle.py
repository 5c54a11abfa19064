"""What the detector must answer, computed the slow and obvious way.

Written from the specification alone. It keeps every transaction it ever accepted, looks at all of them for each new one
and adds up fractions. It shares with the product the parsers of rules and filters and the documented hash of a key, and
nothing that windows, orders, retains, aggregates or folds the rule log.

Where the specification leaves something open, the decision stands in the docstring of the function that takes it:
`_Judge.connected`, `_Judge.take`, `_Judge.evaluate`, `_Judge.history_start`, `_Marks` and `_cut`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from fraud_rules.errors import RuleRejected
from fraud_rules.keygroup import key_group_of
from fraud_rules.limits import RuleLimits
from fraud_rules.rule import Aggregator, Control, ControlType, Rule, RuleChange, RuleDeletion
from fraud_rules.rule_codec import parse_rule_record
from fraud_rules.schema import Field, FieldType, TransactionSchema
from tests.oracle_arithmetic import Value, judge, passes

MINUTE_MS = 60_000
LONG_AGO_MS = -(10**18)

Document = Mapping[str, Any]
Grouping = tuple[str, ...]


def evaluate(document: Document, schema: TransactionSchema) -> dict[str, list[Any]]:
    """The answer to a recorded stream: alerts, late, quarantine and duplicates by transaction id, rejected rules.

    The document is that of `fraud replay`: `steps` in append order, and optionally `keyGroups`, `batches` (offsets are
    exclusive ends by partition, the pin is the number of rule records the batch sees) and `settings`.
    """
    settings = document.get("settings", {})
    log = _read_rule_log(document, schema)
    court = _Judge(schema, log, document.get("keyGroups", 1), settings.get("maxOutOfOrdernessMs", 5 * MINUTE_MS))
    quarantine: list[Value] = []
    for row in _arrivals(document, len(log)):
        values = _parse(row.tx, row.append_ms, schema, settings.get("futureToleranceMs", 5 * MINUTE_MS))
        if values is None:
            quarantine.append(row.tx.get("transactionId"))
        else:
            row.values = values
            court.take_everywhere(row)
    rejected = [{"ruleVersion": entry.version, "reasons": entry.reasons} for entry in log if entry.change is None]
    return {
        "alerts": court.alerts,
        "late": court.late,
        "quarantine": quarantine,
        "duplicates": court.duplicates,
        "rejected": rejected,
    }


# The two logs


@dataclass(frozen=True)
class _LogEntry:
    version: int
    time_ms: int
    change: RuleChange | None
    reasons: list[str] = field(default_factory=list)


@dataclass
class _Row:
    """One transaction record; `pin` is that of its batch, `values` are set once it parsed."""

    append_ms: int
    partition: int
    offset: int
    pin: int
    tx: Mapping[str, Any]
    arrival: int = -1
    values: Mapping[str, Value] = field(default_factory=dict)

    @property
    def id(self) -> Value:
        return self.values["transactionId"]

    @property
    def event_ms(self) -> int:
        return int(self.values["eventTime"] or 0)


def _read_rule_log(document: Document, schema: TransactionSchema) -> list[_LogEntry]:
    """The rule records; a rule's time is the running maximum by offset, a rejected one has used its version."""
    log: list[_LogEntry] = []
    time_ms = LONG_AGO_MS
    for step in document["steps"]:
        if "rule" not in step:
            continue
        time_ms = max(time_ms, step["at"])
        record = step["rule"] if isinstance(step["rule"], str) else json.dumps(step["rule"])
        try:
            log.append(_LogEntry(len(log), time_ms, parse_rule_record(record.encode(), schema, RuleLimits())))
        except RuleRejected as rejection:
            log.append(_LogEntry(len(log), time_ms, None, [str(reason) for reason in rejection.reasons]))
    return log


def _arrivals(document: Document, rules_end: int) -> Iterator[_Row]:
    """Every transaction in arrival order: batches in turn, inside a batch by (append time, partition, offset)."""
    by_partition: dict[int, list[_Row]] = {}
    for step in document["steps"]:
        if "tx" in step:
            rows = by_partition.setdefault(step.get("partition", 0), [])
            rows.append(_Row(step["at"], step.get("partition", 0), len(rows), rules_end, step["tx"]))
    arrival = 0
    for batch in _cut(document, by_partition):
        for row in sorted(batch, key=lambda row: (row.append_ms, row.partition, row.offset)):
            row.arrival, arrival = arrival, arrival + 1
            yield row


def _cut(document: Document, by_partition: Mapping[int, list[_Row]]) -> Iterator[list[_Row]]:
    """The batches as recorded. What no recorded batch has read makes one more, which sees the whole rule log."""
    starts = dict.fromkeys(by_partition, 0)
    for recorded in document.get("batches", []):
        batch: list[_Row] = []
        for partition, end in recorded["offsets"].get("transactions", {}).items():
            rows = by_partition.get(int(partition), [])[starts.get(int(partition), 0) : end]
            for row in rows:
                row.pin = recorded["pin"]
            batch += rows
            starts[int(partition)] = end
        yield batch
    yield [row for partition, rows in by_partition.items() for row in rows[starts[partition] :]]


def _parse(tx: Mapping[str, Any], append_ms: int, schema: TransactionSchema, tolerance_ms: int) -> dict[str, Value] | None:
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
            _unscaled(amount, declared)
            return amount


def _unscaled(amount: Decimal, declared: Field) -> int:
    """The amount in units of its last decimal place. Raises ValueError when it does not fit the declared digits."""
    numerator, denominator = amount.as_integer_ratio()
    unscaled, rest = divmod(numerator * 10**declared.scale, denominator)
    if rest or abs(unscaled) >= 10**declared.precision:
        raise ValueError(f"{amount} does not fit decimal({declared.precision},{declared.scale})")
    return unscaled


# The rule log, folded


@dataclass(frozen=True)
class _InForce:
    """`incarnation` is the version that added the rule or moved it to its grouping."""

    rule: Rule
    version: int
    incarnation: int


@dataclass(frozen=True)
class _Boundary:
    """The start of a grouping, or a clear: nothing that arrived before `time_ms` counts for what arrived since."""

    version: int
    time_ms: int


@dataclass
class _Standing:
    """What holds after a number of rule records. `starts` remembers groupings that have ended since."""

    rules: dict[int, _InForce] = field(default_factory=dict)
    starts: dict[Grouping, list[_Boundary]] = field(default_factory=dict)
    clears: list[_Boundary] = field(default_factory=list)

    @property
    def groupings(self) -> set[Grouping]:
        return {in_force.rule.grouping for in_force in self.rules.values()}

    def of(self, grouping: Grouping) -> list[_InForce]:
        """The rules that use the grouping, by rule id."""
        return [self.rules[rule_id] for rule_id in sorted(self.rules) if self.rules[rule_id].rule.grouping == grouping]

    def boundaries(self, grouping: Grouping) -> list[_Boundary]:
        return self.starts.get(grouping, []) + self.clears

    def incarnation(self, grouping: Grouping) -> int:
        """The version that began the grouping for the last time."""
        return self.starts[grouping][-1].version

    def epoch(self, grouping: Grouping) -> int:
        """The version of the last boundary: the grouping's start, or a clear since."""
        return max(boundary.version for boundary in self.boundaries(grouping))


def _fold(log: Sequence[_LogEntry]) -> _Standing:
    """What holds after these records. Moving the last rule of a grouping to another ends the first one."""
    standing = _Standing()
    for entry in log:
        here = _Boundary(entry.version, entry.time_ms)
        match entry.change:
            case Rule() as rule:
                known = standing.rules.pop(rule.rule_id, None)
                stays = known is not None and known.rule.grouping == rule.grouping
                if not stays and rule.grouping not in standing.groupings:
                    standing.starts.setdefault(rule.grouping, []).append(here)
                incarnation = known.incarnation if known is not None and stays else entry.version
                standing.rules[rule.rule_id] = _InForce(rule, entry.version, incarnation)
            case RuleDeletion(rule_id):
                standing.rules.pop(rule_id, None)
            case Control(ControlType.DELETE_RULES_ALL):
                standing.rules.clear()
            case Control(ControlType.CLEAR_STATE_ALL | ControlType.CLEAR_STATE_ALL_STOP):
                standing.clears.append(here)
    return standing


# The judgement


@dataclass
class _Bounds:
    """Watermark and retention bound (H) of one key group and one incarnation of a grouping: both survive a clear."""

    watermark_ms: int = LONG_AGO_MS
    retained_from_ms: int = LONG_AGO_MS


@dataclass
class _Marks:
    """What alerts leave behind for one rule incarnation, key and epoch.

    A COUNT_WITH_RESET mark is set by an alert written while the rule was COUNT_WITH_RESET and heeded while it is, so it
    outlives an edit to another aggregate and back. `cool_from_ms` is the largest eventTime alerted so far. A rule
    without a cool-down suppresses nothing, but its next alert tells what was suppressed while it had one.
    """

    reset_arrival: int = -1
    cool_from_ms: int = LONG_AGO_MS
    suppressed: int = 0


class _Judge:
    """Takes transactions in arrival order and remembers everything."""

    def __init__(
        self, schema: TransactionSchema, log: Sequence[_LogEntry], key_groups: int, max_out_of_orderness_ms: int
    ) -> None:
        self.alerts: list[dict[str, Any]] = []
        self.late: list[Value] = []
        self.duplicates: list[Value] = []
        self._schema = schema
        self._log = log
        self._key_groups = key_groups
        self._max_out_of_orderness_ms = max_out_of_orderness_ms
        self._standings = [_fold(log[:count]) for count in range(len(log) + 1)]
        self._accepted: dict[tuple[int, Grouping], list[_Row]] = {}
        self._bounds: dict[tuple[int, Grouping, int], _Bounds] = {}
        self._history_starts: dict[tuple[int, Grouping, int], int] = {}
        self._marks: dict[tuple[int, tuple[Value, ...], int], _Marks] = {}

    def take_everywhere(self, row: _Row) -> None:
        """Judge a transaction in every grouping in force for it; alerts by rule id, late and duplicate once a record."""
        in_force = sum(entry.time_ms <= row.append_ms for entry in self._log[: row.pin])
        standing = self._standings[in_force]
        verdicts: set[str] = set()
        alerts: list[dict[str, Any]] = []
        for grouping in sorted(standing.groupings):
            verdicts.add(self.take(row, grouping, standing, alerts))
        self.alerts += sorted(alerts, key=lambda alert: int(alert["ruleId"]))
        if "late" in verdicts:
            self.late.append(row.id)
        if "duplicate" in verdicts:
            self.duplicates.append(row.id)

    def take(self, row: _Row, grouping: Grouping, standing: _Standing, alerts: list[dict[str, Any]]) -> str:
        """Judge a transaction in one grouping: null key, duplicate, late, evaluation, then watermark and H.

        A late row below H is late but not kept: it can count in no window and makes no later delivery a duplicate.
        """
        key = tuple(row.values[name] for name in grouping)
        if None in key:
            return "null key"
        place = (self._key_group(grouping, key), grouping)
        bounds = self._bounds.setdefault((*place, standing.incarnation(grouping)), _Bounds())
        accepted = self._accepted.setdefault(place, [])
        retained = [
            x
            for x in accepted
            if tuple(x.values[name] for name in grouping) == key
            and x.event_ms >= bounds.retained_from_ms
            and self.connected(x, row, grouping)
        ]
        if any(x.id == row.id for x in retained):
            return "duplicate"
        late = row.event_ms < bounds.watermark_ms
        if row.event_ms >= bounds.retained_from_ms:
            accepted.append(row)
            self._history_starts.setdefault((*place, standing.epoch(grouping)), row.event_ms)
        if not late:
            start_ms = max(self.history_start(place, standing), bounds.retained_from_ms)
            alerts += self.evaluate(row, [*retained, row], standing, grouping, start_ms)
        self._advance(bounds, row, max(in_force.rule.window_ms for in_force in standing.of(grouping)))
        return "late" if late else "evaluated"

    def connected(self, x: _Row, e: _Row, grouping: Grouping) -> bool:
        """Whether no clear and no start of the grouping lies between the append times of two accepted rows.

        Boundaries are those the later row's batch sees, also when their time is past its own append time: a row of a
        slow partition may arrive after rows appended later. Rules come first at equal times, so a row appended in the
        very millisecond of a boundary is after it. Rows count only where they were accepted, that is, while the
        grouping existed for them under their own batch's pin.
        """
        first, last = sorted((x.append_ms, e.append_ms))
        boundaries = self._standings[e.pin].boundaries(grouping)
        return not any(first < boundary.time_ms <= last for boundary in boundaries)

    def history_start(self, place: tuple[int, Grouping], standing: _Standing) -> int:
        """The eventTime of the first transaction kept in this key group since the last boundary; a clear restarts it."""
        return self._history_starts[(*place, standing.epoch(place[1]))]

    def evaluate(
        self, e: _Row, candidates: Sequence[_Row], standing: _Standing, grouping: Grouping, history_start_ms: int
    ) -> Iterator[dict[str, Any]]:
        """The alerts of one transaction, by rule id.

        Marks and cool-downs belong to the rule's incarnation, the key and the epoch: a clear, a delete and another
        grouping forget them.
        """
        key = {name: e.values[name] for name in grouping}
        for in_force in standing.of(grouping):
            rule = in_force.rule
            if not rule.evaluated or not passes(rule.filter, e.values):
                continue
            marks_of = (in_force.incarnation, tuple(key.values()), standing.epoch(grouping))
            marks = self._marks.setdefault(marks_of, _Marks())
            resets = rule.aggregator is Aggregator.COUNT_WITH_RESET
            start_ms = e.event_ms - rule.window_ms
            window = [
                x
                for x in candidates
                if start_ms <= x.event_ms <= e.event_ms
                and passes(rule.filter, x.values)
                and not (resets and x.arrival <= marks.reset_arrival)
            ]
            verdict = judge(rule, [x.values for x in window])
            if verdict is None or not verdict[0]:
                continue
            if rule.cooldown_ms is not None and e.event_ms < marks.cool_from_ms + rule.cooldown_ms:
                marks.suppressed += 1
                continue
            yield {
                "ruleId": rule.rule_id,
                "ruleVersion": in_force.version,
                "shadow": rule.shadow,
                "key": key,
                "transactionId": e.id,
                "triggeringValue": verdict[1],
                "windowStart": start_ms,
                "windowEnd": e.event_ms,
                "windowCount": len(window),
                "windowComplete": start_ms >= history_start_ms,
                "suppressed": marks.suppressed,
            }
            marks.suppressed = 0
            marks.cool_from_ms = max(marks.cool_from_ms, e.event_ms)
            if resets:
                marks.reset_arrival = e.arrival

    def _advance(self, bounds: _Bounds, row: _Row, widest_window_ms: int) -> None:
        """Move watermark and H; a late row cannot move the first, but may move H where the widest window has shrunk."""
        reached_ms = min(row.event_ms, row.append_ms) - self._max_out_of_orderness_ms
        bounds.watermark_ms = max(bounds.watermark_ms, reached_ms)
        bounds.retained_from_ms = max(bounds.retained_from_ms, bounds.watermark_ms - widest_window_ms)

    def _key_group(self, grouping: Grouping, key: Sequence[Value]) -> int:
        """The documented hash of the key."""
        hashed = [self._hashable(name, value) for name, value in zip(grouping, key, strict=True)]
        return key_group_of(grouping, hashed, self._key_groups) if self._key_groups > 1 else 0

    def _hashable(self, name: str, value: Value) -> int | str:
        declared = self._schema.field(name)
        assert value is not None and declared is not None
        return _unscaled(value, declared) if isinstance(value, Decimal) else value
