"""What rules do after a change: the alerts of each day beside the prediction, and the times before and since.

A change is the newest approval of a rule, else the time since which it is active with its present content. The
comparison ends 30 days (UTC) after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.item import RULE
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.prediction import SPAN_DAYS, Prediction
from fraud_control.domain.read_models import LimitPrediction, OutcomeDay, OutcomeSpan, RuleOutcome, RulePrediction
from fraud_control.service.items.heads import rule_head
from fraud_control.service.reading.approval_figures import fires_of, live_alerts, unchanged_since_ms
from fraud_control.service.reading.quality import alerts_per_day, amount_text
from fraud_control.service.reading.verdicts import reviewed_alerts
from fraud_control.service.rules.predictions import APPROVED, read_prediction
from fraud_control.store.alert_models import IN_EFFECT, AlertRow
from fraud_control.store.models import ApprovalRow, ItemHead, RevisionRow
from fraud_rules.model.day import DAY_MS, Day


class PredictedRule(NamedTuple):
    """An active rule in the first 30 days after its approval. `alerts` and `shadow` are those of the last whole day, or
    of the present one if none is whole yet. `off`: those of a whole day are outside of the prediction.
    """

    rule_id: int
    name: str
    severity: str
    owner: str
    day: Day
    alerts: int
    shadow: int
    off: bool
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


def outcome_of(session: Session, rule_id: int, now_ms: int) -> RuleOutcome | None:
    """The last change of a rule, and what the rule did; None if it is older than 30 days. Raises NotFound."""
    head = rule_head(session, rule_id)
    approval = _approval_in_force(session, head, now_ms)
    since_ms = unchanged_since_ms(session, rule_id, StateName.ACTIVE) if approval is None else approval.decided_at_ms
    if since_ms is None or since_ms <= _earliest_ms(now_ms):
        return None
    prediction, length_ms = read_prediction(approval), max(now_ms - since_ms, DAY_MS)
    previous, shadow_ms = _before(session, head, since_ms)
    return RuleOutcome(
        live_ms=since_ms,
        approved_by=None if approval is None else approval.decided_by,
        previous_revision=previous,
        prediction=None if prediction is None else _shown(prediction),
        shadow_per_day=None if shadow_ms is None else _shadow_rate(session, rule_id, shadow_ms, since_ms),
        days=list(_days(session, rule_id, since_ms, now_ms, prediction)),
        before=_span(session, rule_id, since_ms - length_ms, since_ms),
        after=_span(session, rule_id, since_ms, max(now_ms, since_ms + 1)),
    )


def predicted_rules(session: Session, now_ms: int) -> list[PredictedRule]:
    """The active rules with a prediction in the first 30 days after their approval, by id."""
    recent = (
        select(ApprovalRow.item_key)
        .where(
            ApprovalRow.kind == RULE,
            ApprovalRow.prediction.is_not(None),
            ApprovalRow.decision == APPROVED,
            ApprovalRow.decided_at_ms > _earliest_ms(now_ms),
        )
        .distinct()
    )
    heads = select(ItemHead).where(
        ItemHead.kind == RULE, ItemHead.item_key.in_(recent), ItemHead.state == StateName.ACTIVE.value
    )
    found = (_predicted_rule(session, head, now_ms) for head in session.scalars(heads.order_by(ItemHead.number)).all())
    return [each for each in found if each is not None]


def _predicted_rule(session: Session, head: ItemHead, now_ms: int) -> PredictedRule | None:
    approval, rule_id = _approval_in_force(session, head, now_ms), head.number or 0
    prediction = read_prediction(approval)
    if approval is None or prediction is None:
        return None
    today = Day.of(now_ms)
    is_whole = today.plus(-1).start_ms >= (approval.decided_at_ms or 0)
    day = today.plus(-1) if is_whole else today
    alerts, shadow = _counts(session, rule_id, day.start_ms, day.end_ms).get(day.number, (0, 0))
    document = document_of(head.document)
    return PredictedRule(
        rule_id=rule_id,
        name=str(document.get("name") or "unnamed"),
        severity=str(document.get("severity") or ""),
        owner=str(document.get("owner") or ""),
        day=day,
        alerts=alerts,
        shadow=shadow,
        off=is_whole and not prediction.covers(alerts),
        prediction=prediction,
        author=approval.author,
        approver=approval.decided_by or "",
    )


def _earliest_ms(now_ms: int) -> int:
    return now_ms - (SPAN_DAYS + 1) * DAY_MS


def _approval_in_force(session: Session, head: ItemHead, now_ms: int) -> ApprovalRow | None:
    """The newest approval of the last 30 days whose rule fires as the present one. A later approval of other content
    ends it, also without a prediction."""
    query = (
        select(ApprovalRow)
        .where(ApprovalRow.concerns(head.item), ApprovalRow.decision == APPROVED)
        .order_by(ApprovalRow.decided_at_ms.desc(), ApprovalRow.id.desc())
        .limit(1)
    )
    found = session.scalar(query)
    if found is None or (found.decided_at_ms or 0) <= _earliest_ms(now_ms):
        return None
    return found if fires_of(document_of(found.document)) == fires_of(document_of(head.document)) else None


def _before(session: Session, head: ItemHead, since_ms: int) -> tuple[int | None, int | None]:
    """The newest revision that was active with other content, and the time from which on the rule was a shadow with its
    present content before it was active."""
    present, shadow_ms = fires_of(document_of(head.document)), None
    earlier = select(RevisionRow).where(RevisionRow.concerns(head.item), RevisionRow.at_ms <= since_ms)
    for row in session.scalars(earlier.order_by(RevisionRow.revision.desc())).yield_per(100):
        fires = fires_of(document_of(row.document))
        if row.state == StateName.SHADOW.value and fires == present:
            shadow_ms = row.at_ms
        elif row.state == StateName.ACTIVE.value and fires != present:
            return row.revision, shadow_ms
    return None, shadow_ms


def _shadow_rate(session: Session, rule_id: int, since_ms: int, until_ms: int) -> float:
    chosen = (
        AlertRow.rule_id == rule_id, AlertRow.shadow, AlertRow.append_ms >= since_ms, AlertRow.append_ms < until_ms,
        IN_EFFECT,
    )  # fmt: skip
    return alerts_per_day(session.scalar(select(func.count()).where(*chosen)) or 0, since_ms, until_ms)


def _shown(prediction: Prediction) -> RulePrediction:
    return RulePrediction(
        report=prediction.report,
        predicted_days=len(prediction.counts),
        per_day=prediction.per_day,
        low=prediction.low,
        high=prediction.high,
        limits=[LimitPrediction.model_validate(each) for each in prediction.limits],
    )


def _days(
    session: Session, rule_id: int, live_ms: int, now_ms: int, prediction: Prediction | None
) -> Iterator[OutcomeDay]:
    """The whole days since the change, at most 30, and the present day so far."""
    first, today = Day.of(live_ms + DAY_MS - 1), Day.of(now_ms)
    counts = _counts(session, rule_id, first.start_ms, now_ms + 1)
    for number in range(first.number, min(today.number, first.number + SPAN_DAYS - 1) + 1):
        live, shadow = counts.get(number, (0, 0))
        whole = number < today.number
        off = whole and prediction is not None and not prediction.covers(live)
        yield OutcomeDay(day=str(Day(number)), alerts=live, shadow=shadow, whole=whole, off=off)


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
        alerts_per_day=alerts_per_day(alerts, since_ms, until_ms),
        amount=amount_text(amount),
        fraud=fraud,
        not_fraud=not_fraud,
        repeated_keys=repeated or 0,
    )
