"""Answers why a payment has no alert of a rule: the first check of the detector that it did not pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

import msgspec

from fraud_rules.batch.proof.builder import JudgedRow, PaymentLog, is_of_key, proof_of_row, rows_of
from fraud_rules.model.rule import RuleState
from fraud_rules.proof.plain.judging import judge, text_of
from fraud_rules.proof.reading import PaymentScene, cooling_alerts, read_scene

_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class PaymentOutcome(StrEnum):
    """What came of a rule for a payment. All but ALERT and SHADOW are reasons why there is no alert."""

    NOT_LIVE = "the rule was not in force"
    PAUSED = "the rule was paused"
    NULL_KEY = "a field of the grouping is null"
    DUPLICATE = "the payment is a second delivery"
    LATE = "the payment was late"
    ROLLOUT = "the key is outside the rollout"
    NOT_SELECTED = "the filter or `when` is not true"
    NO_VALUE = "the aggregate has no value"
    BELOW_LIMIT = "the aggregate does not meet the limit"
    CONDITIONS = "too few or too many conditions hold"
    SIGNAL = "the rule is a signal, which writes no alert"
    COOLING = "an earlier alert of the key began a cool-down"
    SHADOW = "the alert is a shadow alert"
    ALERT = "the rule holds, and writes an alert"


_OF_FAULT = {
    "rolloutPercent": PaymentOutcome.ROLLOUT,
    "filter": PaymentOutcome.NOT_SELECTED,
    "when": PaymentOutcome.NOT_SELECTED,
    "value": PaymentOutcome.NO_VALUE,
    "limit": PaymentOutcome.BELOW_LIMIT,
    "conditions": PaymentOutcome.CONDITIONS,
}
_HOLDING = (PaymentOutcome.ALERT, PaymentOutcome.SHADOW, PaymentOutcome.SIGNAL)


@dataclass(frozen=True, slots=True)
class PaymentAnswer:
    """The outcome of a rule for a row of a payment, with its value, limit and count if it was evaluated."""

    rule_id: int
    outcome: PaymentOutcome
    version: int | None = None
    role: str | None = None
    detail: str = ""
    value: str | None = None
    limit: str | None = None
    count: int | None = None
    scene: PaymentScene | None = None

    @property
    def was_evaluated(self) -> bool:
        """Whether the rule has a value for the row, or an outcome of its conditions."""
        return self.count is not None


def rules_in_force(log: PaymentLog, position: int) -> Sequence[int]:
    """The ids of the rules that were in force for a payment, ascending."""
    return sorted(log.rules_at(position, log.timeline(int(log.numbers[position]))).rules)


def answers_of(
    log: PaymentLog, position: int, rule_id: int, alerts: Sequence[bytes], from_ms: int | None = None
) -> list[PaymentAnswer]:
    """The outcome of a rule for each row of a payment: one, or one for each role of an entity.

    `alerts` has the alerts of the rule, live and shadow, from before the payment.
    """
    rows = rows_of(log, position, rule_id)
    if rows is None:
        return [PaymentAnswer(rule_id, PaymentOutcome.NOT_LIVE, detail=_next_version(log, position, rule_id))]
    return list(_answers(rows, log, position, rule_id, alerts, from_ms))


def _answers(
    rows: Sequence[JudgedRow],
    log: PaymentLog,
    position: int,
    rule_id: int,
    alerts: Sequence[bytes],
    from_ms: int | None,
) -> Iterator[PaymentAnswer]:
    if not rows:
        yield PaymentAnswer(rule_id, PaymentOutcome.NULL_KEY)
    for row in rows:
        rule = row.in_force.rule
        if rule.state is RuleState.PAUSE:
            yield PaymentAnswer(rule_id, PaymentOutcome.PAUSED, row.in_force.version, row.role)
            continue
        arrival = _arrival(row)
        named = dict[int, dict[str, Any]]()
        for other in rule.named_rules if arrival is None else ():
            arrival, named[other] = _of_named(log, position, other, row, from_ms)
            if arrival is not None:
                break
        if arrival is not None:
            yield PaymentAnswer(rule_id, arrival, row.in_force.version, row.role)
        else:
            yield _judged(row, log, named, alerts, from_ms)


def _arrival(row: JudgedRow) -> PaymentOutcome | None:
    """Why the row is not evaluated, if it is a second delivery or late."""
    if not row.trace.rows[-1].is_accepted:
        return PaymentOutcome.DUPLICATE
    return PaymentOutcome.LATE if row.trace.rows[-1].event_ms < row.trace.watermark_ms else None


def _of_named(
    log: PaymentLog, position: int, rule_id: int, naming: JudgedRow, from_ms: int | None
) -> tuple[PaymentOutcome | None, dict[str, Any]]:
    """The outcome of a rule that a condition names: why the payment is not evaluated, or the condition in an alert."""
    rows = rows_of(log, position, rule_id) or []
    if rows and rows[0].in_force.rule.grouping == naming.in_force.rule.grouping:
        rows = [row for row in rows if row.role == naming.role]
    shown: dict[str, Any] = {"ruleId": rule_id, "holds": False, "value": None, "count": None}
    arrivals = [each for each in map(_arrival, rows) if each is not None]
    if arrivals:
        return arrivals[0], shown
    answers = [
        _judged(row, log, {}, (), from_ms)
        for row in rows
        if row.in_force.rule.state is not RuleState.PAUSE
        and (naming.in_force.rule.shadow or not row.in_force.rule.shadow)
    ]
    evaluated = [each for each in answers if each.was_evaluated]
    holding = [each for each in evaluated if each.outcome in _HOLDING]
    for each in [*holding, *evaluated][:1]:
        shown |= {"holds": bool(holding), "value": each.value, "count": each.count}
    return None, shown


def _judged(
    row: JudgedRow,
    log: PaymentLog,
    named: Mapping[int, Mapping[str, Any]],
    alerts: Iterable[bytes],
    from_ms: int | None,
) -> PaymentAnswer:
    """The outcome of the plain evaluator, and what marks and the state of the rule make of it."""
    rule, version = row.in_force.rule, row.in_force.version
    earlier = [each for each in alerts if is_of_key(_decode(each), rule.rule_id, row.key)]
    scene = read_scene(proof_of_row(row, log, 0, b"{}", earlier, from_ms=from_ms), named)
    fault, measure, alert = judge(scene.rule, scene.plain)
    outcome, detail = _OF_FAULT.get(fault, PaymentOutcome.ALERT), fault if fault in ("filter", "when") else ""
    if not fault and rule.state is RuleState.SIGNAL:
        outcome = PaymentOutcome.SIGNAL
    elif not fault:
        cooling = cooling_alerts(scene)
        outcome = PaymentOutcome.COOLING if cooling else PaymentOutcome.SHADOW if rule.shadow else PaymentOutcome.ALERT
        detail = cooling[-1]["alertId"] if cooling else ""
    limit = None if measure is None or measure.limit is None else text_of(measure.limit)
    return PaymentAnswer(
        rule.rule_id, outcome, version, row.role, detail, alert.get("triggeringValue"), limit,
        None if measure is None else len(measure.rows), scene,
    )  # fmt: skip


def _next_version(log: PaymentLog, position: int, rule_id: int) -> str:
    """When the rule came into force after the payment, or that it had ended."""
    append_ms = int(log.decoded.append_ms[position])
    versions = log.versions_of(rule_id)
    later = [f"version {version} is of {time_ms}" for version, time_ms in versions if time_ms > append_ms]
    return later[0] if later else "its last record ended it" if versions else "no record has this rule"
