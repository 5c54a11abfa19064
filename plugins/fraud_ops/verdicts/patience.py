"""How long a detector may make no progress or get no payments, and when its last progress was. Pure; all times are the
broker's.
"""

from __future__ import annotations

from typing import Final

from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.deploy.attempt import Attempt
from fraud_rules.deploy.plan import outlook

_DOUBLINGS: Final = 6


def process_start_ms(attempt: Attempt) -> int:
    """The start time of the attempt's process."""
    started_ms = attempt.status.started_ms
    return attempt.append_ms if started_ms is None else attempt.broker_ms(started_ms)


def last_progress_ms(attempt: Attempt, start_ms: int) -> int:
    """The time of the attempt's last progress; `start_ms` if it reports none."""
    work = attempt.status.work
    return start_ms if work is None else attempt.broker_ms(work.changed_ms)


def patience_ms(limit_ms: int, observation: DetectorObservation, now_ms: int) -> int:
    """`limit_ms`, doubled for each consecutive failed start (at most six times), so that a slow machine succeeds in the
    end."""
    failed = outlook(observation.intents, observation.deployment, now_ms).failed_starts
    return limit_ms << min(failed, _DOUBLINGS)


def silence(arrived_ms: int | None, silent_ms: int, now_ms: int) -> str | None:
    """The reason why a detector is blind: no transaction has arrived for `silent_ms` (0: no limit). None otherwise.

    `arrived_ms` is the append time of the newest transaction: 0 if retention has removed all transactions, None if no
    transaction ever arrived or the time is unknown. None is no reason, because a new installation is not blind.
    `now_ms` is the broker's time.
    """
    if arrived_ms is None or silent_ms == 0 or now_ms - arrived_ms < silent_ms:
        return None
    if arrived_ms == 0:
        return "the topic of transactions is empty: retention has removed the last transaction"
    return f"no transaction has arrived for {(now_ms - arrived_ms) / 3_600_000:.1f} h"
