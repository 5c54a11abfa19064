"""Subscriptions to notifications and their deliveries: values and read models."""

from __future__ import annotations

from collections.abc import Collection
from datetime import time
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from pydantic import Field

from fraud_control.domain.alert_search import AlertSeverity
from fraud_control.domain.quiet_hours import QuietHours, next_local_time_ms
from fraud_control.domain.read_models import EpochMs, ReadModel
from fraud_ops.notifications import ReceiverKind

SUMMARY: Final = "summary"
TEST: Final = "test"


class SubscribedEvent(StrEnum):
    """An event that a subscription can name. PREDICTION: a rule that the owner of the subscription wrote or approved is
    outside of its prediction. HANDOVER: a case was handed over to the owner.
    """

    ALERT = "alert"
    APPROVAL = "approval"
    DIGEST = "digest"
    PREDICTION = "prediction"
    HANDOVER = "handover"


class DeliveryState(StrEnum):
    """WAITING also stands for a delivery that failed and is sent again."""

    WAITING = "WAITING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


class Terms(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The content of a subscription. Empty filters select everything; several filters all apply.

    Clock times have the form HH:MM. `quiet_from` and `quiet_until` are both set or both empty; `digest_at` is set if
    `events` has `digest`.
    """

    name: str
    receiver: str
    events: tuple[SubscribedEvent, ...]
    severities: tuple[AlertSeverity, ...] = ()
    rule_ids: tuple[int, ...] = ()
    owners: tuple[str, ...] = ()
    time_zone: str = "UTC"
    quiet_from: str = ""
    quiet_until: str = ""
    digest_at: str = ""

    def selects(self, event: SubscribedEvent, rule_id: int | None, severity: str, owner: str) -> bool:
        """Whether the subscription is about an event of a rule, or of none. `severity` may be any text."""
        known: Collection[str] = tuple(AlertSeverity)
        level = severity.lower() if severity.lower() in known else AlertSeverity.OTHER
        return (
            event in self.events
            and (not self.rule_ids or rule_id in self.rule_ids)
            and (not self.severities or level in self.severities)
            and (not self.owners or owner in self.owners)
        )

    def quiet_until_ms(self, at_ms: int) -> int | None:
        """The end of the quiet hours that contain a time, in epoch ms; None outside of them."""
        if not self.quiet_from:
            return None
        start, end = time.fromisoformat(self.quiet_from), time.fromisoformat(self.quiet_until)
        return QuietHours(start, end, ZoneInfo(self.time_zone)).end_ms(at_ms)

    def next_digest_ms(self, after_ms: int) -> int | None:
        """The time of the first digest after a time, in epoch ms; None without digests."""
        if SubscribedEvent.DIGEST not in self.events:
            return None
        return next_local_time_ms(time.fromisoformat(self.digest_at), ZoneInfo(self.time_zone), after_ms)


class Subscription(ReadModel):
    """A subscription with its author. Empty texts and lists stand for no quiet hours, no digest, and no filter."""

    id: int
    name: str
    receiver: str
    events: list[SubscribedEvent]
    severities: list[AlertSeverity]
    rule_ids: list[int]
    owners: list[str]
    time_zone: str
    quiet_from: str
    quiet_until: str
    digest_at: str
    author: str
    created_ms: EpochMs = Field(serialization_alias="createdAt")
    updated_ms: EpochMs = Field(serialization_alias="updatedAt")


class Delivery(ReadModel):
    """A notification for a receiver. `type` is the event, `summary` or `test`. `fault` is the reason why the last
    attempt failed. `due_ms` is the time of the next attempt.
    """

    id: int
    subscription_id: int | None
    receiver: str
    type: str
    title: str
    state: DeliveryState
    attempts: int
    fault: str | None
    created_ms: EpochMs = Field(serialization_alias="createdAt")
    due_ms: EpochMs = Field(serialization_alias="dueAt")
    ended_ms: EpochMs | None = Field(serialization_alias="endedAt")


class ReceiverShown(ReadModel):
    """A receiver of the settings. `ready`: its connection exists. `waiting` and `failed` count deliveries."""

    name: str
    kind: ReceiverKind
    connection: str
    ready: bool
    waiting: int
    failed: int
