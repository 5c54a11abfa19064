"""Fills the outbox of notifications with alerts and requests for approval. The caller holds the writer's transaction.

A subscription gets a limited number of alerts per minute. A summary at the end of the minute has the alerts above the
limit, and a summary at the end of quiet hours has the alerts of that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.item import RULE
from fraud_control.domain.masking import Mask, plain
from fraud_control.domain.notification_models import SUMMARY, DeliveryState, SubscribedEvent
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.events import FeedAlert
from fraud_control.feed.place import FeedSource
from fraud_control.service.alert_marks import snoozes
from fraud_control.service.notifications.messages import (
    AlertedRule,
    alert_content,
    alerted_rule,
    approval_content,
    summary_content,
)
from fraud_control.service.notifications.outbox import add_delivery, deliver, waiting_count
from fraud_control.service.notifications.terms import Subscriber, subscribers
from fraud_control.store.models import ApprovalRow, PositionRow
from fraud_control.store.notification_models import DeliveryRow

_MINUTE_MS: Final = 60_000
_MOST_WAITING: Final = 500
_MOST_RULES: Final = 100
_APPROVALS: Final = "notify-approvals"
_AT_ONCE: Final = 200


class AlertNotifications:
    """Adds the deliveries of new alerts. `per_minute` limits the alerts that a subscription gets one by one, and `mask`
    masks their keys and payments.
    """

    def __init__(self, per_minute: int, mask: Mask = plain) -> None:
        self._per_minute = per_minute
        self._mask = mask

    def add(self, session: Session, alerts: Sequence[FeedAlert], now_ms: int) -> None:
        """Add the deliveries of alerts that are live, not snoozed, and newer than the subscription."""
        found = subscribers(session, SubscribedEvent.ALERT) if alerts else []
        if not found:
            return
        snoozing = Snoozing(snoozes(session, now_ms), now_ms)
        live = [
            (each, alerted_rule(each))
            for each in alerts
            if each.source is FeedSource.ALERTS
            and not each.facts.shadow
            and not snoozing.covers(each.facts.rule_id, each.facts.key)
        ]
        for subscriber in found:
            selected = [(alert, rule) for alert, rule in live if _selects(subscriber, alert, rule)]
            if selected:
                self._add(session, subscriber, selected, now_ms)

    def _add(
        self, session: Session, to: Subscriber, alerts: Sequence[tuple[FeedAlert, AlertedRule]], now_ms: int
    ) -> None:
        quiet_ms = to.terms.quiet_until_ms(now_ms)
        single = 0 if quiet_ms is not None else self._room(session, to, now_ms)
        for alert, rule in alerts[:single]:
            content = alert_content(alert, rule, self._mask)
            add_delivery(session, to.row.id, to.terms.receiver, content, now_ms, now_ms)
        if alerts[single:]:
            due_ms = quiet_ms or to.terms.quiet_until_ms(now_ms + _MINUTE_MS) or now_ms + _MINUTE_MS
            _add_to_summary(session, to, alerts[single:], now_ms, due_ms)

    def _room(self, session: Session, to: Subscriber, now_ms: int) -> int:
        """How many more alerts the subscription may get one by one in this minute."""
        sent = session.scalar(
            select(func.count()).where(
                DeliveryRow.subscription_id == to.row.id,
                DeliveryRow.type == SubscribedEvent.ALERT.value,
                DeliveryRow.created_ms > now_ms - _MINUTE_MS,
            )
        )
        return max(0, min(self._per_minute - (sent or 0), _MOST_WAITING - waiting_count(session, to.row.id)))


def unnotified_approvals(session: Session) -> Sequence[ApprovalRow]:
    """The requests for approval that `notify_approvals` has not processed, up to a limit."""
    known = session.get(PositionRow, _APPROVALS)
    after = 0 if known is None else known.offset
    query = select(ApprovalRow).where(ApprovalRow.id > after).order_by(ApprovalRow.id).limit(_AT_ONCE)
    return session.scalars(query).all()


def notify_approvals(session: Session, now_ms: int) -> None:
    """Add the deliveries of open requests for approval, and save the position after them."""
    requests = unnotified_approvals(session)
    if not requests:
        return
    for subscriber in subscribers(session, SubscribedEvent.APPROVAL):
        for request in requests:
            if request.decision is None and request.requested_at_ms >= subscriber.row.created_ms:
                _add_approval(session, subscriber, request, now_ms)
    session.merge(PositionRow(name=_APPROVALS, offset=requests[-1].id, topic_id=None))


def _add_approval(session: Session, to: Subscriber, request: ApprovalRow, now_ms: int) -> None:
    rule = document_of(request.document) if request.kind == RULE else {}
    texts = {name: str(rule.get(name) or "") for name in ("name", "severity", "owner")}
    if not to.terms.selects(SubscribedEvent.APPROVAL, request.rule_id, texts["severity"], texts["owner"]):
        return
    data: dict[str, Any] = {
        "approvalId": request.id,
        "ruleId": request.rule_id,
        "ruleName": texts["name"],
        "listName": request.list_name,
        "mapName": request.map_name,
        "action": request.action,
        "target": request.target,
        "requestedBy": request.requested_by,
        "requestedAt": request.requested_at_ms,
        "comment": request.comment,
    }
    deliver(session, to, approval_content(data), now_ms)


def _selects(to: Subscriber, alert: FeedAlert, rule: AlertedRule) -> bool:
    is_new = alert.append_ms >= to.row.created_ms
    return is_new and to.terms.selects(SubscribedEvent.ALERT, rule.rule_id, rule.severity, rule.owner)


def _add_to_summary(
    session: Session, to: Subscriber, alerts: Sequence[tuple[FeedAlert, AlertedRule]], now_ms: int, due_ms: int
) -> None:
    """Add alerts to the open summary of a subscription, or to a new one that is due at `due_ms`."""
    row = session.scalar(
        select(DeliveryRow)
        .where(
            DeliveryRow.subscription_id == to.row.id,
            DeliveryRow.type == SUMMARY,
            DeliveryRow.state == DeliveryState.WAITING.value,
            DeliveryRow.attempts == 0,
            DeliveryRow.due_ms > now_ms,
        )
        .order_by(DeliveryRow.id.desc())
        .limit(1)
    )
    content = summary_content(_with_alerts(None if row is None else document_of(row.data), alerts))
    if row is None:
        add_delivery(session, to.row.id, to.terms.receiver, content, now_ms, due_ms)
    else:
        row.title, row.text, row.path, row.data = content.title, content.text, content.path, content.data


def _with_alerts(data: dict[str, Any] | None, alerts: Sequence[tuple[FeedAlert, AlertedRule]]) -> dict[str, Any]:
    """The data of a summary with more alerts. It counts each of at most 100 rules."""
    known = data or {"count": 0, "since": alerts[0][0].append_ms, "until": 0, "rules": []}
    rules = {each["ruleId"]: dict(each) for each in known["rules"]}
    for _, rule in alerts:
        if rule.rule_id in rules:
            rules[rule.rule_id]["count"] += 1
        elif len(rules) < _MOST_RULES:
            members = {"ruleId": rule.rule_id, "name": rule.name, "severity": rule.severity, "count": 1}
            rules[rule.rule_id] = members
    times = [alert.append_ms for alert, _ in alerts]
    return {
        "count": known["count"] + len(alerts),
        "since": min(known["since"], *times),
        "until": max(known["until"], *times),
        "rules": sorted(rules.values(), key=lambda each: -each["count"]),
    }
