"""A release, and intents to run or drain it."""

from __future__ import annotations

from collections.abc import Iterable

from fraud_rules.deploy.intent import SIGNATURE, Intent, IntentKind
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.deploy.release import Release
from fraud_rules.kafka.reader import Record

RELEASE = Release(
    code="c0de",
    settings="detector: cards\n",
    schema="fields: [{name: transactionId, type: long}, {name: eventTime, type: timestamp}]",
    bootstrap="kafka:9092",
)


KEY = "k" * 64
KEYS = IntentKeys(KEY, "a test")


def records_of(intents: Iterable[Intent | None], step_ms: int = 0, keys: IntentKeys = KEYS) -> list[Record]:
    """The records of a log with signed intents. None stands for a record without a value."""
    values = [None if intent is None else intent.encode() for intent in intents]
    return [
        Record(offset, offset * step_ms, None, value, [] if value is None else [(SIGNATURE, keys.sign(value))])
        for offset, value in enumerate(values)
    ]


def run(after: int, attempt_id: str = "a", detector: str = "cards", release: Release = RELEASE) -> Intent:
    return Intent(detector, IntentKind.RUN, attempt_id, after, "because", "me", "test", 0, release)


def drain(after: int, attempt_id: str = "d") -> Intent:
    return Intent("cards", IntentKind.DRAIN, attempt_id, after, "because", "me", "test", 0)
