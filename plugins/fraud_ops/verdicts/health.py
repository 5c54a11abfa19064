"""The verdict about a detector: a pure function of one observation, limits and the time.

The design follows the observers of the Flink Kubernetes Operator: they never act, and health is a value.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from fraud_ops.verdicts.attempt_end import assess_end, assess_refusal, describe_attempt, is_cause
from fraud_ops.verdicts.blind import blindness
from fraud_ops.verdicts.observation import DetectorObservation, ProgressSeen
from fraud_ops.verdicts.patience import begun_at_ms, moved_at_ms, patience_ms
from fraud_ops.verdicts.verdict import Health, Limits, Verdict
from fraud_rules.deploy.attempt import Attempt, AttemptPhase
from fraud_rules.deploy.intent import IntentKind, IntentRecord

__all__ = ["health", "rival", "unsupervised"]


def health(seen: DetectorObservation, limits: Limits, now_ms: int, supervisor: str | None = None) -> Verdict:
    """Assess an observation. `supervisor` is the caller's id, by which it recognizes other supervisors."""
    if seen.fault is not None:
        return Verdict(Health.BROKER_DOWN, (seen.fault,))
    found = _of_detector(seen, limits, now_ms, supervisor)
    skewed = _clock_skew(seen.skew_ms, limits)
    if skewed is not None and found.health is Health.HEALTHY:
        found = Verdict(Health.CLOCK_SKEW, (skewed, *found.reasons), found.error)
    elif skewed is not None:
        found = Verdict(found.health, (*found.reasons, skewed), found.error)
    return _with_beginning(found, seen) if found.health in _BESIDE_THE_WORK else found


_BESIDE_THE_WORK = frozenset({Health.BLIND, Health.CLOCK_SKEW})
"""Verdicts about a working detector. The age of its batch or process does not show how long they have lasted."""


def _with_beginning(found: Verdict, seen: DetectorObservation) -> Verdict:
    since = datetime.fromtimestamp(seen.verdict_since_ms(found.health.value) / 1_000, UTC)
    return replace(found, reasons=(*found.reasons, f"{found.health} since {since:%Y-%m-%d %H:%M:%S} UTC"))


def _clock_skew(skew_ms: int | None, limits: Limits) -> str | None:
    if skew_ms is None or abs(skew_ms) <= limits.clock_skew_ms:
        return None
    return f"Airflow's clock is {_seconds(abs(skew_ms))} {'ahead of' if skew_ms > 0 else 'behind'} the broker's"


def _of_detector(seen: DetectorObservation, limits: Limits, now_ms: int, supervisor: str | None) -> Verdict:
    double = _duplicate(seen, limits, now_ms, supervisor)
    if double is not None:
        return double
    if seen.effective_intent is None:
        return _nothing_to_run(seen, limits, now_ms)
    found = _with_outage(_of_intent(seen, seen.effective_intent, limits, now_ms), seen, now_ms)
    if seen.refusal is None:
        return found
    if is_cause(seen.refusal.status, seen, found):
        verdict = assess_refusal(seen.refusal.status)
        return Verdict(verdict.health, (*verdict.reasons, *found.reasons), verdict.error)
    note = f"the last request (epoch {seen.refusal.status.epoch}) was refused: {describe_attempt(seen.refusal.status)}"
    return Verdict(found.health, (*found.reasons, note), found.error)


def _with_outage(found: Verdict, seen: DetectorObservation, now_ms: int) -> Verdict:
    """Add the length of the whole outage to a start, because the age of a start is only that of its attempt."""
    if found.health is not Health.STARTING or seen.progress is None:
        return found
    return replace(
        found, reasons=(*found.reasons, f"the last batch ended {_seconds(now_ms - seen.progress.append_ms)} ago")
    )


def unsupervised(seen: DetectorObservation, limits: Limits, now_ms: int) -> Verdict | None:
    """The verdict about the supervisor itself; None if a supervisor is at work, or the detector need not run."""
    if seen.fault is not None or seen.newest_intent is None or seen.newest_intent.intent.kind is IntentKind.DRAIN:
        return None
    if now_ms - seen.newest_intent.append_ms <= limits.unsupervised_ms:
        return None
    if seen.deployment.supervision is None:
        return Verdict(Health.UNSUPERVISED, ("the detector has had no supervisor yet",))
    append_ms, last = seen.deployment.supervision
    age_ms = now_ms - append_ms
    if age_ms <= limits.unsupervised_ms:
        return None
    return Verdict(
        Health.UNSUPERVISED, (f"the last check was {_seconds(age_ms)} ago, by {last.supervisor} ({last.verdict})",)
    )


def rival(seen: DetectorObservation, limits: Limits, now_ms: int, supervisor: str | None) -> str | None:
    """A text that names another supervisor of the same detector; None without one. A supervisor that finds another one
    stays passive, so that only one acts."""
    if seen.deployment.supervision is None or supervisor is None:
        return None
    append_ms, last = seen.deployment.supervision
    if last.supervisor == supervisor or now_ms - append_ms > limits.contested_ms:
        return None
    return f"{last.supervisor} also supervises {seen.detector} (last check {_seconds(now_ms - append_ms)} ago)"


def _duplicate(seen: DetectorObservation, limits: Limits, now_ms: int, supervisor: str | None) -> Verdict | None:
    other = rival(seen, limits, now_ms, supervisor)
    if other is not None:
        return Verdict(Health.DUPLICATE, (other,))
    if len(seen.queries) > len(set(seen.queries)):
        return Verdict(Health.DUPLICATE, (f"two queries write by turns: {', '.join(sorted(set(seen.queries)))}",))
    return None


def _nothing_to_run(seen: DetectorObservation, limits: Limits, now_ms: int) -> Verdict:
    if seen.refusal is not None:
        return assess_refusal(seen.refusal.status)
    return _by_hand(seen, limits, now_ms, 0) or Verdict(Health.STOPPED, ("no start has been requested",))


def _by_hand(seen: DetectorObservation, limits: Limits, now_ms: int, since_ms: int) -> Verdict | None:
    """Assess a detector that works without an intent, from its batches after `since_ms`; None if none works."""
    progress = seen.progress
    if progress is None or progress.append_ms <= since_ms or now_ms - progress.append_ms > limits.stalled_ms:
        return None
    found = _by_progress(seen, progress, limits, now_ms)
    return Verdict(found.health, (*found.reasons, "it was started by hand, without an intent and without an agent"))


def _of_intent(seen: DetectorObservation, intent: IntentRecord, limits: Limits, now_ms: int) -> Verdict:
    attempt = seen.attempt
    if intent.intent.kind is IntentKind.DRAIN:
        return _drained(seen, intent, limits, now_ms)
    if attempt is None or attempt.status.phase is AttemptPhase.ACCEPTED:
        return _not_executed(seen, intent, limits, now_ms)
    if attempt.status.phase.is_terminal:
        return assess_end(attempt.status)
    return _silent_agent(seen, limits, now_ms) or _at_work(seen, attempt, limits, now_ms)


def _drained(seen: DetectorObservation, intent: IntentRecord, limits: Limits, now_ms: int) -> Verdict:
    request = f"requested by {intent.intent.requested_by}: {intent.intent.reason}"
    if not seen.is_stopped or seen.attempt is None:
        return Verdict(Health.DRAINING, (request,))
    return _by_hand(seen, limits, now_ms, seen.attempt.append_ms) or Verdict(Health.STOPPED, (request,))


def _not_executed(seen: DetectorObservation, intent: IntentRecord, limits: Limits, now_ms: int) -> Verdict:
    age_ms = now_ms - intent.append_ms
    silent = _silent_agent(seen, limits, now_ms)
    if silent is not None and age_ms > limits.agent_silent_ms:
        return silent
    requested = f"requested {_seconds(age_ms)} ago (epoch {intent.epoch})"
    attempt = seen.attempt
    moved_ms = intent.append_ms if attempt is None else moved_at_ms(attempt, intent.append_ms)
    reasons = (
        (requested,) if attempt is None or attempt.status.work is None else (_progress(attempt, now_ms), requested)
    )
    if now_ms - moved_ms <= patience_ms(limits.starting_ms, seen, now_ms):
        return Verdict(Health.STARTING, reasons)
    dead = f"no agent has started epoch {intent.epoch} in {_seconds(age_ms)}"
    return Verdict(Health.DEAD, (dead,) if len(reasons) == 1 else (reasons[0], dead))


def _silent_agent(seen: DetectorObservation, limits: Limits, now_ms: int) -> Verdict | None:
    if seen.deployment.agent is None:
        return Verdict(Health.AGENT_SILENT, ("no agent has reported yet: start one (fraud agent run)",))
    append_ms, agent = seen.deployment.agent
    age_ms = now_ms - append_ms
    if age_ms <= limits.agent_silent_ms:
        return None
    return Verdict(
        Health.AGENT_SILENT, (f"the agent {agent.agent} on {agent.host} has been silent for {_seconds(age_ms)}",)
    )


def _at_work(seen: DetectorObservation, attempt: Attempt, limits: Limits, now_ms: int) -> Verdict:
    status, begun_ms = attempt.status, begun_at_ms(attempt)
    progress = seen.progress
    if progress is not None and progress.append_ms >= begun_ms:
        return _in_a_batch(seen, attempt, progress, limits, now_ms) or _by_progress(seen, progress, limits, now_ms)
    state = f"{status.phase.lower()} for {_seconds(now_ms - begun_ms)}, no batch yet (epoch {status.epoch})"
    reasons = (state,) if status.work is None else (_progress(attempt, now_ms), state)
    limit_ms, still_ms = patience_ms(limits.starting_ms, seen, now_ms), now_ms - moved_at_ms(attempt, begun_ms)
    if still_ms <= limit_ms:
        return Verdict(Health.STARTING, reasons)
    return Verdict(Health.STALLED, (*reasons, _no_progress(still_ms, limit_ms)))


def _in_a_batch(
    seen: DetectorObservation, attempt: Attempt, progress: ProgressSeen, limits: Limits, now_ms: int
) -> Verdict | None:
    """The verdict about a batch that lasts longer than a detector may be silent; None for a shorter one."""
    age_ms = now_ms - progress.append_ms
    if age_ms <= limits.stalled_ms:
        return None
    batch = f"batch {progress.progress.batch_id} ended {_seconds(age_ms)} ago"
    reasons = (batch,) if attempt.status.work is None else (_progress(attempt, now_ms), batch)
    limit_ms = patience_ms(limits.stalled_ms, seen, now_ms)
    still_ms = now_ms - moved_at_ms(attempt, progress.append_ms)
    if still_ms > limit_ms:
        return Verdict(Health.STALLED, (*reasons, _no_progress(still_ms, limit_ms)))
    return Verdict(Health.LAGGING, reasons)


def _progress(attempt: Attempt, now_ms: int) -> str:
    moved_ms = moved_at_ms(attempt, attempt.append_ms)
    return f"{attempt.status.work}, last progress {_seconds(now_ms - moved_ms)} ago"


def _no_progress(still_ms: int, limit_ms: int) -> str:
    return f"its process is alive, but has made no progress for {_seconds(still_ms)} (limit {_seconds(limit_ms)})"


def _by_progress(seen: DetectorObservation, progress: ProgressSeen, limits: Limits, now_ms: int) -> Verdict:
    age_ms = now_ms - progress.append_ms
    batch = f"batch {progress.progress.batch_id} ended {_seconds(age_ms)} ago"
    blind = blindness(seen.traffic, seen.arrived_ms, limits, now_ms)
    if blind:
        return Verdict(Health.BLIND, (*blind, batch))
    lag = progress.progress.lag or 0
    if lag > limits.lag:
        return Verdict(Health.LAGGING, (f"{lag:,} transactions behind", batch))
    return Verdict(Health.HEALTHY, (batch,))


def _seconds(span_ms: int) -> str:
    return f"{span_ms / 1_000:.0f} s"
