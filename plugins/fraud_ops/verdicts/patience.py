"""How long a detector may make no progress, and since when it has made none. Pure; by the broker's clock."""

from __future__ import annotations

from typing import Final

from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.deploy.attempt import Attempt
from fraud_rules.deploy.plan import outlook

__all__ = ["begun_at_ms", "moved_at_ms", "patience_ms"]

_DOUBLINGS: Final = 6


def begun_at_ms(attempt: Attempt) -> int:
    """When the attempt's process began."""
    started_ms = attempt.status.started_ms
    return attempt.append_ms if started_ms is None else attempt.broker_ms(started_ms)


def moved_at_ms(attempt: Attempt, begun_ms: int) -> int:
    """When the attempt last made progress; `begun_ms` where it reports none."""
    work = attempt.status.work
    return begun_ms if work is None else attempt.broker_ms(work.changed_ms)


def patience_ms(limit_ms: int, seen: DetectorObservation, now_ms: int) -> int:
    """A limit that doubles with each failed start in a row: a slow machine gets through in the end."""
    failed = outlook(seen.intents, seen.deployment, now_ms).failed_starts
    return limit_ms << min(failed, _DOUBLINGS)
