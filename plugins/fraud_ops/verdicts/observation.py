"""The facts about a detector at one moment, as an immutable value. `hooks.observer` reads them, `health` assesses
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fraud_rules.deploy.attempt import AgentStatus, Attempt, AttemptPhase, DeploymentReports
from fraud_rules.deploy.intent import IntentKind, IntentLog, IntentRecord
from fraud_rules.errors import IntentForged
from fraud_rules.logs.detector_status import BatchProgress, TrafficCounts
from fraud_rules.model.open_transaction import OpenTransaction


@dataclass(frozen=True, slots=True)
class NewestProgress:
    """The newest progress record of the detector, with its append time."""

    append_ms: int
    progress: BatchProgress


@dataclass(frozen=True, slots=True)
class DetectorObservation:
    """The facts of one observation. `at_ms` is the broker's time of the observation, in epoch ms. `skew_ms` is how far
    this host's clock is ahead of the broker's: negative if it is behind, None if unknown. `detector_skew_ms` says the
    same of the detector's host.

    `writers` are the attempts that wrote the latest progress records, in order; consecutive records of one attempt
    count once. `traffic` adds up the progress records of the last five minutes. `arrived_ms` is the append
    time of the newest transaction: 0 if retention has removed all transactions, None if no transaction ever arrived or
    the time is unknown. `open_transaction` is the oldest transaction of a producer that has hidden records of an input
    topic for some time. `hidden_reports` is the oldest transaction of another program that hides progress records or
    reports of the agent. If the observation failed, `fault` is the reason, and only `detector` and `at_ms` are set.
    """

    detector: str
    at_ms: int
    intents: IntentLog
    deployment: DeploymentReports = field(default_factory=DeploymentReports)
    progress: NewestProgress | None = None
    writers: Sequence[str] = ()
    traffic: TrafficCounts | None = None
    arrived_ms: int | None = None
    skew_ms: int | None = None
    open_transaction: OpenTransaction | None = None
    detector_skew_ms: int | None = None
    hidden_reports: OpenTransaction | None = None
    fault: str | None = None

    @classmethod
    def failed(cls, detector: str, at_ms: int, fault: str) -> DetectorObservation:
        """Create a failed observation; `fault` is the reason."""
        return cls(detector, at_ms, IntentLog(detector), fault=fault)

    @property
    def newest_intent(self) -> IntentRecord | None:
        """The newest valid intent, executed or not, except those that an agent has refused as forged."""
        return next((record for record in reversed(self.intents.valid) if not self._is_forged(record)), None)

    @property
    def refusal(self) -> Attempt | None:
        """The attempt of the newest valid intent if an agent has refused that intent; otherwise None."""
        attempt = None if self.intents.newest is None else self.deployment.of_epoch(self.intents.epoch)
        return attempt if attempt is not None and attempt.status.phase is AttemptPhase.REFUSED else None

    @property
    def effective_intent(self) -> IntentRecord | None:
        """The newest valid intent that is neither refused nor superseded.

        After a refusal, the previous intent remains effective.
        """
        for record in reversed(self.intents.valid):
            attempt = self.deployment.of_epoch(record.epoch)
            if attempt is None or attempt.status.phase not in _WITHOUT_EFFECT:
                return record
        return None

    @property
    def attempt(self) -> Attempt | None:
        """The attempt of the effective intent; None until an agent reports an attempt."""
        return None if self.effective_intent is None else self.deployment.of_epoch(self.effective_intent.epoch)

    @property
    def running(self) -> Attempt | None:
        """The newest attempt whose process is alive, regardless of the newest intent; None without such an attempt."""
        live = [each for each in self.deployment.attempts.values() if each.status.phase in _LIVE]
        return max(live, key=lambda each: each.status.epoch, default=None)

    @property
    def agent(self) -> AgentStatus | None:
        """The last heartbeat of the agent."""
        return None if self.deployment.agent is None else self.deployment.agent[1]

    def verdict_since_ms(self, verdict: str) -> int:
        """The start time of this verdict from the last supervision record. Without such a record, the time of this
        observation."""
        recorded_ms = self.recorded_since_ms(verdict)
        return self.at_ms if recorded_ms is None else recorded_ms

    def recorded_since_ms(self, verdict: str) -> int | None:
        """The start time of this verdict from the last supervision record; None if that record is old or has another
        verdict."""
        if self.deployment.supervision is None:
            return None
        append_ms, last = self.deployment.supervision
        follows = last.verdict == verdict and self.at_ms - append_ms <= _SUPERVISION_GAP_MS
        return last.since_ms if follows else None

    def _is_forged(self, record: IntentRecord) -> bool:
        attempt = self.deployment.of_epoch(record.epoch)
        return attempt is not None and attempt.status.error_name == IntentForged.__name__

    @property
    def is_stopped(self) -> bool:
        """Whether the effective intent is a drain that has ended, and no process of the detector is alive."""
        drained = self.effective_intent is not None and self.effective_intent.intent.kind is IntentKind.DRAIN
        return drained and self.attempt is not None and self.attempt.status.phase.is_terminal and self.running is None


_SUPERVISION_GAP_MS = 120_000
"""If the last supervision record is older, the verdict counts as new, because it may have changed meanwhile."""

_WITHOUT_EFFECT = frozenset({AttemptPhase.REFUSED, AttemptPhase.SUPERSEDED})
_LIVE = frozenset({AttemptPhase.STARTING, AttemptPhase.RUNNING, AttemptPhase.DRAINING})
