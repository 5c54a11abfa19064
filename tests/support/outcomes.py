"""What the oracle says about each rule and payment of a recorded stream: the reason for an alert, or for none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.evaluation import _Evaluator, _Visit, retention_of
from tests.support.oracle.judging import Outcome, Scene
from tests.support.oracle.retention import Retention
from tests.support.oracle.rules.log import ActiveRule, LogEntry, read_rule_log
from tests.support.oracle.rules.rollout import is_in_rollout
from tests.support.oracle.stream import ROLE, Document, Row, batches, parse


@dataclass(frozen=True)
class ExpectedAnswer:
    """The outcome of a rule for a row of a payment, by the name of a member of `PaymentOutcome`."""

    partition: int
    offset: int
    rule_id: int
    role: str | None
    outcome: str
    value: str | None
    count: int | None


class _Observed(_Evaluator):
    """An oracle that keeps what it finds out about a payment."""

    def __init__(self, log: Sequence[LogEntry], retention: Retention) -> None:
        super().__init__(log, retention)
        self.verdicts: dict[tuple[Any, Any], str] = {}
        self.judged: dict[tuple[int, Any], tuple[Outcome | None, bool]] = {}

    def visit(self, row: Row, grouping: Any, folded: Any, alerts: Any) -> _Visit:
        found = super().visit(row, grouping, folded, alerts)
        self.verdicts[grouping, row.values.get(ROLE)] = found.verdict
        return found

    def _alerts_of(self, in_force: ActiveRule, scene: Scene, others: Any, outcomes: Any) -> Iterator[dict[str, Any]]:
        written = list(super()._alerts_of(in_force, scene, others, outcomes))
        outcome = outcomes.get(in_force.rule.rule_id)
        is_in = is_in_rollout(in_force.rule.rule_id, scene.key, in_force.rule.rollout_percent)
        self.judged[in_force.rule.rule_id, scene.e.values.get(ROLE)] = outcome, bool(written)
        self.rollouts[in_force.rule.rule_id, scene.e.values.get(ROLE)] = is_in
        yield from written

    def expected(self, row: Row) -> Iterator[ExpectedAnswer]:
        """Evaluate a row, and yield the answers for the rules in force and those that are not."""
        self.verdicts, self.judged, self.rollouts = {}, {}, dict[tuple[int, Any], bool]()
        self.accept_everywhere(row)
        folded = self.retention.standings[row.rules_seen]
        for rule_id in range(1, 6):
            in_force = folded.rules.get(rule_id)
            if in_force is None:
                yield ExpectedAnswer(row.partition, row.offset, rule_id, None, "NOT_LIVE", None, None)
                continue
            rows = [each for each in self.verdicts if each[0] == in_force.rule.grouping]
            if all(self.verdicts[each] == "null key" for each in rows):
                yield ExpectedAnswer(row.partition, row.offset, rule_id, None, "NULL_KEY", None, None)
            for grouping, role in rows:
                if self.verdicts[grouping, role] != "null key":
                    name, outcome = self._named(in_force, role)
                    shown = (None, None) if outcome is None else (outcome.value, outcome.count)
                    yield ExpectedAnswer(row.partition, row.offset, rule_id, role, name, *shown)

    def _named(self, in_force: ActiveRule, role: str | None) -> tuple[str, Outcome | None]:
        rule = in_force.rule
        if rule.state == "PAUSE":
            return "PAUSED", None
        groupings = {rule.grouping, *(g for g, _ in self.verdicts if g in self._groupings_of(rule.named))}
        found = [verdict for (g, of_role), verdict in self.verdicts.items()
                 if g in groupings and (g != rule.grouping or of_role == role)]  # fmt: skip
        for verdict, name in (("duplicate", "DUPLICATE"), ("conflicting duplicate", "DUPLICATE"), ("late", "LATE")):
            if verdict in found:
                return name, None
        outcome, is_written = self.judged.get((rule.rule_id, role), (None, False))
        if outcome is None:
            return ("NOT_SELECTED" if self.rollouts.get((rule.rule_id, role), True) else "ROLLOUT"), None
        if not outcome.holds:
            return "NOT_HOLDING", outcome
        if rule.state == "SIGNAL":
            return "SIGNAL", outcome
        if not is_written:
            return "COOLING", outcome
        return ("SHADOW" if rule.state == "SHADOW" else "ALERT"), outcome

    def _groupings_of(self, rule_ids: Sequence[int]) -> set[Any]:
        return {each.rule.grouping for each in self._in_force.values() if each.rule.rule_id in rule_ids}

    @property
    def _in_force(self) -> Mapping[int, ActiveRule]:
        return self.folded_rules

    folded_rules: Mapping[int, ActiveRule] = {}


def expected_answers(document: Document, schema: TransactionSchema) -> Iterator[ExpectedAnswer]:
    """The answers for all readable payments of a document without warm-ups."""
    log, settings = read_rule_log(document, schema), document.get("settings", {})
    oracle = _Observed(log, retention_of(document, schema, log, Retention))
    for batch in batches(document, len(log)):
        for row in batch.rows:
            values = parse(row.tx, row.append_ms, schema, settings)
            if values is not None:
                row.values = values
                seen = sum(entry.time_ms <= row.append_ms for entry in log[: row.pin])
                oracle.folded_rules = oracle.retention.standings[seen].rules
                yield from oracle.expected(row)
