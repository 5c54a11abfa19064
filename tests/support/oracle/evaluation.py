"""The correct answer to a recorded stream, computed by brute force.

The oracle is written from the specification alone. It keeps every accepted transaction, scans all of them for each new
one, and adds fractions. It also keeps every epoch, while the engine keeps a superseded epoch for ten minutes of append
time, for partitions that lag behind. It shares with the product the parser of rule records, for the members of the
first two editions only, and no code that filters, hashes, windows, orders, retains, aggregates or folds the rule log.

These docstrings record the decisions that the specification leaves open: `_Evaluator._alerts_of`, `_Marks`,
`_visits_of`, `_outcomes`, `stream._cut`, `rules.reading.own_digits`, and those of `retention` and `series`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.arithmetic import Value
from tests.support.oracle.decisions import decision
from tests.support.oracle.judging import Outcome, Outcomes, Scene, judge
from tests.support.oracle.retention import Key, Place, Retention
from tests.support.oracle.rules.entities import entities_of
from tests.support.oracle.rules.log import ActiveRule, FoldedRules, LogEntry, read_rule_log
from tests.support.oracle.stream import LONG_AGO_MS, ROLE, Document, Grouping, Row, batches, parse, records

MINUTE_MS = 60_000

AnyRetention = TypeVar("AnyRetention", bound=Retention)


def evaluate(document: Document, schema: TransactionSchema) -> dict[str, list[Any]]:
    """The answer to a recorded stream: alerts, decisions, rejected rules; late, quarantine and duplicates by id.

    The document is that of `fraud streams replay`: `steps` in append order, and optionally `keyGroups`, `batches`
    (offsets are exclusive ends by partition, the pin is the number of rule records the batch sees) and `settings`.
    """
    settings = document.get("settings", {})
    log = read_rule_log(document, schema)
    court = _Evaluator(log, retention_of(document, schema, log, Retention))
    quarantine: list[Value] = []
    for batch in batches(document, len(log)):
        for warm_up in batch.warm_ups:
            court.retention.add_history(
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


def retention_of(
    document: Document, schema: TransactionSchema, log: Sequence[LogEntry], kind: type[AnyRetention]
) -> AnyRetention:
    """The retention with the settings of a recorded stream, without rows."""
    settings = document.get("settings", {})
    return kind(
        schema,
        entities_of(document, schema),
        log,
        document.get("keyGroups", 1),
        settings.get("maxOutOfOrdernessMs", 5 * MINUTE_MS),
    )


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


@dataclass
class _Visit:
    """A transaction in one grouping: the verdict, and if it was evaluated, its scene and the outcomes by rule id."""

    verdict: str
    scene: Scene | None = None
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    @property
    def is_judged(self) -> bool:
        """Whether the transaction is neither late nor a duplicate."""
        return self.verdict in ("evaluated", "null key")


Visits: TypeAlias = dict[Grouping, list[_Visit]]
"""The visits of one transaction: in a grouping by an entity one for each row, in order of arrival."""


class _Evaluator:
    """Evaluates transactions in arrival order and keeps all of them."""

    def __init__(self, log: Sequence[LogEntry], retention: Retention) -> None:
        self.alerts: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.late: list[Value] = []
        self.duplicates: list[Value] = []
        self.conflicting_duplicates: list[Value] = []
        self.null_keys: list[Value] = []
        self.retention = retention
        self._log = log
        self._marks: dict[tuple[int, Key, int], _Marks] = {}

    def accept_everywhere(self, row: Row) -> None:
        """Evaluate a transaction in every grouping in force: alerts by rule id, late and duplicates once each."""
        row.rules_seen = sum(entry.time_ms <= row.append_ms for entry in self._log[: row.pin])
        folded = self.retention.standings[row.rules_seen]
        alerts: list[dict[str, Any]] = []
        visits: Visits = {}
        for grouping in sorted(folded.groupings):
            rows = self.retention.rows_in(row, grouping)
            visits[grouping] = [self.visit(each, grouping, folded, alerts) for each in rows] or [_Visit("null key")]
        for rule_id in sorted(folded.rules):
            alerts += self._alerts_of_naming(folded.rules[rule_id], visits)
        verdicts = {visit.verdict for of_grouping in visits.values() for visit in of_grouping}
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

    def visit(self, row: Row, grouping: Grouping, folded: FoldedRules, alerts: list[dict[str, Any]]) -> _Visit:
        """Evaluate a transaction in one grouping: null key, duplicate, late, evaluation, then watermark and H."""
        key = tuple(row.values[name] for name in grouping)
        if None in key:
            return _Visit("null key")
        place = self.retention.place(grouping, key)
        bounds = self.retention.bounds(place, folded)
        retained = self.retention.retained(place, key, row, bounds)
        first = next((x for x in retained if x.identity == row.identity), None)
        if first is not None:
            return _Visit("duplicate" if first.values == row.values else "conflicting duplicate")
        self.retention.begin_series(place, folded)
        visit = _Visit("late" if row.event_ms < bounds.watermark_ms else "evaluated")
        self.retention.add(place, key, row, folded)
        if visit.verdict == "evaluated":
            visit.scene = self._scene(row, key, place, folded, retained)
            for in_force in folded.of(grouping):
                if not in_force.rule.named:
                    alerts += self._alerts_of(in_force, visit.scene, {}, visit.outcomes)
        self.retention.advance(bounds, row, max(in_force.rule.reach_ms for in_force in folded.of(grouping)))
        self.retention.advance_series(place, folded)
        return visit

    def _scene(self, row: Row, key: Key, place: Place, folded: FoldedRules, retained: Sequence[Row]) -> Scene:
        """A transaction among the retained rows of its key and those of the series."""
        retention = self.retention
        h_ms = retention.bounds(place, folded).retained_from_ms
        series = {
            in_force.rule.rule_id: Scene(
                row,
                key,
                retention.series_rows(place, key, row, in_force, h_ms),
                retention.series_start_ms(place, in_force, folded),
                folded,
            )
            for in_force in folded.of(place[1])
            if in_force.rule.long_window is not None
        }
        return Scene(row, key, [*retained, row], retention.history_start_ms(place, folded), folded, series)

    def _alerts_of_naming(self, in_force: ActiveRule, visits: Visits) -> Iterator[dict[str, Any]]:
        """The alerts of a rule that names rules, if neither its grouping nor theirs has the payment late or twice."""
        rule = in_force.rule
        for visit in visits[rule.grouping] if rule.named else []:
            if visit.scene is not None:
                rules = visit.scene.folded.rules
                others = {rule_id: _visits_of(rules[rule_id], visit, in_force, visits) for rule_id in rule.named}
                if all(other.is_judged for of_rule in others.values() for other in of_rule):
                    outcomes = _outcomes(others)
                    yield from self._alerts_of(in_force, visit.scene, outcomes, visit.outcomes)

    def _alerts_of(
        self, in_force: ActiveRule, scene: Scene, others: Outcomes, outcomes: dict[int, Outcome]
    ) -> Iterator[dict[str, Any]]:
        """The alert of one rule, if its outcome holds and no cool-down suppresses it. Adds to `outcomes`.

        Marks and cool-downs belong to the rule's incarnation, the key and the epoch. A clear, a delete and a change of
        the grouping discard them.
        """
        rule, e = in_force.rule, scene.e
        marks_of = (in_force.incarnation, scene.key, scene.folded.epoch(rule.grouping))
        marks = self._marks.setdefault(marks_of, _Marks())
        outcome = judge(in_force, scene, marks.reset_arrival, others)
        if outcome is None:
            return
        outcomes[rule.rule_id] = outcome
        if not outcome.holds or rule.state == "SIGNAL":
            return
        if rule.cooldown_ms is not None and e.event_ms < marks.cool_from_ms + rule.cooldown_ms:
            marks.suppressed += 1
            return
        yield _alert(in_force, scene, outcome, marks.suppressed)
        marks.suppressed = 0
        marks.cool_from_ms = max(marks.cool_from_ms, e.event_ms)
        if rule.aggregate is not None and rule.aggregate.aggregate_function is AggregateFunction.COUNT_WITH_RESET:
            marks.reset_arrival = e.arrival


def _visits_of(named: ActiveRule, visit: _Visit, naming: ActiveRule, visits: Visits) -> list[_Visit]:
    """The visits that decide the outcome of a named rule: in the same grouping that of the same row, elsewhere all."""
    return [visit] if named.rule.grouping == naming.rule.grouping else visits[named.rule.grouping]


def _outcomes(others: Mapping[int, Sequence[_Visit]]) -> dict[int, Outcome]:
    """The outcome of each named rule: that of the first row for which it holds, else of the first that it evaluated."""
    found: dict[int, Outcome] = {}
    for rule_id, visits in others.items():
        outcomes = [visit.outcomes[rule_id] for visit in visits if rule_id in visit.outcomes]
        if outcomes:
            found[rule_id] = next((each for each in outcomes if each.holds), outcomes[0])
    return found


def _alert(in_force: ActiveRule, scene: Scene, outcome: Outcome, suppressed: int) -> dict[str, Any]:
    role = scene.e.values.get(ROLE)
    return {
        **outcome.members,
        **({} if role is None else {"role": role}),
        "ruleId": in_force.rule.rule_id,
        "ruleVersion": in_force.version,
        "shadow": in_force.rule.state == "SHADOW",
        "key": dict(zip(in_force.rule.grouping, scene.key, strict=True)),
        "transactionId": scene.e.id,
        "triggeringValue": outcome.value,
        "windowStart": outcome.window_start_ms,
        "windowEnd": scene.e.event_ms,
        "windowCount": outcome.count,
        "windowComplete": outcome.is_complete,
        "suppressed": suppressed,
    }
