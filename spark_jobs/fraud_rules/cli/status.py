"""`fraud status`: shows the state of the broker and the detector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.options import Kafka
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.clock import now_ms

if TYPE_CHECKING:
    from fraud_rules.logs.detector_status import DetectorStatus
    from fraud_rules.logs.rule_status import RuleOperation
    from fraud_rules.monitoring.liveness import Liveness

_RECORDS = 400
_REJECTED_SHOWN = 3
_NOT_ALIVE_EXIT_CODE = 1


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """A detector's status as read from Kafka.

    `work` is the current work of a start. `rejected` are the rejected rule records, newest first.
    """

    detector: DetectorStatus | None
    liveness: Liveness
    work: str | None
    rejected: list[RuleOperation]


def status(
    kafka: Kafka, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
) -> None:
    """Show whether the broker answers, the detector is alive and payments are evaluated.

    The exit code is 0 if the broker answers and the detector is alive, else 1. The detector reports with every batch,
    and runs one at least every `tick_ms` (config/detector.yaml). The number of waiting payments comes from the end
    offsets of the topic of transactions, so it is also right while the detector is down.

    \b
    Examples:
      fraud status
      fraud status --json | jq .liveness.waiting
    """
    from fraud_rules.cli.display.output import console, print_json
    from fraud_rules.cli.display.status_lines import status_lines

    seen, fault = None, None
    try:
        seen = read_status(kafka, load_context())
    except BrokerUnavailable as error:
        fault = str(error)
    if as_json:
        print_json(
            {
                "broker": {"bootstrap": kafka.bootstrap, "up": fault is None, "fault": fault},
                "detector": None if seen is None else seen.detector,
                "liveness": None if seen is None else seen.liveness,
                "work": None if seen is None else seen.work,
                "refusedRules": [] if seen is None else seen.rejected,
            }
        )
    else:
        print(f"broker    {kafka} {'answers' if fault is None else f'does not answer: {fault}'}")
        if seen is not None:
            for line in status_lines(seen.detector, seen.liveness, seen.work, seen.rejected[:_REJECTED_SHOWN]):
                console().print(line, soft_wrap=True)
    if seen is None or seen.detector is None or not seen.detector.alive:
        raise typer.Exit(_NOT_ALIVE_EXIT_CODE)


def read_status(kafka: KafkaConnection, context: CommandContext) -> StatusSnapshot:
    """Read the detector's status from Kafka. Raises BrokerUnavailable."""
    from fraud_rules.deploy.deployment_log import read_deployment
    from fraud_rules.kafka.consume import tail_of
    from fraud_rules.kafka.decoding import decode_or_skip
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.logs.detector_status import decode_progress, detector_status
    from fraud_rules.logs.rule_status import read_rejected
    from fraud_rules.monitoring.liveness_reader import LivenessReader

    require_broker(kafka)
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
    agent = read_deployment(kafka, topics.detector_attempts, settings.detector).agent
    attempt = None if agent is None else agent[1].current
    return StatusSnapshot(
        detector_status(records, now_ms(), settings.tick_ms),
        live,
        str(attempt.work) if attempt is not None and attempt.work is not None else None,
        read_rejected(kafka, topics.rule_operations),
    )
