"""Predictions of requests for approval, and what the rules did after their approval.

The what-if of a requested rule predicts the alerts of a day. The store keeps the prediction with the request, and
compares it with the alerts of each whole day (UTC) of the 30 days after the approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.item import RULE
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.prediction import SPAN_DAYS, Prediction, predicted
from fraud_control.domain.read_models import OutcomeDay, OutcomeSpan, RuleOutcome
from fraud_control.service.items.heads import rule_head
from fraud_control.service.reading.approval_figures import EVALUATED, fires_of, live_alerts, requested_rule
from fraud_control.service.reading.verdicts import reviewed_alerts
from fraud_control.store.alert_models import IN_EFFECT, AlertRow
from fraud_control.store.models import ApprovalRow, ItemHead
from fraud_rules.model.day import DAY_MS, Day

__all__ = ["OffPrediction", "off_predictions", "outcome_of", "prediction_of", "save_prediction", "unpredicted"]

_APPROVED: Final = "approved"
_MOST_AT_ONCE: Final = 20

_decode = msgspec.json.Decoder(Prediction).decode


class _Coverage(msgspec.Struct):
    whole: list[str]


class _Past(msgspec.Struct):
    """The members of a what-if's result that predict: its days, the alerts by hour, and the days that are covered."""

    days: list[str]
    hours: list[int]
    coverage: _Coverage


class OffPrediction(NamedTuple):
    """A rule whose alerts of the last whole day are outside of the prediction."""

    rule_id: int
    name: str
    day: Day
    alerts: int
    prediction: Prediction
    author: str
    approver: str

    def __str__(self) -> str:
        """The departure in words."""
        low, high = self.prediction.low, self.prediction.high
        return (
            f"rule {self.rule_id} ({self.name}) raised {self.alerts:,} alerts on {self.day}; the prediction was "
            f"{low:,} to {high:,}. {self.author} wrote the rule, and {self.approver} approved it"
        )


def prediction_of(report: str, result: Mapping[str, Any]) -> Prediction | None:
    """The prediction of a saved what-if, given as its JSON; None if it has fewer than three whole days."""
    try:
        past = msgspec.convert(result, _Past)
    except msgspec.ValidationError:
        return None  # a report of an earlier release, or of another program
    by_day = [(day, sum(past.hours[24 * i : 24 * i + 24])) for i, day in enumerate(past.days)]
    return predicted(report, [count for day, count in by_day if day in past.coverage.whole])


def unpredicted(session: Session, now_ms: int) -> list[tuple[int, dict[str, Any]]]:
    """The newest requests that have no prediction, with the requested rule without its state: those that are open, or
    were approved in the last day. The detector evaluates the rule after their approval."""
    query = (
        select(ApprovalRow)
        .where(
            ApprovalRow.kind == RULE,
            ApprovalRow.prediction.is_(None),
            ApprovalRow.decision.is_(None)
            | ((ApprovalRow.decision == _APPROVED) & (ApprovalRow.decided_at_ms > now_ms - DAY_MS)),
        )
        .order_by(ApprovalRow.id.desc())
        .limit(_MOST_AT_ONCE)
    )
    return [(row.id, requested_rule(row)) for row in session.scalars(query) if row.target in EVALUATED]


def save_prediction(session: Session, approval_id: int, prediction: Prediction) -> None:
    """Save the prediction of a request. The caller holds the writer's transaction."""
    row = session.get(ApprovalRow, approval_id)
    if row is not None:
        row.prediction = msgspec.json.encode(prediction).decode()


def outcome_of(session: Session, rule_id: int, now_ms: int) -> RuleOutcome | None:
    """What a rule was predicted to do, and what it did since its approval; None without a prediction.

    Raises NotFound.
    """
    approval = _approval_in_force(session, rule_head(session, rule_id), now_ms)
    if approval is None or approval.prediction is None:
        return None
    live_ms = approval.decided_at_ms or 0
    prediction, length_ms = _decode(approval.prediction), max(now_ms - live_ms, DAY_MS)
    return RuleOutcome(
        live_ms=live_ms,
        approved_by=approval.decided_by or "",
        report=prediction.report,
        per_day=prediction.per_day,
        low=prediction.low,
        high=prediction.high,
        predicted_days=len(prediction.counts),
        days=list(_days(session, rule_id, live_ms, now_ms, prediction)),
        before=_span(session, rule_id, live_ms - length_ms, live_ms),
        after=_span(session, rule_id, live_ms, max(now_ms, live_ms + 1)),
    )


def off_predictions(session: Session, now_ms: int) -> list[OffPrediction]:
    """The active rules whose alerts of the last whole day are outside of their prediction, by id."""
    recent = (
        select(ApprovalRow.item_key)
        .where(
            ApprovalRow.kind == RULE,
            ApprovalRow.prediction.is_not(None),
            ApprovalRow.decision == _APPROVED,
            ApprovalRow.decided_at_ms > now_ms - (SPAN_DAYS + 1) * DAY_MS,
        )
        .distinct()
    )
    heads = select(ItemHead).where(
        ItemHead.kind == RULE, ItemHead.item_key.in_(recent), ItemHead.state == StateName.ACTIVE.value
    )
    day, found = Day.of(now_ms).plus(-1), []
    for head in session.scalars(heads.order_by(ItemHead.number)):
        approval, rule_id = _approval_in_force(session, head, now_ms), head.number or 0
        if approval is None or approval.prediction is None or day.start_ms < (approval.decided_at_ms or 0):
            continue
        prediction = _decode(approval.prediction)
        alerts, _ = _counts(session, rule_id, day.start_ms, day.end_ms).get(day.number, (0, 0))
        if not prediction.covers(alerts):
            name = str(document_of(head.document).get("name") or "unnamed")
            found.append(
                OffPrediction(rule_id, name, day, alerts, prediction, approval.author, approval.decided_by or "")
            )
    return found


def _approval_in_force(session: Session, head: ItemHead, now_ms: int) -> ApprovalRow | None:
    """The newest approval of the last 30 days whose rule fires as the present one. A later approval of other content
    ends it, also without a prediction."""
    query = (
        select(ApprovalRow)
        .where(ApprovalRow.concerns(head.item), ApprovalRow.decision == _APPROVED)
        .order_by(ApprovalRow.decided_at_ms.desc(), ApprovalRow.id.desc())
        .limit(1)
    )
    found = session.scalar(query)
    if found is None or (found.decided_at_ms or 0) <= now_ms - (SPAN_DAYS + 1) * DAY_MS:
        return None
    return found if fires_of(document_of(found.document)) == fires_of(document_of(head.document)) else None


def _days(session: Session, rule_id: int, live_ms: int, now_ms: int, prediction: Prediction) -> Iterator[OutcomeDay]:
    """The whole days since the approval, at most 30, and the present day so far."""
    first, today = Day.of(live_ms + DAY_MS - 1), Day.of(now_ms)
    counts = _counts(session, rule_id, first.start_ms, now_ms + 1)
    for number in range(first.number, min(today.number, first.number + SPAN_DAYS - 1) + 1):
        live, shadow = counts.get(number, (0, 0))
        whole = number < today.number
        yield OutcomeDay(
            day=str(Day(number)), alerts=live, shadow=shadow, whole=whole, off=whole and not prediction.covers(live)
        )


def _counts(session: Session, rule_id: int, since_ms: int, until_ms: int) -> Mapping[int, tuple[int, int]]:
    """The live alerts and the shadow alerts of a rule by the number of the day."""
    day = AlertRow.append_ms // DAY_MS
    live, shadow = (func.sum(case((AlertRow.shadow.is_(each), 1), else_=0)) for each in (False, True))
    query = select(day, live, shadow).where(
        AlertRow.rule_id == rule_id, AlertRow.append_ms >= since_ms, AlertRow.append_ms < until_ms, IN_EFFECT
    )
    return {int(number): (int(a), int(b)) for number, a, b in session.execute(query.group_by(day))}


def _span(session: Session, rule_id: int, since_ms: int, until_ms: int) -> OutcomeSpan:
    """The live alerts of a rule in a time: their number, amount and verdicts, and the keys with more than one."""
    chosen = (*live_alerts(rule_id, since_ms), AlertRow.append_ms < until_ms)
    alerts, amount = session.execute(select(func.count(), func.sum(AlertRow.amount)).where(*chosen)).one()
    of_key = select(func.count().label("alerts")).where(*chosen).group_by(AlertRow.key).subquery()
    repeated = session.scalar(select(func.count()).select_from(of_key).where(of_key.c.alerts > 1))
    (fraud, _), (not_fraud, _) = reviewed_alerts(session, chosen, "")
    return OutcomeSpan(
        since_ms=since_ms,
        until_ms=until_ms,
        alerts=alerts,
        alerts_per_day=round(alerts * DAY_MS / max(until_ms - since_ms, DAY_MS), 2),
        amount=None if amount is None else str(Decimal(repr(float(amount))).quantize(Decimal("0.01"))),
        fraud=fraud,
        not_fraud=not_fraud,
        repeated_keys=repeated or 0,
    )
