"""States that a task can wait for, and the outcome of waiting. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.deploy.attempt import AttemptPhase


class Until(StrEnum):
    """A state to wait for."""

    EXECUTED = "executed"  # an agent has started the intent, or refused it
    HEALTHY = "healthy"  # or another verdict in `_AT_WORK`
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of waiting: whether the state was reached, a text for people, and the last health."""

    reached: bool
    said: str
    health: Health

    def as_dict(self) -> dict[str, Any]:
        """The payload of a trigger event. `of` decodes it."""
        return asdict(self)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Outcome:
        """Decode the payload of a trigger event."""
        return cls(document["reached"], document["said"], Health(document["health"]))


_AT_WORK = frozenset(
    {
        Health.HEALTHY, Health.HUNG_PRODUCER, Health.MOSTLY_QUARANTINED, Health.MOSTLY_LATE, Health.BLIND,
        Health.CLOCK_SKEW,
    }
)  # fmt: skip
"""The detector runs as requested. What is wrong is outside it: the payments, or the clocks."""

_HOPELESS = frozenset(
    {
        Health.DEAD, Health.DUPLICATE, Health.CHECKPOINT_DAMAGED, Health.CHECKPOINT_FOREIGN, Health.DISK_FULL,
        Health.OFFSETS_LOST, Health.REFUSED, Health.TOPIC_UNSUITABLE,
    }
)  # fmt: skip


def outcome(until: Until, epoch: int | None, observation: DetectorObservation, verdict: Verdict) -> Outcome | None:
    """The outcome; None while waiting can still succeed. `epoch` is the intent to wait for, None for any."""
    if observation.fault is not None:
        return None
    if epoch is not None and observation.intents.epoch > epoch:
        return Outcome(False, f"intent {epoch} was superseded by intent {observation.intents.epoch}", verdict.health)
    if epoch is not None and observation.refusal is not None and observation.refusal.status.epoch == epoch:
        return Outcome(
            False, f"{observation.refusal.status.error_name}: {observation.refusal.status.message}", verdict.health
        )
    if _reached(until, observation, verdict):
        return Outcome(True, str(verdict), verdict.health)
    if verdict.health in _HOPELESS and until is not Until.EXECUTED:
        return Outcome(False, str(verdict), verdict.health)
    return None


def _reached(until: Until, observation: DetectorObservation, verdict: Verdict) -> bool:
    match until:
        case Until.EXECUTED:
            phase = None if observation.attempt is None else observation.attempt.status.phase
            return phase not in (None, AttemptPhase.ACCEPTED)
        case Until.HEALTHY:
            return verdict.health in _AT_WORK
        case Until.STOPPED:
            return verdict.health is Health.STOPPED
