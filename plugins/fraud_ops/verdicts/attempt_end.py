"""Assesses attempts that have ended or were refused. Pure."""

from __future__ import annotations

from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.deploy.attempt import AttemptPhase, AttemptStatus
from fraud_rules.deploy.intent import IntentKind
from fraud_rules.errors import IntentForged, ReleaseNotAllowed

_NAMED = {
    "CheckpointDamaged": Health.CHECKPOINT_DAMAGED,
    "StateDamaged": Health.CHECKPOINT_DAMAGED,
    "CheckpointForeign": Health.CHECKPOINT_FOREIGN,
    "OffsetsLost": Health.OFFSETS_LOST,
    "StorageFull": Health.DISK_FULL,
    "TopicUnsuitable": Health.TOPIC_UNSUITABLE,
    "Fenced": Health.DUPLICATE,
    "DetectorStopped": Health.STOPPED,
    "ConfigError": Health.REFUSED,
    ReleaseNotAllowed.__name__: Health.REFUSED,
    IntentForged.__name__: Health.REFUSED,
}
"""Errors of the detector with a verdict of their own. All others lead to DEAD."""

_BY_FULL_DISK = frozenset({Health.DEAD, Health.CHECKPOINT_DAMAGED})
"""The verdicts about an end that a full disk may have caused. It does not change others, such as a requested stop."""

NOT_ALLOWED = frozenset({ReleaseNotAllowed.__name__, IntentForged.__name__})
"""Refusals that can point to an attack, so they raise an alarm while the previous detector works."""


def assess_end(status: AttemptStatus) -> Verdict:
    """The verdict about an attempt that has ended."""
    text, named = describe_attempt(status), _NAMED.get(status.error_name or "", Health.DEAD)
    if "No space left" in (status.message or "") and named in _BY_FULL_DISK:
        return Verdict(Health.DISK_FULL, (text,), status.error_name)
    if status.phase is AttemptPhase.REFUSED:
        return assess_refusal(status)
    return Verdict(named, (text,), status.error_name)


def is_cause(refusal: AttemptStatus, observation: DetectorObservation, found: Verdict) -> bool:
    """Whether a refusal is the reason why no detector runs. This holds for a start after a drain, and for the release
    that has died, if the reason lasts. If another release was refused, or a forged intent, the supervisor starts the
    previous one again."""
    if refusal.error_name == IntentForged.__name__:
        return False
    assert observation.newest_intent is not None
    assert observation.effective_intent is not None
    if found.health is Health.STOPPED:
        return observation.effective_intent.intent.kind is IntentKind.DRAIN
    same = observation.newest_intent.intent.fingerprint == observation.effective_intent.intent.fingerprint
    return found.health is Health.DEAD and same and refusal.error_name in _NAMED


def assess_refusal(status: AttemptStatus) -> Verdict:
    """The verdict about an attempt that an agent has refused."""
    named = _NAMED.get(status.error_name or "", Health.REFUSED)
    return Verdict(named, (f"refused: {describe_attempt(status)}",), status.error_name)


def describe_attempt(status: AttemptStatus) -> str:
    """The attempt with its phase, exit code, error and message, as a text for people."""
    state = f"attempt {status.attempt_id} (epoch {status.epoch}) {status.phase.lower()}"
    reason = ": ".join(each for each in (status.error_name, status.message) if each)
    code = "" if status.exit_code is None else f" with {status.exit_code}"
    return f"{state}{code}{': ' + reason if reason else ''}"
