"""The terms of subscriptions: their form in the store, and their validation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.errors import Invalid
from fraud_control.domain.notification_models import SubscribedEvent, Subscription, Terms
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.notification_models import SubscriptionRow
from fraud_rules.errors import Reason
from fraud_rules.runtime.safe_text import is_unprintable

_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
_NAME_CHARS: Final = 80
_OWNER_CHARS: Final = 256
_MOST_RULES: Final = 200
_MOST_OWNERS: Final = 50

_decode = msgspec.json.Decoder(Terms).decode


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A subscription with its decoded terms."""

    row: SubscriptionRow
    terms: Terms


def subscribers(session: Session, event: SubscribedEvent) -> list[Subscriber]:
    """The subscriptions to an event."""
    rows = session.scalars(select(SubscriptionRow).order_by(SubscriptionRow.id))
    every = [Subscriber(row, terms_of(row)) for row in rows]
    return [each for each in every if event in each.terms.events]


def terms_of(row: SubscriptionRow) -> Terms:
    """Read the terms of a subscription."""
    return _decode(row.terms)


def encode_terms(terms: Terms) -> str:
    """Encode the terms for the store."""
    return msgspec.json.encode(terms).decode()


def subscription_of(row: SubscriptionRow) -> Subscription:
    """Build the read model of a subscription."""
    own = {name: getattr(row, name) for name in ("id", "author", "created_ms", "updated_ms")}
    return Subscription.model_validate(msgspec.structs.asdict(terms_of(row)) | own)


def check_terms(terms: Terms, settings: ControlPlaneSettings) -> None:
    """Raise Invalid with all faults of the terms."""
    reasons = [Reason(member, fault) for member, fault in _faults(terms, settings) if fault]
    if reasons:
        raise Invalid(reasons)


def _faults(terms: Terms, settings: ControlPlaneSettings) -> list[tuple[str, str]]:
    daily = SubscribedEvent.DIGEST in terms.events
    return [
        ("name", _text_fault(terms.name, _NAME_CHARS)),
        ("receiver", "" if terms.receiver in settings.receivers else "is not a receiver of the settings"),
        ("events", "" if terms.events else "must name at least one event"),
        ("ruleIds", "" if len(terms.rule_ids) <= _MOST_RULES else f"may have at most {_MOST_RULES} rules"),
        ("owners", "" if len(terms.owners) <= _MOST_OWNERS else f"may have at most {_MOST_OWNERS} owners"),
        *(("owners", _text_fault(owner, _OWNER_CHARS)) for owner in terms.owners[:_MOST_OWNERS]),
        ("timeZone", _zone_fault(terms.time_zone)),
        ("quietFrom", _quiet_fault(terms.quiet_from, terms.quiet_until)),
        ("digestAt", "" if _CLOCK.fullmatch(terms.digest_at) or not daily else "must be a time such as 08:00"),
    ]


def _text_fault(text: str, most: int) -> str:
    fits = bool(text.strip()) and len(text) <= most and not is_unprintable(text) and "\n" not in text
    return "" if fits else f"must be one line of 1 to {most} characters"


def _zone_fault(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return "must be the name of a time zone, such as Europe/Berlin"
    return ""


def _quiet_fault(start: str, end: str) -> str:
    if not start and not end:
        return ""
    if not _CLOCK.fullmatch(start) or not _CLOCK.fullmatch(end) or start == end:
        return "and quietUntil must be two different times such as 22:00 and 07:00"
    return ""
