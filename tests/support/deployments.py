"""A release, and intents to run or drain it."""

from __future__ import annotations

from fraud_rules.deploy.intent import Intent, IntentKind
from fraud_rules.deploy.release import Release

RELEASE = Release(
    code="c0de",
    settings="detector: cards\n",
    schema="fields: [{name: transactionId, type: long}, {name: eventTime, type: timestamp}]",
    checkpoint="/data/checkpoint",
    bootstrap="kafka:9092",
)


def run(after: int, attempt_id: str = "a", detector: str = "cards", release: Release = RELEASE) -> Intent:
    return Intent(detector, IntentKind.RUN, attempt_id, after, "because", "me", "test", 0, release)


def drain(after: int, attempt_id: str = "d") -> Intent:
    return Intent("cards", IntentKind.DRAIN, attempt_id, after, "because", "me", "test", 0)
