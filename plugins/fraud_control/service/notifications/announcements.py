"""Announces events to the users whom they concern. The caller holds the writer's transaction.

The author and the approver of a rule get its departure from its prediction. The assignee of a case gets its hand-over.
The receivers of requests for approval get a snooze of an ACTIVE rule, because it takes effect without an approval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.case_models import URGENCIES
from fraud_control.domain.masking import Mask
from fraud_control.domain.notification_models import SubscribedEvent
from fraud_control.service.notifications.messages import departure_content, handover_content, snooze_content
from fraud_control.service.notifications.outbox import deliver
from fraud_control.service.notifications.terms import subscribers
from fraud_control.service.rules.outcomes import PredictedRule
from fraud_control.store.alert_models import SnoozeRow
from fraud_control.store.case_models import CaseRow
from fraud_control.store.models import ItemHead, PositionRow
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


def notify_handover(session: Session, case: CaseRow, comment: str, mask: Mask, now_ms: int) -> None:
    """Add the deliveries of a hand-over for the subscriptions that the assignee owns. `mask` masks the entity."""
    data = mask(
        {
            "caseId": case.case_id,
            "entityField": case.entity_field,
            "entityValue": case.entity_value,
            "severity": URGENCIES[case.urgency],
            "assignee": case.assignee,
            "handedBy": case.handed_by,
            "comment": comment,
        }
    )
    for to in subscribers(session, SubscribedEvent.HANDOVER):
        is_own = to.row.author == case.assignee
        if is_own and to.terms.selects(SubscribedEvent.HANDOVER, None, data["severity"], ""):
            deliver(session, to, handover_content(data), now_ms)


def notify_snooze(session: Session, head: ItemHead, snooze: SnoozeRow, mask: Mask, now_ms: int) -> None:
    """Add the deliveries of a snooze for the subscriptions to requests for approval that select its rule. `mask` masks
    its key.
    """
    rule = document_of(head.document)
    name, severity, owner = (str(rule.get(each) or "") for each in ("name", "severity", "owner"))
    data = {
        "ruleId": head.rule_id,
        "ruleName": name,
        "key": None if snooze.key is None else mask(document_of(snooze.key)),
        "until": snooze.until_ms,
        "who": snooze.who,
        "reason": snooze.reason,
    }
    for to in subscribers(session, SubscribedEvent.APPROVAL):
        if to.terms.selects(SubscribedEvent.APPROVAL, head.rule_id, severity, owner):
            deliver(session, to, snooze_content(data), now_ms)
