"""The correct answer to a recorded stream, computed by brute force.

The oracle is written from the specification alone. It keeps every accepted transaction, scans all of them for each new
one, and adds fractions. It also keeps every epoch, while the engine keeps a superseded epoch for ten minutes of append
time, for partitions that lag behind. It shares the parser of rule records with the product, and no code that filters,
hashes, windows, orders, retains, aggregates or folds the rule log.

These docstrings record the decisions that the specification leaves open:
`_Evaluator.connected`, `_Evaluator.accept`, `_Evaluator.evaluate`, `_Evaluator._begin_history`, `_RetainedRow`,
`_Marks`, `stream._cut`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.arithmetic import (
    Value,
    Values,
    baseline_text,
    compare_with_baseline,
    compare_with_limit,
    text_of_number,
)
from tests.support.oracle.decisions import decision
from tests.support.oracle.filters import Condition, Limit, is_expression, list_key, parse_limit, parse_when
from tests.support.oracle.key_groups import key_group
from tests.support.oracle.stream import (
    LONG_AGO_MS,
    Document,
    FoldedRules,
    Grouping,
    LogEntry,
    Row,
    WarmUp,
    batches,
    fold,
    lists_of,
    parse,
    read_rule_log,
    records,
    unscaled,
)

MINUTE_MS = 60_000

_Place = tuple[int, Grouping]  # a key group and a grouping


def evaluate(document: Document, schema: TransactionSchema) -> dict[str, list[Any]]:
    """The answer to a recorded stream: alerts, decisions, rejected rules; late, quarantine and duplicates by id.

    The document is that of `fraud streams replay`: `steps` in append order, and optionally `keyGroups`, `batches`
    (offsets are exclusive ends by partition, the pin is the number of rule records the batch sees) and `settings`.
    """
    settings = document.get("settings", {})
    log = read_rule_log(document, schema)
    court = _Evaluator(schema, log, document.get("keyGroups", 1), settings.get("maxOutOfOrdernessMs", 5 * MINUTE_MS))
    quarantine: list[Value] = []
    for batch in batches(document, len(log)):
        for warm_up in batch.warm_ups:
            court.add_history(
                warm_up, [(row, parse(row.tx, row.append_ms, schema, settings)) for row in records(document)]
            )
        for row in batch.rows:
            values = parse(row.tx, row.append_ms, schema, settings)
            if values is None:
                quarantine.append(row.tx.get("transactionId"))
            else:
                row.values = values
                court.accept_everywhere(row)
    rejected = [{"ruleVersion": entry.version, "reasons": entry.reasons} for entry in log if entry.change is None]
    return {
        "alerts": court.alerts,
        "decisions": court.decisions,
        "late": court.late,
        "quarantine": quarantine,
        "duplicates": court.duplicates,
        "conflictingDuplicates": court.conflicting_duplicates,
        "nullKeys": court.null_keys,
        "rejected": rejected,
    }


@dataclass
class _Bounds:
    """Watermark and retention bound (H) of one key group and one incarnation of a grouping: both survive a clear."""

    watermark_ms: int = LONG_AGO_MS
    retained_from_ms: int = LONG_AGO_MS


@dataclass(frozen=True)
class _RetainedRow:
    """An accepted row, and the bounds of the incarnation that accepted it.

    A row that this incarnation's H has dropped stays dropped. The evaluating incarnation has another H only if a pin
    hid from the row's batch that the grouping had ended and started again before the row was appended.
    """

    row: Row
    bounds: _Bounds

    @property
    def is_retained(self) -> bool:
        return self.row.event_ms >= self.bounds.retained_from_ms


@dataclass
class _History:
    """The past of one key group and grouping: its accepted rows in arrival order with their keys, also those that H has
    passed since."""

    rows: list[tuple[Row, tuple[Value, ...]]] = field(default_factory=list)
    bounds: _Bounds = field(default_factory=_Bounds)

    def accept(self, row: Row, key: tuple[Value, ...]) -> bool:
        """Accept a row that is neither a duplicate of a retained row nor below H. Returns whether it moves H."""
        from_ms = self.bounds.retained_from_ms
        if any(x.id == row.id and of_x == key and x.event_ms >= from_ms for x, of_x in self.rows):
            return False
        if row.event_ms >= from_ms:
            self.rows.append((row, key))
        return True


@dataclass
class _Marks:
    """The marks of alerts for one rule incarnation, key and epoch.

    An alert sets a COUNT_WITH_RESET mark while that is the rule's aggregate. The mark applies only while it is, so the
    mark survives an edit to another aggregate and back. `cool_from_ms` is the largest eventTime of an alert so far. A
    rule without a cool-down suppresses no alert, but its next alert counts those that an earlier cool-down suppressed.
    """

    reset_arrival: int = LONG_AGO_MS
    cool_from_ms: int = LONG_AGO_MS
    suppressed: int = 0


class _Evaluator:
    """Evaluates transactions in arrival order and keeps all of them."""

    def __init__(
        self, schema: TransactionSchema, log: Sequence[LogEntry], key_groups: int, max_out_of_orderness_ms: int
    ) -> None:
        self.alerts: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.late: list[Value] = []
        self.duplicates: list[Value] = []
        self.conflicting_duplicates: list[Value] = []
        self.null_keys: list[Value] = []
        self._schema = schema
        self._log = log
        self._key_groups = key_groups
        self._max_out_of_orderness_ms = max_out_of_orderness_ms
        self._standings = [fold(log[:count]) for count in range(len(log) + 1)]
        self._accepted: dict[_Place, list[_RetainedRow]] = {}
        self._of_key: dict[tuple[_Place, tuple[Value, ...]], list[_RetainedRow]] = {}
        self._history_starts: dict[tuple[_Place, int], int] = {}
        self._bounds: dict[tuple[_Place, int], _Bounds] = {}
        self._marks: dict[tuple[int, tuple[Value, ...], int], _Marks] = {}
        self._conditions: dict[str, Condition] = {}
        self._limits: dict[str, Limit] = {}

    def accept_everywhere(self, row: Row) -> None:
        """Evaluate a transaction in every grouping in force: alerts by rule id, late and duplicates once each."""
        row.rules_seen = sum(entry.time_ms <= row.append_ms for entry in self._log[: row.pin])
        folded = self._standings[row.rules_seen]
        verdicts: set[str] = set()
        alerts: list[dict[str, Any]] = []
        for grouping in sorted(folded.groupings):
            verdicts.add(self.accept(row, grouping, folded, alerts))
        self.alerts += sorted(alerts, key=lambda alert: int(alert["ruleId"]))
        decided = decision(row.id, row.event_ms, alerts, self._log)
        if decided is not None:
            self.decisions.append(decided)
        if "late" in verdicts:
            self.late.append(row.id)
        if verdicts & {"duplicate", "conflicting duplicate"}:
            self.duplicates.append(row.id)
        if "conflicting duplicate" in verdicts:
            self.conflicting_duplicates.append(row.id)
        if "null key" in verdicts:
            self.null_keys.append(row.id)

    def accept(self, row: Row, grouping: Grouping, folded: FoldedRules, alerts: list[dict[str, Any]]) -> str:
        """Evaluate a transaction in one grouping: null key, duplicate, late, evaluation, then watermark and H.

        A late row below H is not retained. No window counts it, and a later delivery of it is no duplicate.
        """
        key = tuple(row.values[name] for name in grouping)
        if None in key:
            return "null key"
        place = (self._key_group(grouping, key), grouping)
        epoch = folded.epoch(grouping)
        bounds = self._bounds.setdefault((place, folded.incarnation(grouping)), _Bounds())
        accepted = self._accepted.setdefault(place, [])
        of_key = self._of_key.setdefault((place, key), [])
        retained = [
            kept.row
            for kept in of_key
            if kept.row.event_ms >= max(bounds.retained_from_ms, kept.bounds.retained_from_ms)
            and self.connected(kept.row, row, grouping)
        ]
        first = next((x for x in retained if x.id == row.id), None)
        if first is not None:
            return "duplicate" if first.values == row.values else "conflicting duplicate"
        late = row.event_ms < bounds.watermark_ms
        if row.event_ms >= bounds.retained_from_ms:
            accepted.append(_RetainedRow(row, bounds))
            of_key.append(accepted[-1])
            if (place, epoch) not in self._history_starts:
                self._begin_history(accepted, row, (place, epoch))
        if not late:
            start_ms = max(self._history_starts[place, epoch], bounds.retained_from_ms)
            alerts += self.evaluate(row, [*retained, row], folded, grouping, start_ms)
        self._advance(bounds, row, max(_reach_ms(in_force.rule) for in_force in folded.of(grouping)))
        return "late" if late else "evaluated"

    def connected(self, x: Row, e: Row, grouping: Grouping) -> bool:
        """Check that no boundary of the grouping lies between the append times of two accepted rows.

        A boundary counts if either row saw it, by its own append time and its own batch's pin: a row of a slow
        partition may arrive after rows with a later append time, and a pin may hide a clear from the rows after it.
        Rules precede transactions at equal times, so a row with the same millisecond as a boundary is after it. Rows
        count only in groupings that accepted them, that is, groupings in force for them.
        """
        first, last = sorted((x.append_ms, e.append_ms))
        boundaries = self._standings[max(x.rules_seen, e.rules_seen)].boundaries(grouping)
        return not any(first < boundary.time_ms <= last for boundary in boundaries)

    def add_history(self, warm_up: WarmUp, rows: Sequence[tuple[Row, Mapping[str, Value] | None]]) -> None:
        """Add the accepted transactions from before a rule record that requests a warm-up, as its grouping would hold
        them had it existed with the reach at the record all along. A clear or the end of the grouping makes it void.

        A transaction that the grouping has is not added. The retention bound becomes that of the grouping's reach, but
        does not bring back rows that were below it. The history begins where the added one does.
        """
        entry, folded = self._log[warm_up.version], self._standings[warm_up.pin]
        rule = entry.change
        if warm_up.version >= warm_up.pin or not isinstance(rule, Rule) or not rule.document.get("warmUp"):
            return
        grouping = rule.grouping
        if grouping not in folded.groupings or folded.epoch(grouping) > warm_up.version:
            return
        asked = self._standings[warm_up.version + 1]
        reach_ms = max(_reach_ms(each.rule) for each in asked.of(grouping))
        since_ms = max((clear.time_ms for clear in asked.clears), default=LONG_AGO_MS)
        histories: dict[_Place, _History] = {}
        for row, values in rows:
            if values is None or row.offset >= warm_up.ends.get(row.partition, 0):
                continue
            if not since_ms <= row.append_ms < entry.time_ms:
                continue
            row.values = values
            key = tuple(values[name] for name in grouping)
            if None not in key:
                place = (self._key_group(grouping, key), grouping)
                history = histories.setdefault(place, _History())
                if history.accept(row, key):
                    self._advance(history.bounds, row, reach_ms)
        for number in range(self._key_groups):
            place = (number, grouping)
            self._merge(place, histories.get(place, _History()), folded)

    def _merge(self, place: _Place, history: _History, folded: FoldedRules) -> None:
        grouping = place[1]
        widest_ms = max(_reach_ms(each.rule) for each in folded.of(grouping))
        epoch = folded.epoch(grouping)
        bounds = self._bounds.setdefault((place, folded.incarnation(grouping)), _Bounds())
        boundary_ms = max(each.time_ms for each in folded.boundaries(grouping) if each.version == epoch)
        accepted = self._accepted.setdefault(place, [])
        old_ms = bounds.retained_from_ms
        accepted[:] = [kept for kept in accepted if kept.bounds is not bounds or kept.row.event_ms >= old_ms]
        for (at, _), of_key in self._of_key.items():
            if at == place:
                of_key[:] = [kept for kept in of_key if kept.bounds is not bounds or kept.row.event_ms >= old_ms]
        known = [kept for kept in accepted if kept.row.append_ms >= boundary_ms and kept.is_retained]
        if (place, epoch) not in self._history_starts and known:
            self._history_starts[place, epoch] = known[0].row.event_ms
        starts = [max(self._history_starts[place, epoch], old_ms)] if (place, epoch) in self._history_starts else []
        if history.rows:
            starts.append(max(history.rows[0][0].event_ms, history.bounds.retained_from_ms))
        if starts:
            self._history_starts[place, epoch] = min(starts)
        if bounds.watermark_ms != LONG_AGO_MS:
            bounds.retained_from_ms = min(old_ms, bounds.watermark_ms - widest_ms)
        from_ms = max(bounds.retained_from_ms, history.bounds.retained_from_ms)
        for row, key in history.rows:
            of_key = self._of_key.setdefault((place, key), [])
            known_ids = {kept.row.id for kept in of_key if kept.row.append_ms >= boundary_ms and kept.is_retained}
            if row.event_ms >= from_ms and row.id not in known_ids:
                # The row counts for the rows of this epoch, as if it had been appended at the epoch's beginning.
                row.append_ms, row.rules_seen = max(row.append_ms, boundary_ms), epoch + 1
                of_key.append(_RetainedRow(row, bounds))
                accepted.append(of_key[-1])

    def _begin_history(self, accepted: Sequence[_RetainedRow], row: Row, epoch: tuple[_Place, int]) -> None:
        """Set the eventTime at which the retained history of a key group starts, at the first row of an epoch.

        The history starts at the first row, by arrival, that is still retained and that no boundary separates from this
        row. This is the row itself, unless a pin hid the boundary from the batch of an earlier row.
        """
        grouping = epoch[0][1]
        self._history_starts[epoch] = next(
            kept.row.event_ms for kept in accepted if kept.is_retained and self.connected(kept.row, row, grouping)
        )

    def evaluate(
        self, e: Row, candidates: Sequence[Row], folded: FoldedRules, grouping: Grouping, history_start_ms: int
    ) -> Iterator[dict[str, Any]]:
        """The alerts of one transaction, by rule id.

        Marks and cool-downs belong to the rule's incarnation, the key and the epoch. A clear, a delete and a change of
        the grouping discard them.
        """
        key = {name: e.values[name] for name in grouping}
        for in_force in folded.of(grouping):
            rule = in_force.rule
            if not rule.evaluated or not self._is_evaluated(rule, e, folded):
                continue
            marks_of = (in_force.incarnation, tuple(key.values()), folded.epoch(grouping))
            marks = self._marks.setdefault(marks_of, _Marks())
            resets = rule.aggregate_function is AggregateFunction.COUNT_WITH_RESET
            start_ms = e.event_ms - rule.window_ms
            window = [
                x
                for x in candidates
                if start_ms <= x.event_ms <= e.event_ms
                and self._passes(rule, x)
                and not (resets and x.arrival <= marks.reset_arrival)
            ]
            before = self._baseline(rule, candidates, start_ms)
            limit = self._limit(rule, e)
            if limit is None:
                verdict = None
            elif before is None:
                verdict = compare_with_limit(rule, [x.values for x in window], limit)
            else:
                verdict = compare_with_baseline(rule, [x.values for x in window], before)
            if verdict is None or not verdict[0]:
                continue
            if rule.cooldown_ms is not None and e.event_ms < marks.cool_from_ms + rule.cooldown_ms:
                marks.suppressed += 1
                continue
            named = lists_of(rule, self._schema)
            alert: dict[str, Any] = {
                **({"lists": {name: folded.lists[name].version for name in sorted(named)}} if named else {}),
                "ruleId": rule.rule_id,
                "ruleVersion": in_force.version,
                "shadow": rule.shadow,
                "key": key,
                "transactionId": e.id,
                "triggeringValue": verdict[1],
                "windowStart": start_ms,
                "windowEnd": e.event_ms,
                "windowCount": len(window),
                "windowComplete": e.event_ms - _reach_ms(rule) >= history_start_ms,
                "suppressed": marks.suppressed,
            }
            if is_expression(rule.document["limit"]):
                assert limit is not None
                alert["limit"] = text_of_number(limit)
            if before is not None:
                alert["baseline"] = {
                    "value": baseline_text(rule, before),
                    "count": len(before),
                    "windowStart": e.event_ms - _reach_ms(rule),
                    "windowEnd": start_ms,
                }
            yield alert
            marks.suppressed = 0
            marks.cool_from_ms = max(marks.cool_from_ms, e.event_ms)
            if resets:
                marks.reset_arrival = e.arrival

    def _baseline(self, rule: Rule, candidates: Sequence[Row], end_ms: int) -> list[Values] | None:
        """The rows of the rule's baseline, which ends right before `end_ms`; None for a rule without a baseline."""
        if rule.baseline is None:
            return None
        document = rule.document["baseline"]
        assert isinstance(document, dict)
        text = document.get("filter", rule.document.get("filter")) or None
        since_ms = end_ms - rule.baseline.window_ms
        return [x.values for x in candidates if since_ms <= x.event_ms < end_ms and self._satisfies(text, x.values)]

    def _passes(self, rule: Rule, row: Row) -> bool:
        """Check whether the row satisfies the filter in the rule's record. Only true passes, not unknown."""
        return self._satisfies(rule.document.get("filter"), row.values)

    def _is_evaluated(self, rule: Rule, e: Row, folded: FoldedRules) -> bool:
        """Check whether the row satisfies `when`, or else the filter. Lists are as of the row's append time."""
        if "when" not in rule.document:
            return self._passes(rule, e)
        lists = {list_key(name): known.values for name, known in folded.lists.items()}
        return self._satisfies(rule.document["when"], {**e.values, **lists})

    def _limit(self, rule: Rule, e: Row) -> Fraction | None:
        """The limit for the evaluated row. With None the condition does not hold."""
        raw = rule.document["limit"]
        if str(raw) not in self._limits:
            self._limits[str(raw)] = parse_limit(raw, self._schema)
        return self._limits[str(raw)](e.values)

    def _satisfies(self, text: Any, values: Mapping[str, Any]) -> bool:
        """Check a row against a condition. An empty filter is none."""
        if text is None or not text.strip():
            return True
        if text not in self._conditions:
            self._conditions[text], _ = parse_when(text, self._schema)
        return self._conditions[text](values) is True

    def _advance(self, bounds: _Bounds, row: Row, widest_window_ms: int) -> None:
        """Advance watermark and H. A late row may advance only H, and only if the widest window shrank."""
        reached_ms = min(row.event_ms, row.append_ms) - self._max_out_of_orderness_ms
        bounds.watermark_ms = max(bounds.watermark_ms, reached_ms)
        bounds.retained_from_ms = max(bounds.retained_from_ms, bounds.watermark_ms - widest_window_ms)

    def _key_group(self, grouping: Grouping, key: Sequence[Value]) -> int:
        """The documented hash of the key."""
        hashed = [self._hashable(name, value) for name, value in zip(grouping, key, strict=True)]
        return key_group(grouping, hashed, self._key_groups) if self._key_groups > 1 else 0

    def _hashable(self, name: str, value: Value) -> int | str:
        declared = self._schema.field(name)
        assert value is not None and declared is not None
        return unscaled(value, declared) if isinstance(value, Decimal) else value


def _reach_ms(rule: Rule) -> int:
    return rule.window_ms + (rule.baseline.window_ms if rule.baseline is not None else 0)
