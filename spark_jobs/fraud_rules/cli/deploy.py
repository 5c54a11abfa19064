"""`fraud detector deploy` and `drain` write intents for the detector; `heartbeat` checks its supervisors."""

from __future__ import annotations

import getpass
import socket
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.options import (
    ASKS,
    KEYS_FILE,
    AcceptLoss,
    DriverMemory,
    IntentKeysFile,
    Kafka,
    Master,
    Metrics,
    Partial,
    Resume,
    Tasks,
)
from fraud_rules.configuration.detector_options import DEFAULTS
from fraud_rules.errors import FraudError
from fraud_rules.runtime.clock import MS_PER_S, now_ms
from fraud_rules.runtime.retry import wait_for

if TYPE_CHECKING:
    from fraud_rules.deploy.attempt import AttemptStatus
    from fraud_rules.deploy.intent import Intent, IntentKind, IntentLog
    from fraud_rules.kafka.connection import KafkaConnection

Reason = Annotated[str, typer.Option("--reason", help="Reason, stored with the intent.", prompt=ASKS)]
Wait = Annotated[
    float, typer.Option("--wait", min=0, max=3600, help="Seconds to wait for the agent to execute the intent.")
]

_POLL_S = 0.5
_NOTIFY_S = 10.0
_FIRES_EXIT_CODE = 1


def deploy(
    kafka: Kafka,
    reason: Reason,
    wheel: Annotated[
        str, typer.Option(help="Path of a wheel on the agent's host.", show_default="the agent's code")
    ] = "",
    master: Master = DEFAULTS.master,
    tasks: Tasks = DEFAULTS.tasks,
    driver_memory: DriverMemory = DEFAULTS.driver_memory,
    kafka_properties: Annotated[
        str, typer.Option(help="Path of a file with SASL and TLS properties on the agent's host.")
    ] = "",
    metrics: Metrics = "",
    intent_keys: IntentKeysFile = None,
    resume: Resume = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Recompute the state from the topics.")] = False,
    partial: Partial = False,
    accept_loss: AcceptLoss = False,
    wait: Wait = 0,
) -> None:
    """Deploy the detector with the local configuration, through the agent.

    The agent checks the new release first. If the release is valid, the agent drains the running detector and starts
    the new one. If it is invalid, the agent refuses it and the running detector continues. A repeated deploy restarts
    the detector.

    \b
    Examples:
      fraud detector deploy --reason "first start" --wait 120
      fraud detector deploy --reason "disk replaced" --rebuild --wait 600
      fraud detector deploy --reason "cluster" --master spark://master:7077
    """
    from fraud_rules.deploy.intent import IntentKind, Rebuild
    from fraud_rules.deploy.local import release_of

    context = load_context()
    release = release_of(
        context.project.config,
        bootstrap=kafka.bootstrap,
        wheel=wheel,
        master=master,
        tasks=tasks,
        driver_memory=driver_memory,
        kafka_properties=kafka_properties,
        metrics=metrics,
    )

    def decide(log: IntentLog) -> Intent:
        order = Rebuild(partial) if rebuild else None
        members = {"release": release, "resume": resume, "rebuild": order, "accept_loss": accept_loss}
        return _intent(context, IntentKind.RUN, reason, log, **members)

    _decide(context, kafka, intent_keys, decide, wait)


def drain(kafka: Kafka, reason: Reason, intent_keys: IntentKeysFile = None, wait: Wait = 0) -> None:
    """Stop the detector after its current batch, until the next deploy.

    \b
    Example:
      fraud detector drain --reason "the broker moves" --wait 60
    """
    from fraud_rules.deploy.intent import IntentKind

    context = load_context()
    _decide(context, kafka, intent_keys, lambda log: _intent(context, IntentKind.DRAIN, reason, log), wait)


def heartbeat(
    kafka: Kafka,
    max_age_s: Annotated[
        float, typer.Option("--max-age-s", min=1, help="Maximum age of a supervisor's last check, in seconds.")
    ] = 120,
    notify: Annotated[
        str, typer.Option(metavar="URL", help="Post the faults to this URL, as JSON.", show_default="only print them")
    ] = "",
) -> None:
    """Raise an alarm when nothing supervises the detector. Run this command outside Airflow, for example from cron.

    The exit code is 0 if a supervisor has checked the detector within --max-age-s and an agent has reported within the
    last 30 s, else 1. Ages are in the broker's time, so the command waits for the next record: a few seconds for a live
    agent, 31 s for a silent one.

    \b
    Examples:
      fraud detector heartbeat --max-age-s 120
      fraud detector heartbeat --notify https://alarms.example/hook
    """
    from fraud_rules.deploy.deployment_log import observe_deployment
    from fraud_rules.deploy.heartbeat import LISTEN_MS, faults_of
    from fraud_rules.errors import BrokerUnavailable
    from fraud_rules.kafka.reachable import require_broker

    settings = load_context().settings
    try:
        require_broker(kafka)
        topic = settings.topics.detector_attempts
        seen, broker_ms = observe_deployment(kafka, topic, settings.detector, LISTEN_MS, now_ms)
        faults = faults_of(seen, broker_ms, round(max_age_s * MS_PER_S))
    except BrokerUnavailable as error:
        faults = [str(error)]
    if not faults:
        print(f"{settings.detector} is supervised")
        return
    for fault in faults:
        print(fault)
    if notify:
        _notify(notify, settings.detector, faults)
    raise typer.Exit(_FIRES_EXIT_CODE)


def _intent(context: CommandContext, kind: IntentKind, reason: str, log: IntentLog, **members: Any) -> Intent:
    from fraud_rules.deploy.intent import Intent

    return Intent(
        detector=context.settings.detector,
        kind=kind,
        attempt_id=uuid.uuid4().hex[:12],
        after=log.epoch,
        reason=reason,
        requested_by=f"{getpass.getuser()}@{socket.gethostname()}",
        supervisor="cli",
        requested_ms=now_ms(),
        **members,
    )


def _decide(
    context: CommandContext,
    kafka: KafkaConnection,
    keys_file: Path | None,
    decide: Callable[[IntentLog], Intent],
    wait_s: float,
) -> None:
    from fraud_rules.deploy.deployment_log import append_intent, read_intent_log
    from fraud_rules.deploy.intent_keys import IntentKeys
    from fraud_rules.kafka.reachable import require_broker

    require_broker(kafka)
    keys = IntentKeys.load(keys_file or context.project.var / "agent" / KEYS_FILE)
    topics = context.settings.topics
    log = read_intent_log(kafka, topics.detector_intents, context.settings.detector)
    record = append_intent(kafka, topics.detector_intents, decide(log), keys)
    print(f"intent written: {record.intent.kind}, epoch {record.epoch}, attempt {record.intent.attempt_id}")
    if wait_s > 0:
        status = _await_done(context, kafka, record.intent, wait_s)
        print(f"{status.phase.value} on {status.host}" + (f" (log: {status.log})" if status.log else ""))


def _await_done(context: CommandContext, kafka: KafkaConnection, intent: Intent, wait_s: float) -> AttemptStatus:
    """Wait until the attempt runs, or has been drained. Raises FraudError if it ends otherwise, or after `wait_s`."""
    from fraud_rules.deploy.attempt import AttemptPhase
    from fraud_rules.deploy.deployment_log import read_deployment
    from fraud_rules.deploy.intent import IntentKind

    wanted = AttemptPhase.RUNNING if intent.kind is IntentKind.RUN else AttemptPhase.STOPPED
    phase = "not reported by any agent"

    def done() -> AttemptStatus | None:
        nonlocal phase
        seen = read_deployment(kafka, context.settings.topics.detector_attempts, context.settings.detector)
        attempt = seen.attempts.get(intent.attempt_id)
        if attempt is not None and attempt.status.phase is wanted:
            return attempt.status
        if attempt is not None and attempt.status.phase.is_terminal:
            status = attempt.status
            raise FraudError(f"{status.phase.value}: {status.error_name or ''} {status.message or ''}".strip())
        phase = phase if attempt is None else attempt.status.phase.value
        return None

    def timed_out() -> FraudError:
        return FraudError(f"attempt {intent.attempt_id} is {phase} after {wait_s:g} s (see fraud status)")

    return wait_for(done, within_s=wait_s, every_s=_POLL_S, timed_out=timed_out)


def _notify(url: str, detector: str, faults: Sequence[str]) -> None:
    import msgspec

    body = msgspec.json.encode({"detector": detector, "faults": faults, "host": socket.gethostname()})
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - the caller's own address
    try:
        with urllib.request.urlopen(request, timeout=_NOTIFY_S):  # noqa: S310
            pass
    except OSError as error:
        raise FraudError(f"the alarm was not delivered to {url}: {error}") from error
