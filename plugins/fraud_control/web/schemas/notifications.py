"""Schemas of notifications: receivers, subscriptions and deliveries."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from fraud_control.domain.alert_search import AlertSeverity
from fraud_control.domain.notification_models import (
    Delivery,
    ReceiverShown,
    SubscribedEvent,
    Subscription,
    Terms,
)
from fraud_control.web.schemas.base import Items, Paged, Request, ResponseModel, RuleId

_Clock = Annotated[str, Field(max_length=5, description="A time of the day as HH:MM; empty for none.")]


class SubscriptionRequest(Request):
    """The terms of a subscription. An empty filter selects everything, and several filters all apply."""

    name: Annotated[str, Field(max_length=80)]
    receiver: Annotated[str, Field(max_length=32)]
    events: Annotated[frozenset[SubscribedEvent], Field(max_length=len(SubscribedEvent))]
    severities: Annotated[frozenset[AlertSeverity], Field(max_length=5)] = frozenset()
    rule_ids: Annotated[list[RuleId], Field(max_length=200, default_factory=list)]
    owners: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=50, default_factory=list)]
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    quiet_from: _Clock = ""
    quiet_until: _Clock = ""
    digest_at: _Clock = ""

    def terms(self) -> Terms:
        """The terms. The store validates them."""
        return Terms(
            name=self.name.strip(),
            receiver=self.receiver,
            events=tuple(each for each in SubscribedEvent if each in self.events),
            severities=tuple(each for each in AlertSeverity if each in self.severities),
            rule_ids=tuple(sorted(set(self.rule_ids))),
            owners=tuple(sorted({owner.strip() for owner in self.owners})),
            time_zone=self.time_zone,
            quiet_from=self.quiet_from,
            quiet_until=self.quiet_until,
            digest_at=self.digest_at,
        )


class Retried(ResponseModel):
    """The number of deliveries that are sent again."""

    count: int


Receivers: TypeAlias = Items[ReceiverShown]
Subscriptions: TypeAlias = Items[Subscription]
Deliveries: TypeAlias = Paged[Delivery, str]
