"""The reports of agents and supervisors: the status of each attempt, heartbeats, and a supervisor's last check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from fraud_rules.deploy.work import Work
from fraud_rules.errors import Stalled


class AttemptPhase(StrEnum):
    """The phases of an attempt."""

    ACCEPTED = "ACCEPTED"  # the agent checks the release; the previous detector still runs
    REFUSED = "REFUSED"  # the release is invalid; the previous detector still runs
    STARTING = "STARTING"  # the previous detector has ended and this one was started
    RUNNING = "RUNNING"  # the batches run
    DRAINING = "DRAINING"  # the detector was asked to end after its current batch
    STOPPED = "STOPPED"  # ended by a drain, or by a stop in the rule log
    FAILED = "FAILED"  # ended by an error
    LOST = "LOST"  # ended without a trace, because its host or the agent's host is gone
    SUPERSEDED = "SUPERSEDED"  # a newer intent arrived before the start

    @property
    def is_terminal(self) -> bool:
        """Whether this is the last phase of the attempt."""
        return self in _TERMINAL

    @property
    def is_failure(self) -> bool:
        """Whether the attempt ended without a request."""
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
    """The status of one attempt: the execution of one valid intent (RUN or DRAIN). Times in epoch ms of the agent.

    `error_name` is the name in `fraud_rules.errors`. `exit_code` is that of the process (negative: the signal). `log`
    is a path on `host`. `batches_committed` counts the batches whose outputs are written. `work` is the detector's
    work at `at_ms`. It is None between batches, and from an agent or a detector that reports none.
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
        """Whether the attempt made progress before it was ended as stalled. Then its machine is slow."""
        return self.error_name == Stalled.__name__ and self.work is not None and self.work.done > 0


class AgentStatus(msgspec.Struct, frozen=True, rename="camel"):
    """An agent's heartbeat. `executed_epoch` is the newest executed intent: started, refused or drained.

    `current` is the attempt whose process runs or ran last. `code` is the digest of the agent's own code.
    """

    detector: str
    agent: str
    host: str
    code: str
    at_ms: int
    executed_epoch: int
    current: AttemptStatus | None = None


class Supervision(msgspec.Struct, frozen=True, rename="camel"):
    """A supervisor's note of its last check of a detector. `verdict` is a word, `link` leads to the run. `since_ms` is
    the broker's time at which the verdict began. Notes of older versions have none."""

    detector: str
    supervisor: str
    at_ms: int
    verdict: str
    epoch: int
    link: str = ""
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """The newest status of an attempt, and the broker's time of its record."""

    append_ms: int
    status: AttemptStatus

    def broker_ms(self, agent_ms: int) -> int:
        """Convert a time of the agent's clock to the broker's clock, by the two times of the status record."""
        return self.append_ms - (self.status.at_ms - agent_ms)


@dataclass(frozen=True, slots=True)
class DeploymentReports:
    """All reports about one detector. `attempts` are by id. `agent` and `supervision` have the broker's times."""

    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    agent: tuple[int, AgentStatus] | None = None
    supervision: tuple[int, Supervision] | None = None

    @property
    def in_order(self) -> Sequence[Attempt]:
        """The attempts by the epochs of their intents."""
        return sorted(self.attempts.values(), key=lambda each: each.status.epoch)

    def of_epoch(self, epoch: int) -> Attempt | None:
        """The attempt that executes the intent of an epoch."""
        return next((each for each in self.attempts.values() if each.status.epoch == epoch), None)
