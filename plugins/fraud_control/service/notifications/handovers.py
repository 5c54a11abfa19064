"""Announces a case to the user to whom it was handed over. The caller holds the writer's transaction."""

from __future__ import annotations

from sqlalchemy.orm import Session

from fraud_control.domain.case_models import URGENCIES
from fraud_control.domain.masking import Mask
from fraud_control.domain.notification_models import SubscribedEvent
from fraud_control.service.notifications.messages import handover_content
from fraud_control.service.notifications.outbox import deliver
from fraud_control.service.notifications.terms import subscribers
from fraud_control.store.case_models import CaseRow


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
