"""Builds observations for tests from events: intents, agents' reports, batches, transactions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fraud_ops.verdicts.observation import DetectorObservation, NewestProgress
from fraud_ops.verdicts.verdict import Health
from fraud_rules.deploy.attempt import AgentStatus, Attempt, AttemptPhase, AttemptStatus, DeploymentReports, Supervision
from fraud_rules.deploy.intent import Intent, IntentKind, IntentLog, IntentRecord
from fraud_rules.deploy.release import Release
from fraud_rules.logs.detector_status import BatchProgress, TrafficCounts
from fraud_rules.model.open_transaction import OpenTransaction
from tests.support.records.progress import batch_progress

DETECTOR = "detector"
NOW_MS = 1_790_000_000_000
"""The clock of these tests. Ages count back from it."""


def release(settings: str = "key_groups: 16", **members: Any) -> Release:
    """A release that differs from others by its settings."""
    return Release(code="c0de", settings=settings, schema="fields: []", bootstrap="kafka:9092", **members)


@dataclass(frozen=True)
class World:
    """Collects events. `seen` returns the observation at NOW_MS."""

    intents: tuple[IntentRecord, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    agent_age_s: float | None = 1
    supervised: tuple[float, str] | None = None
    noted: tuple[Health, float] = (Health.HEALTHY, 0)
    batch: tuple[float, int] | None = None
    writers: tuple[str, ...] = ("attempt",)
    traffic: TrafficCounts | None = None
    arrived_age_s: float | None = None
    skew_s: float | None = 0
    agent_skew_s: float = 0
    hidden_age_s: float | None = None
    detector_skew_s: float | None = None
    reports_hidden_age_s: float | None = None

    def asked(
        self, of: Release | None, *, ago_s: float = 60, by: str = "start by scheduled__1", reason: str = "for a test"
    ) -> World:
        """Append an intent to run a release, or to drain if `of` is None."""
        epoch = len(self.intents)
        intent = Intent(
            detector=DETECTOR,
            kind=IntentKind.DRAIN if of is None else IntentKind.RUN,
            attempt_id=f"a{epoch}",
            after=epoch - 1,
            reason=reason,
            requested_by=by,
            supervisor="http://here",
            requested_ms=ms_ago(ago_s),
            release=of,
        )
        return replace(self, intents=(*self.intents, IntentRecord(epoch, ms_ago(ago_s), intent, void=False)))

    def said(
        self,
        phase: AttemptPhase,
        *,
        ago_s: float = 50,
        began_ago_s: float | None = None,
        epoch: int | None = None,
        **members: Any,
    ) -> World:
        """Add an agent's report on the attempt of the newest intent, or of an earlier epoch."""
        at = len(self.intents) - 1 if epoch is None else epoch
        status = AttemptStatus(
            detector=DETECTOR,
            attempt_id=f"a{at}",
            epoch=at,
            phase=phase,
            at_ms=ms_ago(ago_s - self.agent_skew_s),
            agent="agent-1",
            host="host-1",
            started_ms=ms_ago((ago_s if began_ago_s is None else began_ago_s) - self.agent_skew_s),
            **members,
        )
        others = tuple(each for each in self.attempts if each.status.epoch != at)
        return replace(self, attempts=(*others, Attempt(ms_ago(ago_s), status)))

    def wrote(self, *, ago_s: float, lag: int = 0) -> World:
        """Set the time of the detector's last batch."""
        return replace(self, batch=(ago_s, lag))

    def read(self, rows: int, *, late: int = 0, quarantined: int = 0) -> World:
        """Add the rows that the detector has read recently."""
        main_reason = "invalid_field: payeeId is missing" if quarantined else None
        return replace(self, traffic=TrafficCounts(ms_ago(300), rows, late, quarantined, main_reason=main_reason))

    def arrived(self, ago_s: float) -> World:
        """Set the append time of the newest transaction."""
        return replace(self, arrived_age_s=ago_s)

    def hides(self, *, ago_s: float) -> World:
        """Add a transaction that was opened at this time and hides records of `transactions`."""
        return replace(self, hidden_age_s=ago_s)

    def hides_reports(self, *, ago_s: float) -> World:
        """Add a transaction of another detector that was opened at this time and hides progress records."""
        return replace(self, reports_hidden_age_s=ago_s)

    def supervisor(self, ago_s: float, who: str = "http://here") -> World:
        """Add a supervisor's check of the detector."""
        return replace(self, supervised=(ago_s, who))

    def verdict(self, of: Health, *, since_s: float, noted_s: float = 5) -> World:
        """Add a verdict that a supervisor recorded, with the time since which it holds."""
        return replace(self.supervisor(noted_s), noted=(of, since_s))

    @property
    def seen(self) -> DetectorObservation:
        attempts = {each.status.attempt_id: each for each in self.attempts}
        agent = None
        if self.agent_age_s is not None:
            at_ms = ms_ago(self.agent_age_s)
            agent = (at_ms, AgentStatus(DETECTOR, "agent-1", "host-1", "c0de", at_ms, len(self.intents) - 1))
        supervision = None
        if self.supervised is not None:
            at_ms = ms_ago(self.supervised[0])
            verdict, since_s = self.noted
            note = Supervision(DETECTOR, self.supervised[1], at_ms, verdict.value, 0, since_ms=ms_ago(since_s))
            supervision = (at_ms, note)
        newest = None if self.batch is None else NewestProgress(ms_ago(self.batch[0]), progress(self.batch[1]))
        skew_ms = None if self.skew_s is None else int(self.skew_s * 1_000)
        arrived_ms = None if self.arrived_age_s is None else ms_ago(self.arrived_age_s)
        hidden = None
        if self.hidden_age_s is not None:
            hidden = OpenTransaction("transactions", 2, 5, ms_ago(self.hidden_age_s), 4711, "gateway-3")
        reports = None
        if self.reports_hidden_age_s is not None:
            since_ms = ms_ago(self.reports_hidden_age_s)
            reports = OpenTransaction("detector-progress", 0, 9, since_ms, 4711, "fraud-rules-loans")
        log = IntentLog(DETECTOR, self.intents)
        deployment = DeploymentReports(attempts, agent, supervision)
        of_detector_ms = None if self.detector_skew_s is None else int(self.detector_skew_s * 1_000)
        return DetectorObservation(
            DETECTOR,
            NOW_MS,
            log,
            deployment,
            newest,
            self.writers,
            self.traffic,
            arrived_ms,
            skew_ms,
            hidden,
            of_detector_ms,
            reports,
        )


def ms_ago(seconds: float) -> int:
    """A time in epoch ms, by its age in seconds."""
    return NOW_MS - int(seconds * 1_000)


def running(**members: Any) -> World:
    """A healthy detector that was started a minute ago."""
    return World().asked(release()).said(AttemptPhase.RUNNING, **members).wrote(ago_s=2)


def progress(lag: int = 0) -> BatchProgress:
    """A batch without records."""
    return batch_progress(7, {}, query_id="query", lag=lag)
