"""The verdict about a detector: a pure function of one observation, limits, and a clock that is passed in.

The shape is that of the Flink Kubernetes Operator's observers: they never act, and health is a value.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from fraud_ops.verdicts.blind import blindness
from fraud_ops.verdicts.observation import DetectorObservation, ProgressSeen
from fraud_ops.verdicts.patience import begun_at_ms, moved_at_ms, patience_ms
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.attempt import Attempt, AttemptPhase, AttemptStatus
from fraud_rules.deploy.intent import IntentKind, IntentRecord

__all__ = ["Health", "Limits", "Verdict", "health", "rival", "unsupervised"]


class Health(StrEnum):
    """How a detector is."""

    HEALTHY = "HEALTHY"
    STARTING = "STARTING"
    LAGGING = "LAGGING"  # works, and falls behind
    BLIND = "BLIND"  # works, and payments do not reach its rules
    CLOCK_SKEW = "CLOCK_SKEW"  # works, and the clocks of this host and of the broker differ
    STALLED = "STALLED"  # its process is there and makes no progress
    DEAD = "DEAD"  # is to run, and does not
    DUPLICATE = "DUPLICATE"  # two of them, or two that decide about it
    CHECKPOINT_DAMAGED = "CHECKPOINT_DAMAGED"
    CHECKPOINT_FOREIGN = "CHECKPOINT_FOREIGN"
    OFFSETS_LOST = "OFFSETS_LOST"  # records are gone before it has read them
    DISK_FULL = "DISK_FULL"
    REFUSED = "REFUSED"  # what was asked for is invalid, and nothing else is there to run
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"
    UNSUPERVISED = "UNSUPERVISED"
    AGENT_SILENT = "AGENT_SILENT"
    BROKER_DOWN = "BROKER_DOWN"

    @property
    def is_well(self) -> bool:
        """Whether it needs no alarm. Payments may still wait: pages show only HEALTHY in green."""
        return self in _WELL


_WELL = frozenset({Health.HEALTHY, Health.STARTING, Health.DRAINING, Health.STOPPED})


@dataclass(frozen=True, slots=True)
class Limits:
    """When patience ends, in ms; `lag` in transactions not yet read.

    A detector makes a batch at least every tick (10 s), so `stalled_ms` without one, and without progress within a long
    one, means that it hangs. `starting_ms` is the same for a start, its first batch included. See `HealthSettings`.
    """

    starting_ms: int = 180_000
    stalled_ms: int = 40_000
    lag: int = 100_000
    agent_silent_ms: int = 30_000
    unsupervised_ms: int = 120_000
    contested_ms: int = 30_000
    quarantined_percent: int = 20
    late_percent: int = 20
    silent_ms: int = 86_400_000
    clock_skew_ms: int = 30_000

    @classmethod
    def of(cls, settings: HealthSettings) -> Limits:
        """Those that are configured."""
        return cls(**{limit.name: getattr(settings, limit.name) for limit in fields(cls)})

    def as_dict(self) -> dict[str, int]:
        """For a trigger's arguments."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A finding with its reasons, most telling first; `error` names the detector's own error, where it had one."""

    health: Health
    reasons: tuple[str, ...]
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.health}: {'; '.join(self.reasons)}"

    def as_dict(self) -> dict[str, Any]:
        """For an event; `of` gives it back."""
        return {"health": self.health.value, "reasons": list(self.reasons), "error": self.error}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Verdict:
        """What `as_dict` made."""
        return cls(Health(document["health"]), tuple(document["reasons"]), document["error"])


def health(seen: DetectorObservation, limits: Limits, now_ms: int, supervisor: str | None = None) -> Verdict:
    """Judge an observation. `supervisor` is who asks, to tell others that decide about the same detector."""
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
"""Verdicts about a detector that works: no age of a batch or a process shows how long they have lasted."""


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
    if seen.effective is None:
        return _nothing_to_run(seen, limits, now_ms)
    found = _with_outage(_of_intent(seen, seen.effective, limits, now_ms), seen, now_ms)
    if seen.refusal is None:
        return found
    if _is_why(seen.refusal.status, seen, found):
        refused = _refused(seen.refusal.status)
        return Verdict(refused.health, (*refused.reasons, *found.reasons), refused.error)
    note = f"what was asked for last (epoch {seen.refusal.status.epoch}) was refused: {_said(seen.refusal.status)}"
    return Verdict(found.health, (*found.reasons, note), found.error)


def _with_outage(found: Verdict, seen: DetectorObservation, now_ms: int) -> Verdict:
    """A start with the length of the whole outage: its own age begins again with every attempt."""
    if found.health is not Health.STARTING or seen.progress is None:
        return found
    return replace(
        found, reasons=(*found.reasons, f"the last batch ended {_seconds(now_ms - seen.progress.append_ms)} ago")
    )


def unsupervised(seen: DetectorObservation, limits: Limits, now_ms: int) -> Verdict | None:
    """A verdict about the supervisor itself: None while somebody looks after a detector that is to run."""
    if seen.fault is not None or seen.wanted is None or seen.wanted.intent.kind is IntentKind.DRAIN:
        return None
    if now_ms - seen.wanted.append_ms <= limits.unsupervised_ms:
        return None
    if seen.deployment.supervision is None:
        return Verdict(Health.UNSUPERVISED, ("nobody has looked after the detector yet",))
    append_ms, last = seen.deployment.supervision
    age_ms = now_ms - append_ms
    if age_ms <= limits.unsupervised_ms:
        return None
    return Verdict(Health.UNSUPERVISED, (f"{last.supervisor} looked last, {_seconds(age_ms)} ago ({last.verdict})",))


def rival(seen: DetectorObservation, limits: Limits, now_ms: int, supervisor: str | None) -> str | None:
    """Another supervisor that looks after the same detector, and when it looked. Who finds one keeps quiet: one of them
    goes on undisturbed, and does what is to be done."""
    if seen.deployment.supervision is None or supervisor is None:
        return None
    append_ms, last = seen.deployment.supervision
    if last.supervisor == supervisor or now_ms - append_ms > limits.contested_ms:
        return None
    return f"{last.supervisor} supervises {seen.detector} too ({_seconds(now_ms - append_ms)} ago)"


def _duplicate(seen: DetectorObservation, limits: Limits, now_ms: int, supervisor: str | None) -> Verdict | None:
    other = rival(seen, limits, now_ms, supervisor)
    if other is not None:
        return Verdict(Health.DUPLICATE, (other,))
    if len(seen.queries) > len(set(seen.queries)):
        return Verdict(Health.DUPLICATE, (f"two queries write in turn: {', '.join(sorted(set(seen.queries)))}",))
    return None


def _nothing_to_run(seen: DetectorObservation, limits: Limits, now_ms: int) -> Verdict:
    if seen.refusal is not None:
        return _refused(seen.refusal.status)
    return _by_hand(seen, limits, now_ms, 0) or Verdict(Health.STOPPED, ("nobody has asked for it to run",))


def _by_hand(seen: DetectorObservation, limits: Limits, now_ms: int, since_ms: int) -> Verdict | None:
    """What works although nobody has asked for it: by its batches since then. None where nothing does."""
    progress = seen.progress
    if progress is None or progress.append_ms <= since_ms or now_ms - progress.append_ms > limits.stalled_ms:
        return None
    found = _by_progress(seen, progress, limits, now_ms)
    return Verdict(
        found.health, (*found.reasons, "it was started by hand: no intent asks for it, no agent looks after it")
    )


def _of_intent(seen: DetectorObservation, intent: IntentRecord, limits: Limits, now_ms: int) -> Verdict:
    attempt = seen.attempt
    if intent.intent.kind is IntentKind.DRAIN:
        return _drained(seen, intent, limits, now_ms)
    if attempt is None or attempt.status.phase is AttemptPhase.ACCEPTED:
        return _not_taken_up(seen, intent, limits, now_ms)
    if attempt.status.phase.is_terminal:
        return _ended(attempt.status)
    return _silent_agent(seen, limits, now_ms) or _at_work(seen, attempt, limits, now_ms)


def _drained(seen: DetectorObservation, intent: IntentRecord, limits: Limits, now_ms: int) -> Verdict:
    who = f"{intent.intent.requested_by} asked for it: {intent.intent.reason}"
    if not seen.is_stopped or seen.attempt is None:
        return Verdict(Health.DRAINING, (who,))
    return _by_hand(seen, limits, now_ms, seen.attempt.append_ms) or Verdict(Health.STOPPED, (who,))


def _not_taken_up(seen: DetectorObservation, intent: IntentRecord, limits: Limits, now_ms: int) -> Verdict:
    age_ms = now_ms - intent.append_ms
    silent = _silent_agent(seen, limits, now_ms)
    if silent is not None and age_ms > limits.agent_silent_ms:
        return silent
    asked = f"asked for {_seconds(age_ms)} ago (epoch {intent.epoch})"
    attempt = seen.attempt
    moved_ms = intent.append_ms if attempt is None else moved_at_ms(attempt, intent.append_ms)
    reasons = (asked,) if attempt is None or attempt.status.work is None else (_progress(attempt, now_ms), asked)
    if now_ms - moved_ms <= patience_ms(limits.starting_ms, seen, now_ms):
        return Verdict(Health.STARTING, reasons)
    dead = f"no agent has started epoch {intent.epoch} in {_seconds(age_ms)}"
    return Verdict(Health.DEAD, (dead,) if len(reasons) == 1 else (reasons[0], dead))


def _silent_agent(seen: DetectorObservation, limits: Limits, now_ms: int) -> Verdict | None:
    if seen.deployment.agent is None:
        return Verdict(Health.AGENT_SILENT, ("no agent has ever reported here: is it running? (fraud agent run)",))
    append_ms, agent = seen.deployment.agent
    age_ms = now_ms - append_ms
    if age_ms <= limits.agent_silent_ms:
        return None
    return Verdict(Health.AGENT_SILENT, (f"the agent {agent.agent} on {agent.host} was silent for {_seconds(age_ms)}",))


_NAMED = {
    "CheckpointDamaged": Health.CHECKPOINT_DAMAGED,
    "StateDamaged": Health.CHECKPOINT_DAMAGED,
    "CheckpointForeign": Health.CHECKPOINT_FOREIGN,
    "OffsetsLost": Health.OFFSETS_LOST,
    "TopicUnsuitable": Health.REFUSED,
    "Fenced": Health.DUPLICATE,
    "DetectorStopped": Health.STOPPED,
    "ConfigError": Health.REFUSED,
}
"""Errors of the detector that say what is the matter. All others are deaths like any other."""


def _ended(status: AttemptStatus) -> Verdict:
    said = _said(status)
    if "No space left" in (status.message or ""):
        return Verdict(Health.DISK_FULL, (said,), status.error_name)
    if status.phase is AttemptPhase.REFUSED:
        return _refused(status)
    return Verdict(_NAMED.get(status.error_name or "", Health.DEAD), (said,), status.error_name)


def _is_why(refusal: AttemptStatus, seen: DetectorObservation, found: Verdict) -> bool:
    """Whether a refusal is why nothing runs: of a start after a drain, or of the very release that has died, for a
    reason that lasts. Where another release was refused, the one before is started again."""
    assert seen.wanted is not None
    assert seen.effective is not None
    if found.health is Health.STOPPED:
        return seen.effective.intent.kind is IntentKind.DRAIN
    same = seen.wanted.intent.fingerprint == seen.effective.intent.fingerprint
    return found.health is Health.DEAD and same and refusal.error_name in _NAMED


def _refused(status: AttemptStatus) -> Verdict:
    named = _NAMED.get(status.error_name or "", Health.REFUSED)
    return Verdict(named, (f"refused: {_said(status)}",), status.error_name)


def _at_work(seen: DetectorObservation, attempt: Attempt, limits: Limits, now_ms: int) -> Verdict:
    status, begun_ms = attempt.status, begun_at_ms(attempt)
    progress = seen.progress
    if progress is not None and progress.append_ms >= begun_ms:
        return _in_a_batch(seen, attempt, progress, limits, now_ms) or _by_progress(seen, progress, limits, now_ms)
    told = f"{status.phase.lower()} for {_seconds(now_ms - begun_ms)}, no batch yet (epoch {status.epoch})"
    reasons = (told,) if status.work is None else (_progress(attempt, now_ms), told)
    limit_ms, still_ms = patience_ms(limits.starting_ms, seen, now_ms), now_ms - moved_at_ms(attempt, begun_ms)
    if still_ms <= limit_ms:
        return Verdict(Health.STARTING, reasons)
    return Verdict(Health.STALLED, (*reasons, _no_progress(still_ms, limit_ms)))


def _in_a_batch(
    seen: DetectorObservation, attempt: Attempt, progress: ProgressSeen, limits: Limits, now_ms: int
) -> Verdict | None:
    """The verdict about a batch that takes longer than a detector may be silent; None where there is none."""
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
    return f"its process is there and makes no progress for {_seconds(still_ms)} (limit {_seconds(limit_ms)})"


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


def _said(status: AttemptStatus) -> str:
    how = f"attempt {status.attempt_id} (epoch {status.epoch}) {status.phase.lower()}"
    why = ": ".join(each for each in (status.error_name, status.message) if each)
    code = "" if status.exit_code is None else f" with {status.exit_code}"
    return f"{how}{code}{': ' + why if why else ''}"


def _seconds(span_ms: int) -> str:
    return f"{span_ms / 1_000:.0f} s"
