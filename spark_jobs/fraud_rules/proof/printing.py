"""Prints a proof as a table that a person can follow with a calculator."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from fraud_rules.model.schema import ID_FIELD, TIME_FIELD
from fraud_rules.proof.audit import audit_lines
from fraud_rules.proof.decision import DecisionProof, DecisionVerdict, alert_id_of
from fraud_rules.proof.document import Proof
from fraud_rules.proof.plain.judging import ARRIVAL, judge, text_of
from fraud_rules.proof.reading import PaymentScene, cooling_alerts
from fraud_rules.proof.verification import ProofVerdict


def verdict_lines(proof: Proof, verdict: ProofVerdict, most_rows: int) -> Iterator[str]:
    """The verdict, the payments of the window and the arithmetic, at most `most_rows` payments."""
    scene, alert = verdict.scene, verdict.scene.alert
    yield f"alert {alert['alertId']} of rule {scene.rule['ruleId']}, version {scene.version}"
    yield f"payment {alert['triggeringEvent'][ID_FIELD]} of {utc_text(alert['eventTime'])}, {place_text(proof)}"
    if proof.statement.is_retracted:
        yield "a re-evaluation retracted the alert: the order of payments is that of their event times"
    elif proof.statement.order == "event":
        yield "a re-evaluation added the alert: the order of payments is that of their event times"
    yield f"key {', '.join(f'{name} {_cell(value)}' for name, value in alert['key'].items()) or 'of all payments'}"
    for text in rule_lines(scene):
        yield f"  {text}"
    for text in audit_lines(proof):
        yield f"  {text}"
    for record in scene.restrictions:
        lifted = f", lifted {utc_text(record['lifted'])}: {record.get('liftedBy')}" if "lifted" in record else ""
        yield f"restriction of the key since {utc_text(record['since'])}{lifted}"
    yield ""
    yield from arithmetic_lines(scene, most_rows)
    yield ""
    yield f"checked: {', '.join(verdict.checked)}"
    yield f"taken as stated: {', '.join(verdict.stated)}"
    for each in proof.statement.missing:
        yield f"missing: {each}"


def decision_lines(proof: DecisionProof, verdict: DecisionVerdict, most_rows: int) -> Iterator[str]:
    """The decision and its arithmetic, then the lines of each alert."""
    decision, statement = verdict.decision, proof.statement
    yield f"decision about payment {decision['transactionId']}: score {decision['score']}, {decision['outcome']}"
    for rule_id, weight in verdict.weights.items():
        yield f"  rule {rule_id}: weight {weight}"
    yield f"  {' + '.join(map(str, verdict.weights.values()))} = {sum(verdict.weights.values())}"
    yield f"  DECLINE from {statement.decline} on, REVIEW from {statement.review} on, else NOTE"
    yield "taken as stated: these two scores, detectionTime, and that no other active rule has an alert of the payment"
    for alert in proof.alerts:
        yield ""
        yield from verdict_lines(alert, verdict.alerts[alert_id_of(alert)], most_rows)


def rule_lines(scene: PaymentScene) -> Iterator[str]:
    """The members of the rule that decide."""
    for name in ("filter", "when"):
        if scene.rule.get(name):
            yield f"{name}: {scene.rule[name]}"
    if "aggregatorFunctionType" in scene.rule:
        yield (
            f"{scene.rule['aggregatorFunctionType']} of {scene.rule.get('aggregateFieldName', 'payments')} "
            f"{scene.rule['limitOperatorType']} {scene.rule['limit']}"
        )


def arithmetic_lines(scene: PaymentScene, most_rows: int) -> Iterator[str]:
    """The payments of the key, why those that do not count do not, and the result."""
    fault, own, alert = judge(scene.rule, scene.plain)
    counted = {x[ARRIVAL] for x in own.rows} if own is not None else set()
    name = scene.plain.fields[scene.rule["aggregateFieldName"]].name if _has_field(scene) else None
    yield f"{'place':>14}  {'event time':23}  {'payment':>20}  {name or '':>20}  counts"
    rows = list(enumerate(scene.rows))
    if len(rows) > most_rows:
        yield f"  ({len(rows) - most_rows} earlier payments are not shown: --rows {len(rows)})"
    for i, (place, row, remark) in rows[-most_rows:]:
        said = "yes" if i in counted else f"no: {remark or 'outside the window or the filter'}"
        value = "" if name is None else _cell(row.values[name])
        yield f"{place:>14}  {utc_text(row.values[TIME_FIELD])}  {_cell(row.values[ID_FIELD]):>20}  {value:>20}  {said}"
    if own is not None:
        limit = "" if own.limit is None else f", limit {text_of(own.limit)}"
        yield f"{len(own.rows)} payments from {utc_text(alert['windowStart'])} on: {alert['triggeringValue']}{limit}"
    for position, each in enumerate(alert.get("conditions", ())):
        yield f"condition {position}: value {each.get('value')}, {'holds' if each['holds'] else 'does not hold'}"
    yield f"the rule does not hold: {fault}" if fault else "the rule holds"
    for each in cooling_alerts(scene):
        yield f"alert {each['alertId']} of {utc_text(each['eventTime'])} began a cool-down that covers the payment"


def place_text(proof: Proof) -> str:
    """The place of the payment's record."""
    return f"{proof.statement.topic}-{proof.statement.partition} at offset {proof.statement.offset}"


def utc_text(at_ms: int | None) -> str:
    """A time in UTC, to the millisecond."""
    return "" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d}"


def _has_field(scene: PaymentScene) -> bool:
    return scene.rule.get("aggregateFieldName") in scene.plain.fields


def _cell(value: Any) -> str:
    return "" if value is None else text_of(value) if isinstance(value, Decimal) else str(value)
