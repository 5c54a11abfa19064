"""Announces a snooze of an ACTIVE rule, which takes effect without an approval. The caller holds the writer's
transaction.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.masking import Mask
from fraud_control.domain.notification_models import SubscribedEvent
from fraud_control.service.notifications.messages import snooze_content
from fraud_control.service.notifications.outbox import deliver
from fraud_control.service.notifications.terms import subscribers
from fraud_control.store.alert_models import SnoozeRow
from fraud_control.store.models import ItemHead


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
