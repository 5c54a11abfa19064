"""Plans the next start from past attempts: the wait, the alarm and the rollback. Pure.

A failed start is an attempt that failed before it had committed enough batches to count as proven. A proven attempt
that dies later is not a failed start and is restarted at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fraud_rules.deploy.attempt import Attempt, AttemptPhase, DeploymentReports
from fraud_rules.deploy.intent import IntentKind, IntentLog, IntentRecord
from fraud_rules.deploy.release import Release


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The limits of a plan. After k failed starts in a row the wait is `first_wait_ms` * 2^(k-1), at most
    `longest_wait_ms`."""

    first_wait_ms: int = 5_000
    longest_wait_ms: int = 300_000
    alarm_after: int = 3
    roll_back_after: int = 5
    proven_batches: int = 10


@dataclass(frozen=True, slots=True)
class Outlook:
    """The plan for the next start of the desired release.

    `failed_starts` counts failed starts in a row. `due_ms` is the earliest time of the next start, 0 for at once.
    `alarm` requests a person's attention. `roll_back_to` is None until the desired release has failed too often. Then
    it is the newest other release that is proven and has not failed since, if there is one.
    A start that was ended as stalled after some progress points to a slow machine, not to a bad release. So it counts
    for the wait, the time limits and the alarm, but not for the rollback.
    """

    failed_starts: int
    due_ms: int
    alarm: bool
    roll_back_to: Release | None


def outlook(
    intents: IntentLog, deployment: DeploymentReports, now_ms: int, limits: PlanLimits | None = None
) -> Outlook:
    """Plan the next start. `due_ms` is at most `longest_wait_ms` after `now_ms`."""
    limits = limits or PlanLimits()
    series = _run_series(intents)
    failures = _failures(series, deployment, limits)
    count = len(failures)
    due_ms = 0
    if count:
        wait_ms = min(limits.first_wait_ms * 2 ** (count - 1), limits.longest_wait_ms)
        due_ms = min(failures[0].append_ms, now_ms) + wait_ms
    target = None
    if series and sum(not each.status.was_progressing for each in failures) >= limits.roll_back_after:
        target = _proven_before(series[0], intents, deployment, limits)
    return Outlook(count, due_ms, count >= limits.alarm_after, target)


def _run_series(intents: IntentLog) -> Sequence[IntentRecord]:
    """The consecutive intents to run the desired release, newest first, back to a DRAIN or to another release."""
    series: list[IntentRecord] = []
    for record in reversed(intents.valid):
        if record.intent.kind is not IntentKind.RUN:
            break
        if series and record.intent.fingerprint != series[0].intent.fingerprint:
            break
        series.append(record)
    return series


def _failures(series: Sequence[IntentRecord], deployment: DeploymentReports, limits: PlanLimits) -> Sequence[Attempt]:
    """The failed starts since the last proven attempt, newest first."""
    failures = []
    for record in series:
        attempt = deployment.attempts.get(record.intent.attempt_id)
        if attempt is None:
            continue
        if attempt.status.batches_committed >= limits.proven_batches:
            break
        if attempt.status.phase.is_failure:
            failures.append(attempt)
    return failures


def _proven_before(
    record: IntentRecord, intents: IntentLog, deployment: DeploymentReports, limits: PlanLimits
) -> Release | None:
    excluded = {record.intent.fingerprint}
    for record in reversed(intents.valid):
        release, attempt = record.intent.release, deployment.attempts.get(record.intent.attempt_id)
        if release is None or attempt is None or record.intent.fingerprint in excluded:
            continue
        status = attempt.status
        if status.batches_committed >= limits.proven_batches:
            return release
        if status.phase.is_failure or status.phase is AttemptPhase.SUPERSEDED:
            excluded.add(record.intent.fingerprint)
    return None
