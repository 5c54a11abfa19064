"""The outbox of notifications. An event and its deliveries are saved in one transaction, so that none is lost.

The caller holds the writer's transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from fraud_control.domain.notification_models import SUMMARY, DeliveryState, SubscribedEvent
from fraud_control.service.ids import batches
from fraud_control.service.notifications.messages import Content
from fraud_control.service.notifications.terms import Subscriber, terms_of
from fraud_control.store.notification_models import DeliveryRow, SubscriptionRow
from fraud_ops.notifications import Message

_FIRST_PAUSE_MS: Final = 5_000
_LONGEST_PAUSE_MS: Final = 900_000
_GIVE_UP_MS: Final = 86_400_000
_DELIVERED_KEPT_MS: Final = 7 * 86_400_000
_FAILED_KEPT_MS: Final = 30 * 86_400_000
_PRUNED_AT_ONCE: Final = 2_000
_FAILING_ATTEMPTS: Final = 4
"""The failed attempts of one delivery after which its receiver counts as failing: about 35 s."""

_HELD: Final = (SUMMARY, *(each.value for each in SubscribedEvent if each is not SubscribedEvent.DIGEST))
"""The types of deliveries that quiet hours hold back."""


@dataclass(frozen=True, slots=True)
class SendAttempt:
    """An attempt to send a delivery. `fault` is the reason why it failed, None if the receiver accepted it."""

    delivery_id: int
    fault: str | None


@dataclass(frozen=True, slots=True)
class FailingReceiver:
    """A receiver that does not accept its deliveries. `fault` is the reason of a failed attempt."""

    receiver: str
    fault: str


def deliver(session: Session, to: Subscriber, content: Content, now_ms: int) -> None:
    """Add a delivery to a subscription, whose first attempt is at once, or after its quiet hours."""
    add_delivery(session, to.row.id, to.terms.receiver, content, now_ms, to.terms.quiet_until_ms(now_ms) or now_ms)


def add_delivery(
    session: Session, subscription_id: int | None, receiver: str, content: Content, now_ms: int, due_ms: int
) -> DeliveryRow:
    """Add a delivery whose first attempt is at `due_ms`."""
    row = DeliveryRow(
        message_id=str(uuid.uuid4()),
        subscription_id=subscription_id,
        receiver=receiver,
        type=content.type,
        title=content.title,
        text=content.text,
        path=content.path,
        data=content.data,
        state=DeliveryState.WAITING.value,
        attempts=0,
        fault=None,
        created_ms=now_ms,
        due_ms=due_ms,
        ended_ms=None,
    )
    session.add(row)
    return row


def message_of(row: DeliveryRow) -> Message:
    """The message of a delivery."""
    return Message(row.message_id, row.type, row.created_ms, row.title, row.text, row.path, row.data.encode())


def due_receivers(session: Session, now_ms: int) -> Sequence[str]:
    """The receivers of the deliveries that are due."""
    waiting = DeliveryRow.state == DeliveryState.WAITING.value
    return session.scalars(select(DeliveryRow.receiver).where(waiting, DeliveryRow.due_ms <= now_ms).distinct()).all()


def next_due(session: Session, receiver: str, now_ms: int, limit: int) -> Sequence[DeliveryRow]:
    """The deliveries to a receiver that are due, the longest due first."""
    query = select(DeliveryRow).where(
        DeliveryRow.state == DeliveryState.WAITING.value, DeliveryRow.receiver == receiver, DeliveryRow.due_ms <= now_ms
    )
    return session.scalars(query.order_by(DeliveryRow.due_ms, DeliveryRow.id).limit(limit)).all()


def failing_receivers(session: Session) -> Sequence[FailingReceiver]:
    """List by name the receivers that do not accept a delivery: one that waits after several failed attempts, or one
    that was given up, if the receiver has accepted none since.
    """
    accepted = (
        select(DeliveryRow.receiver, func.max(DeliveryRow.ended_ms).label("at_ms"))
        .where(DeliveryRow.state == DeliveryState.DELIVERED.value)
        .group_by(DeliveryRow.receiver)
        .subquery()
    )
    given_up = (DeliveryRow.state == DeliveryState.FAILED.value) & (
        DeliveryRow.ended_ms > func.coalesce(accepted.c.at_ms, 0)
    )
    waiting = (DeliveryRow.state == DeliveryState.WAITING.value) & (DeliveryRow.attempts >= _FAILING_ATTEMPTS)
    query = (
        select(DeliveryRow.receiver, func.max(DeliveryRow.fault))
        .outerjoin(accepted, accepted.c.receiver == DeliveryRow.receiver)
        .where(waiting | given_up)
        .group_by(DeliveryRow.receiver)
        .order_by(DeliveryRow.receiver)
    )
    return [FailingReceiver(receiver, fault or "") for receiver, fault in session.execute(query)]


def record_attempt(session: Session, attempt: SendAttempt, now_ms: int) -> None:
    """Record the result of an attempt. After a failure, the pause before the next attempt doubles, up to 15 minutes.
    A delivery that is older than a day fails.
    """
    row = session.get(DeliveryRow, attempt.delivery_id)
    if row is None:
        return
    row.attempts += 1
    row.fault = attempt.fault
    if attempt.fault is None:
        row.state, row.ended_ms = DeliveryState.DELIVERED.value, now_ms
    elif now_ms - row.created_ms >= _GIVE_UP_MS:
        row.state, row.ended_ms = DeliveryState.FAILED.value, now_ms
    else:
        pause_ms = min(_FIRST_PAUSE_MS << min(row.attempts - 1, 20), _LONGEST_PAUSE_MS)
        row.due_ms = _after_quiet_hours(session, row, now_ms + pause_ms)


def prune(session: Session, now_ms: int) -> int:
    """Delete old deliveries that have ended, up to a limit; return their number. Delivered ones stay for 7 days, failed
    ones for 30.
    """
    kept_ms = {DeliveryState.DELIVERED: _DELIVERED_KEPT_MS, DeliveryState.FAILED: _FAILED_KEPT_MS}
    count = 0
    for state, age_ms in kept_ms.items():
        old = session.scalars(
            select(DeliveryRow.id)
            .where(DeliveryRow.state == state.value, DeliveryRow.created_ms < now_ms - age_ms)
            .limit(_PRUNED_AT_ONCE)
        ).all()
        for ids in batches(old):
            session.execute(delete(DeliveryRow).where(DeliveryRow.id.in_(ids)))
        count += len(old)
    return count


def waiting_rows(session: Session, receiver: str) -> Sequence[DeliveryRow]:
    """The deliveries to a receiver that it has not accepted yet, in order."""
    query = select(DeliveryRow).where(
        DeliveryRow.state == DeliveryState.WAITING.value, DeliveryRow.receiver == receiver
    )
    return session.scalars(query.order_by(DeliveryRow.id)).all()


def waiting_count(session: Session, subscription_id: int) -> int:
    """Count the deliveries of a subscription that wait."""
    waiting = DeliveryRow.state == DeliveryState.WAITING.value
    query = select(func.count()).where(DeliveryRow.subscription_id == subscription_id, waiting)
    return session.scalar(query) or 0


def _after_quiet_hours(session: Session, row: DeliveryRow, due_ms: int) -> int:
    subscription = None if row.subscription_id is None else session.get(SubscriptionRow, row.subscription_id)
    if subscription is None or row.type not in _HELD:
        return due_ms
    return terms_of(subscription).quiet_until_ms(due_ms) or due_ms
