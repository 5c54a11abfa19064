"""The values of a verdict about a detector: its state with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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
