"""How long a detector may make no progress, and when it last made some. Pure; all times are the broker's."""

from __future__ import annotations

from typing import Final

from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.deploy.attempt import Attempt
from fraud_rules.deploy.plan import outlook

__all__ = ["begun_at_ms", "moved_at_ms", "patience_ms"]

_DOUBLINGS: Final = 6


def begun_at_ms(attempt: Attempt) -> int:
    """The start time of the attempt's process."""
    started_ms = attempt.status.started_ms
    return attempt.append_ms if started_ms is None else attempt.broker_ms(started_ms)


def moved_at_ms(attempt: Attempt, begun_ms: int) -> int:
    """The time of the attempt's last progress; `begun_ms` if it reports none."""
    work = attempt.status.work
    return begun_ms if work is None else attempt.broker_ms(work.changed_ms)


def patience_ms(limit_ms: int, seen: DetectorObservation, now_ms: int) -> int:
    """The limit, doubled for each consecutive failed start, so that a slow machine succeeds in the end."""
    failed = outlook(seen.intents, seen.deployment, now_ms).failed_starts
    return limit_ms << min(failed, _DOUBLINGS)
