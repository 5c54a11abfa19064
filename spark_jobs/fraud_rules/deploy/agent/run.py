"""Connects an agent to Kafka and to this host, and runs it."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.agent.agent import Agent
from fraud_rules.deploy.agent.allow_list import AllowList
from fraud_rules.deploy.agent.home import AgentHome
from fraud_rules.deploy.agent.metrics import AgentMetrics
from fraud_rules.deploy.agent.process_launcher import ProcessLauncher
from fraud_rules.deploy.agent.watch import AgentIdentity
from fraud_rules.deploy.attempt import AgentStatus, AttemptPhase, AttemptStatus, DeploymentReports
from fraud_rules.deploy.code import code_digest
from fraud_rules.deploy.deployment_log import DeploymentLog, read_deployment
from fraud_rules.deploy.intent import IntentLog, IntentRecord, read_intents
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.errors import BrokerUnavailable, Fenced, TransactionExpired
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip, skip
from fraud_rules.kafka.reader import Record
from fraud_rules.kafka.tail import TopicsTail
from fraud_rules.kafka.takeovers import MOST_TAKEOVERS, Takeovers
from fraud_rules.logs.detector_status import decode_progress
from fraud_rules.runtime.clock import MS_PER_S, now_ms
from fraud_rules.runtime.metrics_server import serving

_RETRY_S = 2.0
_POLL_S = 0.2
_READ_S = 1.0
_KILLED_S = 30.0
_PROGRESS_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class AgentJob:
    """The parameters of one agent.

    `home` is the folder with the state for the next agent. `allowed` limits the releases that the agent accepts, and
    `keys` is the file with the keys that sign intents. With `drain_on_exit` the detector ends with the agent; else it
    continues for the next agent.
    """

    settings: DetectorSettings
    kafka: KafkaConnection
    home: Path
    allowed: AllowList
    keys: Path
    name: str
    metrics: str = ""
    drain_on_exit: bool = False


def run_agent(job: AgentJob, stop: threading.Event, report: Callable[[str], None]) -> None:
    """Run until `stop` is set. During an outage of the broker, retry. `report` receives a line for each change.

    Raises Fenced if another agent has taken over, after the detector of this agent has ended; AttemptUnreachable. The
    broker also fences an agent that was suspended in a transaction for too long. That agent continues. So does
    one whose rival reports to other topics, until it counts too many takeovers.
    """
    me = AgentIdentity(job.settings.detector, f"{job.name}-{uuid.uuid4().hex[:8]}", socket.gethostname(), code_digest())
    home = AgentHome(job.home.resolve())
    if IntentKeys.create(job.keys):
        report(f"wrote a new key for intents to {job.keys}: supervisors on other hosts need it too")
    metrics, takeovers = AgentMetrics(me.detector), Takeovers()
    with home.hold(), serving(job.metrics, metrics.registry):
        running = _Running(job, me, home, metrics, report)
        while not stop.is_set():
            try:
                running.serve(stop)
            except BrokerUnavailable as error:
                report(str(error))
                stop.wait(_RETRY_S)
            except Fenced as error:
                if running.is_replaced():
                    running.drain()
                    raise
                if not isinstance(error, TransactionExpired) and takeovers.count():
                    running.drain()
                    raise _fenced_by_a_stranger(me.detector) from error
                report(f"{error}. No other agent reports, so this one continues")
        if job.drain_on_exit:
            running.drain()
            with suppress(BrokerUnavailable):
                running.report_all()


def _fenced_by_a_stranger(detector: str) -> Fenced:
    return Fenced(
        f"another agent of {detector} has taken over {MOST_TAKEOVERS} times within a day, but reports to other topics: "
        "give one of the two detectors another name (detector in config/detector.yaml)"
    )


class _Running:
    """A running agent. It connects to Kafka again after each outage."""

    def __init__(
        self, job: AgentJob, me: AgentIdentity, home: AgentHome, metrics: AgentMetrics, report: Callable[[str], None]
    ) -> None:
        self._job = job
        self._me = me
        self._home = home
        self._pruned_at: int | None = None
        self._metrics = metrics
        self._report = report
        self._reported: dict[str, AttemptPhase] = {}
        self._log: DeploymentLog | None = None
        launcher = ProcessLauncher(home, os.environ, job.allowed)
        self._agent = Agent(me, launcher, self._write, job.settings.agent, self._authenticate)
        self._has_started = False

    def serve(self, stop: threading.Event) -> None:
        """Execute intents until `stop` is set. Raises BrokerUnavailable, Fenced."""
        topics, kafka = self._job.settings.topics, self._job.kafka
        detector = self._me.detector
        if self._has_started:
            self._require_own_report(read_deployment(kafka, topics.detector_attempts, detector))
        self._log = DeploymentLog.open(kafka, topics.detector_attempts, detector)
        # The open transaction of the previous agent has ended now. That of any other program must not hide a report.
        seen = read_deployment(kafka, topics.detector_attempts, detector, settled=not self._has_started)
        records: list[Record] = []
        intents = IntentLog(detector)
        with TopicsTail(kafka, {topics.detector_intents: None, topics.detector_progress: _PROGRESS_TAIL}) as tail:
            due_s = time.monotonic()
            while not stop.is_set():
                new: dict[str, list[Record]] = {}
                if time.monotonic() >= due_s:
                    new, due_s = tail.new(), time.monotonic() + _READ_S
                if new.get(topics.detector_intents):
                    records += new[topics.detector_intents]
                    intents = self._intents(records)
                if not self._has_started:
                    self._agent.take_over(intents, seen, now_ms())
                    self._has_started = True
                for record in new.get(topics.detector_progress, ()):
                    self._record_batch(record)
                self._agent.step(intents, now_ms())
                self._prune()
                stop.wait(_POLL_S)

    def _require_own_report(self, seen: DeploymentReports) -> None:
        """Raise Fenced if the newest report is that of another agent."""
        if seen.agent is not None and seen.agent[1].agent != self._me.agent:
            raise Fenced(f"agent {seen.agent[1].agent} has taken over {self._me.detector}")

    def is_replaced(self) -> bool:
        """Whether another agent reports. It reports as soon as it has fenced this one, so wait for two heartbeats."""
        deadline_s = time.monotonic() + 2 * self._job.settings.agent.heartbeat_ms / MS_PER_S
        topic = self._job.settings.topics.detector_attempts
        while time.monotonic() < deadline_s:
            try:
                self._require_own_report(read_deployment(self._job.kafka, topic, self._me.detector, settled=True))
            except Fenced:
                return True
            except BrokerUnavailable as error:
                self._report(str(error))
            time.sleep(_POLL_S)
        return False

    def drain(self) -> None:
        """Drain the detector of this agent, or kill it after the limit. Give up on processes that survive the kill."""
        deadline_s = time.monotonic() + self._job.settings.agent.drain_ms / MS_PER_S + _KILLED_S
        while not self._agent.end():
            if time.monotonic() > deadline_s:
                self._report("the detector was killed, but its processes still exist: they wait for a disk")
                return
            time.sleep(_POLL_S)

    def report_all(self) -> None:
        """Write a last status of the agent and its attempts."""
        self._agent.report(now_ms())

    def _intents(self, records: Sequence[Record]) -> IntentLog:
        intents = read_intents(self._me.detector, records)
        unreadable = frozenset(intents.unreadable)
        for record in records:
            if record.offset in unreadable:
                skip(self._job.settings.topics.detector_intents, record, "not an intent of this version")
        return intents

    def _authenticate(self, record: IntentRecord) -> None:
        """Raise IntentForged, or ConfigError for unreadable keys. The keys are read again, because they rotate."""
        IntentKeys.load(self._job.keys).require(record)

    def _prune(self) -> None:
        """Delete old attempts once per executed intent, because each intent may leave a folder."""
        if self._pruned_at != self._agent.executed:
            self._pruned_at = self._agent.executed
            self._home.prune()

    def _record_batch(self, record: Record) -> None:
        if record.key != self._me.detector.encode() or record.value is None:
            return
        progress = decode_or_skip(self._job.settings.topics.detector_progress, record, decode_progress)
        if progress is not None:
            self._agent.record_batch(progress)

    def _write(self, status: AgentStatus, attempts: list[AttemptStatus]) -> None:
        assert self._log is not None, "the agent steps only while its log is open"
        self._log.write(status, attempts)
        self._metrics.set_status(status)
        for each in attempts:
            if self._reported.get(each.attempt_id) is not each.phase:
                self._reported[each.attempt_id] = each.phase
                self._report(
                    " ".join(filter(None, (f"epoch {each.epoch}: {each.phase}", each.error_name, each.message)))
                )
