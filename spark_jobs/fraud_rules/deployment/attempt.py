"""What agents and supervisors say: the state of each attempt, a heartbeat, and a supervisor's last look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from fraud_rules.deployment.work import Work
from fraud_rules.errors import Stalled

__all__ = ["AgentStatus", "Attempt", "AttemptPhase", "AttemptStatus", "DeploymentSeen", "Supervision"]


class AttemptPhase(StrEnum):
    """How far an attempt has come."""

    ACCEPTED = "ACCEPTED"  # read, and being checked; what ran before still runs
    REFUSED = "REFUSED"  # invalid: what ran before still runs
    STARTING = "STARTING"  # the one before has ended, this one was started
    RUNNING = "RUNNING"  # its query runs
    DRAINING = "DRAINING"  # asked to end after the batch in hand
    STOPPED = "STOPPED"  # ended in order, or by a stop in the rule log
    FAILED = "FAILED"  # ended by an error
    LOST = "LOST"  # nobody knows how it ended: its host, or the agent's, went away
    SUPERSEDED = "SUPERSEDED"  # a newer intent came before it was started

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more will come of it."""
        return self in _TERMINAL

    @property
    def is_failure(self) -> bool:
        """Whether it ended in a way that nobody asked for."""
        return self in (AttemptPhase.REFUSED, AttemptPhase.FAILED, AttemptPhase.LOST)


_TERMINAL = frozenset(
    {
        AttemptPhase.REFUSED,
        AttemptPhase.STOPPED,
        AttemptPhase.FAILED,
        AttemptPhase.LOST,
        AttemptPhase.SUPERSEDED,
    }
)


class AttemptStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One attempt: the execution of one valid intent, a DRAIN too. Times in epoch ms of the agent's clock.

    `error_name` is the name in `fraud_rules.errors`, `exit_code` what its process ended with (negative: the signal).
    `log` is a path on `host`. `batches_committed` counts the batches whose outputs are written. `work` is what the
    detector is working on, as of `at_ms`: None between two batches, and from an agent or a detector that reports none.
    """

    detector: str
    attempt_id: str
    epoch: int
    phase: AttemptPhase
    at_ms: int
    agent: str
    host: str
    error_name: str | None = None
    message: str | None = None
    exit_code: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    spark_ui: str | None = None
    log: str | None = None
    batches_committed: int = 0
    work: Work | None = None

    @property
    def was_progressing(self) -> bool:
        """Whether it was ended as stalled after it had restored or evaluated something: its machine is slow."""
        return self.error_name == Stalled.__name__ and self.work is not None and self.work.done > 0


class AgentStatus(msgspec.Struct, frozen=True, rename="camel"):
    """An agent's heartbeat. `executed_epoch` is the newest intent it is done with: started, refused or drained.

    `current` is the attempt whose process runs, or the last that did. `code` is the digest of the agent's
    own code.
    """

    detector: str
    agent: str
    host: str
    code: str
    at_ms: int
    executed_epoch: int
    current: AttemptStatus | None = None


class Supervision(msgspec.Struct, frozen=True, rename="camel"):
    """A supervisor's last look at a detector, as it says itself. `verdict` is a word, `link` leads to the run."""

    detector: str
    supervisor: str
    at_ms: int
    verdict: str
    epoch: int
    link: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The newest word about an attempt, and the broker's time of it."""

    append_ms: int
    status: AttemptStatus

    def broker_ms(self, agent_ms: int) -> int:
        """The broker's time when the agent's clock said `agent_ms`, by the status: its two times are of one moment."""
        return self.append_ms - (self.status.at_ms - agent_ms)


@dataclass(frozen=True, slots=True)
class DeploymentSeen:
    """All that is said about one detector. `attempts` by id; the times of agent and supervision are the broker's."""

    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    agent: tuple[int, AgentStatus] | None = None
    supervision: tuple[int, Supervision] | None = None

    def of_epoch(self, epoch: int) -> Attempt | None:
        """The attempt at an intent."""
        return next((each for each in self.attempts.values() if each.status.epoch == epoch), None)
