"""The tables of subscriptions to notifications and of deliveries."""

from __future__ import annotations

from sqlalchemy import Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from fraud_control.store.models import USER_CHARS, Base

RECEIVER_CHARS = 32


class SubscriptionRow(Base):
    """A subscription. `terms` is JSON. `digest_ms` is the time of its next digest, None without digests."""

    __tablename__ = "subscriptions"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    terms: Mapped[str]
    author: Mapped[str] = mapped_column(String(USER_CHARS))
    created_ms: Mapped[int]
    updated_ms: Mapped[int]
    digest_ms: Mapped[int | None]


class DeliveryRow(Base):
    """A notification for a receiver: a row of the outbox of notifications. `data` is JSON.

    `message_id` names the notification for the receiver, and `path` the page about it. `due_ms` is the time of the next
    attempt, `ended_ms` the time at which the row became DELIVERED or FAILED.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("ix_deliveries_due", "state", "receiver", "due_ms"),
        Index("ix_deliveries_subscription", "subscription_id", "type", "created_ms"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    message_id: Mapped[str] = mapped_column(String(36))
    subscription_id: Mapped[int | None] = mapped_column(Integer)
    receiver: Mapped[str] = mapped_column(String(RECEIVER_CHARS))
    type: Mapped[str] = mapped_column(String(16))
    title: Mapped[str]
    text: Mapped[str]
    path: Mapped[str]
    data: Mapped[str]
    state: Mapped[str] = mapped_column(String(9))
    attempts: Mapped[int] = mapped_column(Integer)
    fault: Mapped[str | None]
    created_ms: Mapped[int]
    due_ms: Mapped[int]
    ended_ms: Mapped[int | None]
