"""Subscriptions to notifications and their deliveries: values and read models."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from pydantic import Field

from fraud_control.domain.alert_search import AlertSeverity
from fraud_control.domain.read_models import EpochMs, ReadModel
from fraud_ops.notifications import ReceiverKind
from fraud_rules.runtime.clock import utc


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A quiet period of each day, from `start` (inclusive) to `end` (exclusive). It may span midnight."""

    start: time
    end: time
    zone: ZoneInfo

    def end_ms(self, at_ms: int) -> int | None:
        """The end of the quiet hours that contain a time, in epoch ms; None outside of them."""
        local = _local(at_ms, self.zone)
        clock = local.time().replace(fold=0)
        ends_today = clock < self.end
        if not (self.start <= clock and ends_today if self.start < self.end else self.start <= clock or ends_today):
            return None
        # Where clocks go back, they show the end twice.
        again_ms = _at_ms(local.date(), self.end.replace(fold=1), self.zone)
        if again_ms > at_ms and _local(again_ms, self.zone).fold:
            return min(again_ms, next_local_time_ms(self.end, self.zone, at_ms))
        return next_local_time_ms(self.end, self.zone, at_ms)


def next_local_time_ms(clock: time, zone: ZoneInfo, after_ms: int) -> int:
    """The first time after `after_ms` at which clocks in the zone show `clock` for the first time on a day. On a day
    when clocks skip this time, it is the time that clocks would show without the change.
    """
    day = _local(after_ms, zone).date()
    found_ms = [_at_ms(day + timedelta(days=days), clock, zone) for days in range(3)]
    return next(each for each in found_ms if each > after_ms)


def _local(at_ms: int, zone: ZoneInfo) -> datetime:
    return utc(at_ms).astimezone(zone)


def _at_ms(day: date, clock: time, zone: ZoneInfo) -> int:
    return int(datetime.combine(day, clock, zone).timestamp() * 1_000)


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
