"""Notifies the authors and approvers of rules that depart from their predictions. The caller holds the transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy.orm import Session

from fraud_control.domain.notification_models import SubscribedEvent
from fraud_control.service.notifications.messages import departure_content
from fraud_control.service.notifications.outbox import deliver
from fraud_control.service.notifications.terms import subscribers
from fraud_control.service.rules.outcomes import PredictedRule
from fraud_control.store.models import PositionRow
from fraud_rules.model.day import Day

_DEPARTURES: Final = "notify-departures"


def are_notified(session: Session, now_ms: int) -> bool:
    """Whether the departures of the last whole day (UTC) have been notified."""
    known = session.get(PositionRow, _DEPARTURES)
    return known is not None and known.offset >= Day.of(now_ms).number


def notify_departures(session: Session, departures: Sequence[PredictedRule], now_ms: int) -> None:
    """Add the deliveries of the departures of the last whole day: each to the subscriptions that its author or its
    approver owns."""
    for to in subscribers(session, SubscribedEvent.PREDICTION):
        for each in departures:
            is_own = to.row.author in (each.author, each.approver)
            if is_own and to.terms.selects(SubscribedEvent.PREDICTION, each.rule_id, each.severity, each.owner):
                deliver(session, to, departure_content(_data(each), str(each)), now_ms)
    session.merge(PositionRow(name=_DEPARTURES, offset=Day.of(now_ms).number, topic_id=None))


def _data(departure: PredictedRule) -> dict[str, Any]:
    return {
        "ruleId": departure.rule_id,
        "ruleName": departure.name,
        "day": str(departure.day),
        "alerts": departure.alerts,
        "low": departure.prediction.low,
        "high": departure.prediction.high,
        "author": departure.author,
        "approver": departure.approver,
    }
