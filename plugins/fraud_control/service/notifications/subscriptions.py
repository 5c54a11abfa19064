"""Subscriptions to notifications, and what users do with deliveries. Each change has a row in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from fraud_control.domain.errors import LimitReached, NotFound, RefusalCause, RequestRefused
from fraud_control.domain.notification_models import (
    Delivery,
    DeliveryState,
    ReceiverShown,
    Subscription,
    Terms,
)
from fraud_control.domain.read_models import Page
from fraud_control.domain.roles import Actor, Permission, Role, require
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import storable_id
from fraud_control.service.notifications.messages import receiver_test_content
from fraud_control.service.notifications.outbox import FailingReceiver, add_delivery, failing_receivers
from fraud_control.service.notifications.terms import check_terms, encode_terms, subscription_of, terms_of
from fraud_control.service.pages import newest_first
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.notification_models import DeliveryRow, SubscriptionRow
from fraud_ops.notifications import Receiver

_MOST: Final = 200
_MOST_RETRIED: Final = 1_000


class SubscriptionService:
    """Several threads may use it. Analysts create subscriptions; their authors and admins change them."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    def receivers(self, exists: Callable[[Receiver], bool]) -> list[ReceiverShown]:
        """List the receivers by name. `exists` returns whether the connection of a receiver exists."""
        with self._store.database.reading() as session:
            waiting = _counts(session, DeliveryState.WAITING)
            failed = _counts(session, DeliveryState.FAILED)
        return [
            ReceiverShown(
                name=name,
                kind=kind,
                connection=Receiver(name, kind).connection_id,
                ready=exists(Receiver(name, kind)),
                waiting=waiting.get(name, 0),
                failed=failed.get(name, 0),
            )
            for name, kind in sorted(self._store.settings.receivers.items())
        ]

    def all(self) -> list[Subscription]:
        """List the subscriptions by id."""
        with self._store.database.reading() as session:
            return [
                subscription_of(row) for row in session.scalars(select(SubscriptionRow).order_by(SubscriptionRow.id))
            ]

    def create(self, actor: Actor, terms: Terms) -> Subscription:
        """Create a subscription, for events after its creation. Raises Invalid, LimitReached, RequestRefused."""
        require(actor, Permission.SUBSCRIBE)
        check_terms(terms, self._store.settings)
        with self._store.change(actor) as work:
            if (work.session.scalar(select(func.count()).select_from(SubscriptionRow)) or 0) >= _MOST:
                raise LimitReached(f"there are already {_MOST} subscriptions, the most allowed")
            row = SubscriptionRow(
                terms=encode_terms(terms),
                author=actor.user,
                created_ms=work.now_ms,
                updated_ms=work.now_ms,
                digest_ms=terms.next_digest_ms(work.now_ms),
            )
            work.session.add(row)
            work.session.flush()
            _audit(work, actor, "subscription.create", row.id, None, terms)
            return subscription_of(row)

    def edit(self, actor: Actor, subscription_id: int, terms: Terms) -> Subscription:
        """Replace the terms of a subscription. Waiting deliveries stay. Raises NotFound, Invalid, RequestRefused."""
        check_terms(terms, self._store.settings)
        with self._store.change(actor) as work:
            row = _own(work, actor, subscription_id)
            before, row.terms, row.updated_ms = terms_of(row), encode_terms(terms), work.now_ms
            row.digest_ms = terms.next_digest_ms(work.now_ms)
            _audit(work, actor, "subscription.edit", row.id, before, terms)
            return subscription_of(row)

    def remove(self, actor: Actor, subscription_id: int) -> None:
        """Remove a subscription with its waiting deliveries. Raises NotFound, RequestRefused."""
        with self._store.change(actor) as work:
            row = _own(work, actor, subscription_id)
            _audit(work, actor, "subscription.delete", row.id, terms_of(row), None)
            waiting = DeliveryRow.state == DeliveryState.WAITING.value
            work.session.execute(delete(DeliveryRow).where(DeliveryRow.subscription_id == row.id, waiting))
            work.session.delete(row)

    def deliveries(
        self, *, states: frozenset[DeliveryState] = frozenset(), limit: int = 100, before: int | None = None
    ) -> Page[Delivery]:
        """List deliveries with ids below `before`, newest first; with `states`, only those in one of the states."""
        query = select(DeliveryRow)
        if states:
            query = query.where(DeliveryRow.state.in_([each.value for each in states]))
        with self._store.reading() as work:
            page = newest_first(work, query, DeliveryRow.id, limit, before)
            return Page(tuple(map(Delivery.model_validate, page.items)), page.next)

    def retry(self, actor: Actor, delivery_id: int) -> Delivery:
        """Send a failed or waiting delivery now. Raises NotFound, and RequestRefused for a delivered one."""
        require(actor, Permission.SUBSCRIBE)
        with self._store.change(actor) as work:
            row = work.session.get(DeliveryRow, storable_id(delivery_id))
            if row is None:
                raise NotFound(f"delivery {delivery_id} does not exist")
            if row.state == DeliveryState.DELIVERED.value:
                raise RequestRefused(f"delivery {delivery_id} has been delivered")
            _send_now(work, row)
            work.append_audit(
                AuditRecord(actor.user, "delivery.retry", f"delivery {row.id}", None, {"title": row.title})
            )
            return Delivery.model_validate(row)

    def retry_failed(self, actor: Actor) -> int:
        """Send the newest failed deliveries now, at most 1,000, and return their number. Raises RequestRefused."""
        require(actor, Permission.SUBSCRIBE)
        with self._store.change(actor) as work:
            failed = select(DeliveryRow).where(DeliveryRow.state == DeliveryState.FAILED.value)
            rows = work.session.scalars(failed.order_by(DeliveryRow.id.desc()).limit(_MOST_RETRIED)).all()
            for row in rows:
                _send_now(work, row)
            if rows:
                record = AuditRecord(actor.user, "delivery.retry", "failed deliveries", None, {"count": len(rows)})
                work.append_audit(record)
            return len(rows)

    def failing(self) -> Sequence[FailingReceiver]:
        """List the receivers that do not accept their deliveries, by name."""
        with self._store.database.reading() as session:
            return failing_receivers(session)

    def test(self, actor: Actor, receiver: str) -> Delivery:
        """Send a test notification to a receiver. Raises NotFound, RequestRefused."""
        require(actor, Permission.SUBSCRIBE)
        if receiver not in self._store.settings.receivers:
            raise NotFound(f"the settings have no receiver {receiver!a}")
        with self._store.change(actor) as work:
            content = receiver_test_content(receiver, actor.user)
            row = add_delivery(work.session, None, receiver, content, work.now_ms, work.now_ms)
            work.session.flush()
            work.append_audit(AuditRecord(actor.user, "receiver.test", f"receiver {receiver}"))
            return Delivery.model_validate(row)


def _own(work: UnitOfWork, actor: Actor, subscription_id: int) -> SubscriptionRow:
    """The subscription, if the user may change it."""
    require(actor, Permission.SUBSCRIBE)
    row = work.session.get(SubscriptionRow, storable_id(subscription_id))
    if row is None:
        raise NotFound(f"subscription {subscription_id} does not exist")
    if row.author != actor.user and not actor.role.includes(Role.ADMIN):
        raise RequestRefused(
            f"only {row.author!a} and admins may change this subscription",
            forbidden=True,
            cause=RefusalCause.NOT_THE_AUTHOR,
        )
    return row


def _send_now(work: UnitOfWork, row: DeliveryRow) -> None:
    row.state, row.due_ms, row.ended_ms = DeliveryState.WAITING.value, work.now_ms, None


def _counts(session: Session, state: DeliveryState) -> Mapping[str, int]:
    query = select(DeliveryRow.receiver, func.count()).where(DeliveryRow.state == state.value)
    return {each[0]: each[1] for each in session.execute(query.group_by(DeliveryRow.receiver))}


def _audit(work: UnitOfWork, actor: Actor, action: str, row_id: int, before: Terms | None, after: Terms | None) -> None:
    old, new = (None if each is None else msgspec.to_builtins(each) for each in (before, after))
    work.append_audit(AuditRecord(actor.user, action, f"subscription {row_id}", old, new))
