"""The values of a verdict about a detector: its state with reasons, and the limits that lead to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.heartbeat import AGENT_SILENT_MS

__all__ = ["Health", "Limits", "Verdict"]


class Health(StrEnum):
    """The state of a detector."""

    HEALTHY = "HEALTHY"
    STARTING = "STARTING"
    LAGGING = "LAGGING"  # works, but falls behind
    HUNG_PRODUCER = "HUNG_PRODUCER"  # works, but a producer's open transaction hides records from it
    MOSTLY_QUARANTINED = "MOSTLY_QUARANTINED"  # works, but cannot read many records
    MOSTLY_LATE = "MOSTLY_LATE"  # works, but many payments are too late for its rules
    BLIND = "BLIND"  # works, but no payments arrive
    CLOCK_SKEW = "CLOCK_SKEW"  # works, but the clocks of this host and of the broker differ
    STALLED = "STALLED"  # its process is alive, but makes no progress
    DEAD = "DEAD"  # should run, but does not
    DUPLICATE = "DUPLICATE"  # two detectors, or two supervisors
    CHECKPOINT_DAMAGED = "CHECKPOINT_DAMAGED"
    CHECKPOINT_FOREIGN = "CHECKPOINT_FOREIGN"
    OFFSETS_LOST = "OFFSETS_LOST"  # unread records have been removed
    TOPIC_UNSUITABLE = "TOPIC_UNSUITABLE"  # a topic's settings would make results wrong, or lose records
    DISK_FULL = "DISK_FULL"
    REFUSED = "REFUSED"  # the request is invalid and no earlier release can run, or the agent must not execute it
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"
    UNSUPERVISED = "UNSUPERVISED"
    AGENT_SILENT = "AGENT_SILENT"
    BROKER_DOWN = "BROKER_DOWN"

    @property
    def is_well(self) -> bool:
        """Whether this state raises no alarm. Payments may still wait, so pages show only HEALTHY in green."""
        return self in _WELL


_WELL = frozenset({Health.HEALTHY, Health.STARTING, Health.DRAINING, Health.STOPPED})


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of verdicts. Times are in ms, `lag` is in unread transactions. See `HealthSettings`.

    An agent counts as silent after `agent_silent_ms` without a heartbeat. Two supervisors that both report within
    `contested_ms` are duplicates. `clock_skew_ms` bounds the difference between the clocks of Airflow and the broker.

    A detector finishes a batch at least every tick (10 s). So it hangs if it finishes no batch and makes no progress
    within one for `stalled_ms`. `starting_ms` is the same limit for a start, up to the end of its first batch.
    """

    starting_ms: int = 180_000
    stalled_ms: int = 40_000
    lag: int = 100_000
    agent_silent_ms: int = AGENT_SILENT_MS
    unsupervised_ms: int = 120_000
    contested_ms: int = 30_000
    quarantined_percent: int = 20
    late_percent: int = 20
    silent_ms: int = 86_400_000
    clock_skew_ms: int = 30_000
    open_transaction_ms: int = 30_000

    @classmethod
    def of(cls, settings: HealthSettings) -> Limits:
        """The configured limits."""
        return cls(**asdict(settings))

    def as_dict(self) -> dict[str, int]:
        """The limits as arguments of a trigger."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A state with its reasons, most important first. `error` is the name of the detector's own error, if any."""

    health: Health
    reasons: tuple[str, ...]
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.health}: {'; '.join(self.reasons)}"

    def as_dict(self) -> dict[str, Any]:
        """The payload of a trigger event. `of` decodes it."""
        return {"health": self.health.value, "reasons": list(self.reasons), "error": self.error}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Verdict:
        """Decode the payload of a trigger event."""
        return cls(Health(document["health"]), tuple(document["reasons"]), document["error"])
