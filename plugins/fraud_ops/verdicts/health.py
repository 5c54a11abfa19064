"""Assesses a detector. The verdict is a pure function of one observation, the limits and the time.

As in the Flink Kubernetes Operator, code that observes and assesses never acts, and health is a value.
"""

from __future__ import annotations

from dataclasses import replace

from fraud_ops.verdicts.attempt_end import NOT_ALLOWED, assess_end, assess_refusal, describe_attempt, is_cause
from fraud_ops.verdicts.observation import DetectorObservation, NewestProgress
from fraud_ops.verdicts.patience import last_progress_ms, patience_ms, process_start_ms, silence
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.attempt import Attempt, AttemptPhase
from fraud_rules.deploy.heartbeat import AGENT_SILENT_MS
from fraud_rules.deploy.intent import IntentKind, IntentRecord
from fraud_rules.errors import Fenced
from fraud_rules.monitoring.shares import high_shares
from fraud_rules.runtime.clock import utc

_CONTESTED_MS = 30_000
"""Two supervisors that both report within this time are duplicates."""

_CLOCK_SKEW_MS = 30_000
"""The largest difference between the clocks of Airflow, the agent and the broker."""


def assess_detector(
    observation: DetectorObservation, limits: HealthSettings, now_ms: int, supervisor: str | None = None
) -> Verdict:
    """Assess an observation. `supervisor` is the caller's own id. With it, the verdict is DUPLICATE if another
    supervisor is active."""
    if observation.fault is not None:
        return Verdict(Health.BROKER_DOWN, (observation.fault,))
    verdict = _assess_requested(observation, limits, now_ms, supervisor)
    if observation.hidden_reports is not None and verdict.health in _BY_SILENCE:
        verdict = Verdict(Health.HUNG_PRODUCER, (observation.hidden_reports.describe(now_ms), *verdict.reasons))
    skewed = _clock_skews(observation)
    if skewed and verdict.health is Health.HEALTHY:
        verdict = Verdict(Health.CLOCK_SKEW, (*skewed, *verdict.reasons), verdict.error)
    elif skewed:
        verdict = Verdict(verdict.health, (*verdict.reasons, *skewed), verdict.error)
    return _with_start_time(verdict, observation) if verdict.health in _WITHOUT_START_TIME else verdict


_BY_SILENCE = frozenset({Health.STALLED, Health.AGENT_SILENT})
"""Verdicts that follow from missing reports. They are wrong while another program's transaction hides the reports."""

_WITHOUT_START_TIME = frozenset(
    {Health.HUNG_PRODUCER, Health.MOSTLY_QUARANTINED, Health.MOSTLY_LATE, Health.BLIND, Health.CLOCK_SKEW}
)
"""Verdicts about a working detector. Its batches and its process do not show when the verdict began, so the reasons get
that time."""


def _with_start_time(verdict: Verdict, observation: DetectorObservation) -> Verdict:
    start = utc(observation.verdict_since_ms(verdict.health.value))
    return replace(verdict, reasons=(*verdict.reasons, f"{verdict.health} since {start:%Y-%m-%d %H:%M:%S} UTC"))


def _clock_skews(observation: DetectorObservation) -> list[str]:
    """A reason for each clock that differs from the broker's by more than the limit."""
    skews = {"Airflow's clock": observation.skew_ms, "the detector's clock": observation.detector_skew_ms}
    return [
        f"{name} is {_in_seconds(abs(skew_ms))} {'ahead of' if skew_ms > 0 else 'behind'} the broker's"
        for name, skew_ms in skews.items()
        if skew_ms is not None and abs(skew_ms) > _CLOCK_SKEW_MS
    ]


def _assess_requested(
    observation: DetectorObservation, limits: HealthSettings, now_ms: int, supervisor: str | None
) -> Verdict:
    duplicate = _assess_duplicate(observation, now_ms, supervisor)
    if duplicate is not None:
        return duplicate
    if observation.effective_intent is None:
        return _assess_without_intent(observation, limits, now_ms)
    verdict = _with_last_batch(
        _assess_intent(observation, observation.effective_intent, limits, now_ms), observation, now_ms
    )
    if observation.refusal is None:
        return verdict
    refused = observation.refusal.status
    if is_cause(refused, observation, verdict):
        refusal = assess_refusal(refused)
        return Verdict(refusal.health, (*refusal.reasons, *verdict.reasons), refusal.error)
    reason = f"the last request (epoch {refused.epoch}) was refused: {describe_attempt(refused)}"
    if verdict.health is Health.HEALTHY and refused.error_name in NOT_ALLOWED:
        return Verdict(Health.REFUSED, (reason, *verdict.reasons), refused.error_name)
    return Verdict(verdict.health, (*verdict.reasons, reason), verdict.error)


def _with_last_batch(verdict: Verdict, observation: DetectorObservation, now_ms: int) -> Verdict:
    """Add the age of the last batch to STARTING, because the age of the attempt covers only a part of the outage."""
    if verdict.health is not Health.STARTING or observation.progress is None:
        return verdict
    return replace(
        verdict,
        reasons=(*verdict.reasons, f"the last batch ended {_in_seconds(now_ms - observation.progress.append_ms)} ago"),
    )


def assess_supervision(observation: DetectorObservation, limits: HealthSettings, now_ms: int) -> Verdict | None:
    """UNSUPERVISED if no supervisor has checked a detector lately that should run; None otherwise."""
    if (
        observation.fault is not None
        or observation.newest_intent is None
        or observation.newest_intent.intent.kind is IntentKind.DRAIN
    ):
        return None
    if now_ms - observation.newest_intent.append_ms <= limits.unsupervised_ms:
        return None
    if observation.deployment.supervision is None:
        return Verdict(Health.UNSUPERVISED, ("no supervisor has checked the detector yet",))
    append_ms, last = observation.deployment.supervision
    age_ms = now_ms - append_ms
    if age_ms <= limits.unsupervised_ms:
        return None
    return Verdict(
        Health.UNSUPERVISED, (f"the last check was {_in_seconds(age_ms)} ago, by {last.supervisor} ({last.verdict})",)
    )


def other_supervisor(observation: DetectorObservation, now_ms: int, supervisor: str | None) -> str | None:
    """A text that names another active supervisor of the detector; None without one. A supervisor that finds another
    one stays passive, so that only one acts."""
    if observation.deployment.supervision is None or supervisor is None:
        return None
    append_ms, last = observation.deployment.supervision
    if last.supervisor == supervisor or now_ms - append_ms > _CONTESTED_MS:
        return None
    return (
        f"{last.supervisor} also supervises {observation.detector} (last check {_in_seconds(now_ms - append_ms)} ago)"
    )


def _assess_duplicate(observation: DetectorObservation, now_ms: int, supervisor: str | None) -> Verdict | None:
    other = other_supervisor(observation, now_ms, supervisor)
    if other is not None:
        return Verdict(Health.DUPLICATE, (other,))
    if len(observation.writers) > len(set(observation.writers)):
        return Verdict(
            Health.DUPLICATE, (f"two starts write alternately: {', '.join(sorted(set(observation.writers)))}",)
        )
    return None


def _assess_without_intent(observation: DetectorObservation, limits: HealthSettings, now_ms: int) -> Verdict:
    if observation.refusal is not None:
        return assess_refusal(observation.refusal.status)
    return _assess_unrequested(observation, limits, now_ms, 0) or Verdict(
        Health.STOPPED, ("no start has been requested",)
    )


def _assess_unrequested(
    observation: DetectorObservation, limits: HealthSettings, now_ms: int, since_ms: int
) -> Verdict | None:
    """Assess a detector that runs without an intent, from its batches after `since_ms`; None without recent batches."""
    progress = observation.progress
    if progress is None or progress.append_ms <= since_ms or now_ms - progress.append_ms > limits.stalled_ms:
        return None
    verdict = _assess_batches(observation, progress, limits, now_ms)
    reason = "the detector was started by hand, without an intent or an agent"
    return Verdict(verdict.health, (*verdict.reasons, reason))


def _assess_intent(
    observation: DetectorObservation, intent: IntentRecord, limits: HealthSettings, now_ms: int
) -> Verdict:
    attempt = observation.attempt
    if intent.intent.kind is IntentKind.DRAIN:
        return _assess_drain(observation, intent, limits, now_ms)
    if attempt is None or attempt.status.phase is AttemptPhase.ACCEPTED:
        return _assess_pending_intent(observation, intent, limits, now_ms)
    if attempt.status.phase.is_terminal:
        return _assess_takeover(observation, attempt, limits, now_ms) or assess_end(attempt.status)
    return _assess_agent(observation, now_ms) or _assess_process(observation, attempt, limits, now_ms)


def _assess_takeover(
    observation: DetectorObservation, attempt: Attempt, limits: HealthSettings, now_ms: int
) -> Verdict | None:
    """DEAD for a fenced detector if no other one has written a batch for as long as a start may take; else None.

    The broker also fences a detector whose host was suspended for a while. Then nothing else runs.
    """
    if attempt.status.error_name != Fenced.__name__:
        return None
    written_ms = 0 if observation.progress is None else observation.progress.append_ms
    idle_ms = now_ms - max(attempt.append_ms, written_ms)
    if idle_ms <= limits.starting_ms:
        return None
    nothing = f"no other detector has written a batch for {_in_seconds(idle_ms)}"
    return Verdict(Health.DEAD, (nothing, describe_attempt(attempt.status)), attempt.status.error_name)


def _assess_drain(
    observation: DetectorObservation, intent: IntentRecord, limits: HealthSettings, now_ms: int
) -> Verdict:
    request = f"requested by {intent.intent.requested_by}: {intent.intent.reason}"
    if not observation.is_stopped or observation.attempt is None:
        return Verdict(Health.DRAINING, (request,))
    return _assess_unrequested(observation, limits, now_ms, observation.attempt.append_ms) or Verdict(
        Health.STOPPED, (request,)
    )


def _assess_pending_intent(
    observation: DetectorObservation, intent: IntentRecord, limits: HealthSettings, now_ms: int
) -> Verdict:
    age_ms = now_ms - intent.append_ms
    silent = _assess_agent(observation, now_ms)
    if silent is not None and age_ms > AGENT_SILENT_MS:
        return silent
    requested = f"requested {_in_seconds(age_ms)} ago (epoch {intent.epoch})"
    attempt = observation.attempt
    progress_ms = intent.append_ms if attempt is None else last_progress_ms(attempt, intent.append_ms)
    reasons = (
        (requested,) if attempt is None or attempt.status.work is None else (_describe_work(attempt, now_ms), requested)
    )
    if now_ms - progress_ms <= patience_ms(limits.starting_ms, observation, now_ms):
        return Verdict(Health.STARTING, reasons)
    overdue = f"no agent has started epoch {intent.epoch} in {_in_seconds(age_ms)}"
    return Verdict(Health.DEAD, (overdue,) if len(reasons) == 1 else (reasons[0], overdue))


def _assess_agent(observation: DetectorObservation, now_ms: int) -> Verdict | None:
    if observation.deployment.agent is None:
        return Verdict(Health.AGENT_SILENT, ("no agent has reported yet: start an agent (fraud detector agent)",))
    append_ms, agent = observation.deployment.agent
    age_ms = now_ms - append_ms
    if age_ms <= AGENT_SILENT_MS:
        return None
    return Verdict(
        Health.AGENT_SILENT, (f"the agent {agent.agent} on {agent.host} has been silent for {_in_seconds(age_ms)}",)
    )


def _assess_process(observation: DetectorObservation, attempt: Attempt, limits: HealthSettings, now_ms: int) -> Verdict:
    status, start_ms = attempt.status, process_start_ms(attempt)
    progress = observation.progress
    if progress is not None and progress.append_ms >= start_ms:
        return _assess_long_batch(observation, attempt, progress, limits, now_ms) or _assess_batches(
            observation, progress, limits, now_ms
        )
    state = f"{status.phase.lower()} for {_in_seconds(now_ms - start_ms)}, no batch yet (epoch {status.epoch})"
    reasons = (state,) if status.work is None else (_describe_work(attempt, now_ms), state)
    limit_ms = patience_ms(limits.starting_ms, observation, now_ms)
    idle_ms = now_ms - last_progress_ms(attempt, start_ms)
    if idle_ms <= limit_ms:
        return Verdict(Health.STARTING, reasons)
    return Verdict(Health.STALLED, (*reasons, _describe_standstill(idle_ms, limit_ms)))


def _assess_long_batch(
    observation: DetectorObservation, attempt: Attempt, progress: NewestProgress, limits: HealthSettings, now_ms: int
) -> Verdict | None:
    """Assess a detector whose current batch takes longer than `stalled_ms`; None for a shorter batch."""
    age_ms = now_ms - progress.append_ms
    if age_ms <= limits.stalled_ms:
        return None
    batch = f"batch {progress.progress.batch_id} ended {_in_seconds(age_ms)} ago"
    reasons = (batch,) if attempt.status.work is None else (_describe_work(attempt, now_ms), batch)
    limit_ms = patience_ms(limits.stalled_ms, observation, now_ms)
    idle_ms = now_ms - last_progress_ms(attempt, progress.append_ms)
    if idle_ms > limit_ms:
        return Verdict(Health.STALLED, (*reasons, _describe_standstill(idle_ms, limit_ms)))
    return Verdict(Health.LAGGING, reasons)


def _describe_work(attempt: Attempt, now_ms: int) -> str:
    progress_ms = last_progress_ms(attempt, attempt.append_ms)
    return f"{attempt.status.work}, last progress {_in_seconds(now_ms - progress_ms)} ago"


def _describe_standstill(idle_ms: int, limit_ms: int) -> str:
    return f"the process is alive, but has made no progress for {_in_seconds(idle_ms)} (limit {_in_seconds(limit_ms)})"


def _assess_batches(
    observation: DetectorObservation, progress: NewestProgress, limits: HealthSettings, now_ms: int
) -> Verdict:
    age_ms = now_ms - progress.append_ms
    batch = f"batch {progress.progress.batch_id} ended {_in_seconds(age_ms)} ago"
    hidden = observation.open_transaction
    if hidden is not None and hidden.age_ms(now_ms) > limits.open_transaction_ms:
        return Verdict(Health.HUNG_PRODUCER, (hidden.describe(now_ms), batch))
    shares = list(high_shares(observation.traffic, limits))
    if shares:
        reasons = (*(each.share for each in shares), *(each.remedy for each in shares), batch)
        return Verdict(Health(shares[0].verdict.value), reasons)
    silent = silence(observation.arrived_ms, limits.silent_ms, now_ms)
    if silent is not None:
        return Verdict(Health.BLIND, (silent, batch))
    lag = progress.progress.lag or 0
    if lag > limits.lag:
        return Verdict(Health.LAGGING, (f"{lag:,} transactions behind", batch))
    return Verdict(Health.HEALTHY, (batch,))


def _in_seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1_000:.0f} s"
