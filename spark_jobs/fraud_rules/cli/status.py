"""`fraud status`: how broker and detector are doing, at one glance."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from fraud_rules.cli.configured import Configured, configured
from fraud_rules.cli.options import Kafka
from fraud_rules.detector_status import DetectorStatus
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection

_RECORDS = 400
_NOT_ALIVE_EXIT_CODE = 1


def status(
    kafka: Kafka, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
) -> None:
    """Say how broker and detector are doing.

    Exit code 0 when the broker answers and the detector is alive, else 1. The detector reports with every batch, and
    makes one at least every `tick_ms` (config/detector.yaml).

    \b
    Examples:
      fraud status
      fraud status --json | jq .detector.latencyP99Ms
    """
    from fraud_rules.cli.output import print_json

    try:
        detector, fault = read_status(kafka, configured()), None
    except BrokerUnavailable as error:
        detector, fault = None, str(error)
    if as_json:
        broker = {"bootstrap": kafka, "up": fault is None, "fault": fault}
        print_json({"broker": broker, "detector": detector})
    else:
        print(f"broker    {kafka} {'answers' if fault is None else f'is away: {fault}'}")
        for line in status_lines(detector) if fault is None else []:
            print(line)
    if detector is None or not detector.alive:
        raise typer.Exit(_NOT_ALIVE_EXIT_CODE)


def read_status(kafka: KafkaConnection, context: Configured) -> DetectorStatus | None:
    """The detector's status; None when it has never reported. Raises BrokerUnavailable."""
    from fraud_rules.detector_status import decode_progress, detector_status
    from fraud_rules.kafka.consume import tail_of
    from fraud_rules.kafka.decoding import decode_or_skip
    from fraud_rules.kafka.reachable import require_broker

    require_broker(kafka)
    settings = context.settings
    detector = settings.detector.encode()
    topic = settings.topics.detector_progress
    records = [
        (record.append_ms, progress)
        for record in tail_of(kafka, topic, _RECORDS)
        if record.key == detector and (progress := decode_or_skip(topic, record, decode_progress)) is not None
    ]
    return detector_status(records, int(time.time() * 1_000), settings.tick_ms)


def status_lines(detector: DetectorStatus | None) -> list[str]:
    """The detector's status for people."""
    if detector is None:
        return ["detector  has never reported here (fraud detect starts it)"]
    watermark = "none yet"
    if detector.watermark is not None:
        watermark = datetime.fromtimestamp(detector.watermark / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    age_s = detector.last_batch_age_ms / 1_000
    latency = f"p50 {_or_unknown(detector.latency_p50_ms)} ms, p99 {_or_unknown(detector.latency_p99_ms)} ms"
    state = f"{detector.retained_events:,} events retained, {detector.retained_bytes / 2**20:,.1f} MiB"
    return [
        f"detector  {'alive' if detector.alive else 'NOT ALIVE'}, batch {detector.batch_id} ended {age_s:.1f} s ago",
        f"rate      {detector.rows_per_s:,.0f} transactions/s, lag {_or_unknown(detector.lag)}",
        f"latency   {latency}, batch {_or_unknown(detector.batch_ms)} ms",
        f"rules     {detector.rules_in_force} in force",
        f"state     {state}, watermark {watermark}",
    ]


def _or_unknown(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
