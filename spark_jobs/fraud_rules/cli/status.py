"""`fraud status`: shows the state of the broker, the detector and its agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.options import AsJson, Kafka
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.clock import now_ms

if TYPE_CHECKING:
    from fraud_rules.deploy.attempt import DeploymentReports
    from fraud_rules.deploy.intent import IntentLog
    from fraud_rules.logs.detector_status import DetectorStatus
    from fraud_rules.logs.rule_status import RuleOperation
    from fraud_rules.monitoring.data_faults import DataFault
    from fraud_rules.monitoring.liveness import Liveness
    from fraud_rules.monitoring.shares import HighShare

_RECORDS = 400
_REJECTED_SHOWN = 3
_NOT_WELL_EXIT_CODE = 1


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """A detector's status as read from Kafka.

    `rejected` are the rejected rule records, newest first. `shares` and `faults` are verdicts about payments and rules.
    """

    detector: DetectorStatus | None
    liveness: Liveness
    rejected: list[RuleOperation]
    shares: list[HighShare]
    faults: list[DataFault]


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """The intents for a detector, and what its agent reports about them, at a time."""

    intents: IntentLog
    reports: DeploymentReports
    at_ms: int

    @property
    def is_well(self) -> bool:
        """Whether the agent has reported within 30 s and has executed the newest intent."""
        from fraud_rules.deploy.heartbeat import AGENT_SILENT_MS

        if self.reports.agent is None:
            return False
        reported_ms, status = self.reports.agent
        return self.at_ms - reported_ms <= AGENT_SILENT_MS and status.executed_epoch >= self.intents.epoch

    @property
    def work(self) -> str | None:
        """The current work of a start."""
        attempt = None if self.reports.agent is None else self.reports.agent[1].current
        return None if attempt is None or attempt.work is None else str(attempt.work)

    def document(self) -> dict[str, object]:
        """The snapshot for JSON."""
        agent = self.reports.agent
        return {
            "wantedEpoch": self.intents.epoch,
            "agent": None if agent is None else agent[1],
            "agentAgeMs": None if agent is None else self.at_ms - agent[0],
            "attempts": [each.status for each in self.reports.in_order],
        }


def status(
    kafka: Kafka,
    only_agent: Annotated[
        bool, typer.Option("--agent", help="Only the agent; exit code 0 if it has executed the newest intent.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show whether the broker answers, the detector is alive and payments are evaluated, and what its agent does.

    The exit code is 0 if the broker answers and the detector is alive, else 1. The detector reports with every batch,
    and runs one at least every `tick_ms` (config/detector.yaml). The number of waiting payments comes from the end
    offsets of the topic of transactions, so it is also right while the detector is down. With --agent, the exit code
    is 0 if the agent has reported within 30 s and has executed the newest intent, else 1.

    \b
    Examples:
      fraud status
      fraud status --json | jq .liveness.waiting
      fraud status --agent --json | jq '.attempts[-1].phase'
    """
    from fraud_rules.cli.display.output import console, print_json
    from fraud_rules.cli.display.status_lines import agent_lines, status_lines, verdict_lines
    from fraud_rules.kafka.reachable import require_broker

    context = load_context()
    seen, agent, fault = None, None, None
    try:
        require_broker(kafka)
        agent = _read_agent(kafka, context)
        seen = None if only_agent else read_status(kafka, context)
    except BrokerUnavailable as error:
        if only_agent:
            raise
        fault = str(error)
    deployment = None if agent is None else agent.document()
    work = None if seen is None or agent is None else agent.work
    if as_json and only_agent:
        print_json(deployment)
    elif as_json:
        print_json(
            {
                "broker": {"bootstrap": kafka.bootstrap, "up": fault is None, "fault": fault},
                "detector": None if seen is None else seen.detector,
                "liveness": None if seen is None else seen.liveness,
                "work": work,
                "refusedRules": [] if seen is None else seen.rejected,
                "verdicts": [] if seen is None else [*seen.shares, *seen.faults],
                "deployment": deployment,
            }
        )
    else:
        print(f"broker    {kafka} {'answers' if fault is None else f'does not answer: {fault}'}")
        if seen is not None:
            for line in status_lines(seen.detector, seen.liveness, work, seen.rejected[:_REJECTED_SHOWN]):
                console().print(line, soft_wrap=True)
            for line in verdict_lines(seen.shares, seen.faults):
                console().print(line, soft_wrap=True)
        if agent is not None:
            print("".join(f"{line}\n" for line in agent_lines(agent.intents, agent.reports, agent.at_ms)), end="")
    is_alive = seen is not None and seen.detector is not None and seen.detector.alive
    if not (agent is not None and agent.is_well if only_agent else is_alive):
        raise typer.Exit(_NOT_WELL_EXIT_CODE)


def _read_agent(kafka: KafkaConnection, context: CommandContext) -> AgentSnapshot:
    from fraud_rules.deploy.deployment_log import read_deployment, read_intent_log

    topics, detector = context.settings.topics, context.settings.detector
    intents = read_intent_log(kafka, topics.detector_intents, detector)
    return AgentSnapshot(intents, read_deployment(kafka, topics.detector_attempts, detector), now_ms())


def read_status(kafka: KafkaConnection, context: CommandContext) -> StatusSnapshot:
    """Read the detector's status from Kafka. Raises BrokerUnavailable."""
    from fraud_rules.kafka.consume import tail_of
    from fraud_rules.kafka.decoding import decode_or_skip
    from fraud_rules.logs.data_health import read_hours
    from fraud_rules.logs.detector_status import decode_progress, detector_status
    from fraud_rules.logs.rule_status import read_rejected
    from fraud_rules.monitoring.data_faults import data_faults
    from fraud_rules.monitoring.liveness_reader import LivenessReader
    from fraud_rules.monitoring.shares import high_shares

    settings, topics = context.settings, context.settings.topics
    with LivenessReader(kafka, settings) as reader:
        reader.poll()
        live = reader.liveness()
    records = [
        (record.append_ms, progress)
        for record in tail_of(kafka, topics.detector_progress, _RECORDS)
        if record.key == settings.detector.encode()
        and (progress := decode_or_skip(topics.detector_progress, record, decode_progress)) is not None
    ]
    found = detector_status(records, now_ms(), settings.tick_ms)
    return StatusSnapshot(
        found,
        live,
        read_rejected(kafka, topics.rule_operations),
        list(high_shares(None if found is None else found.recent, settings.health)),
        data_faults(read_hours(kafka, settings, now_ms()) or (), context.schema.names, now_ms()),
    )
