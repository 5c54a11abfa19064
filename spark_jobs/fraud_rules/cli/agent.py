"""`fraud agent`: the process beside Spark that executes the intents for the detector."""

from __future__ import annotations

import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import KEYS_FILE, IntentKeysFile, Jars, Kafka, Metrics
from fraud_rules.runtime import clock
from fraud_rules.runtime.clock import MS_PER_S, utc_text
from fraud_rules.runtime.interrupts import interrupts_set

if TYPE_CHECKING:
    from fraud_rules.deploy.attempt import DeploymentReports
    from fraud_rules.deploy.intent import IntentLog

app = typer.Typer(
    help="Run the agent, which executes the intent log beside Spark, and show its status.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_SILENT_MS = 30_000
_NOT_WELL_EXIT_CODE = 1
_SHOWN = 10


@app.command()
def run(
    kafka: Kafka,
    home: Annotated[
        Path | None, typer.Option(help="Folder of the attempts, their logs and handles.", show_default="var/agent")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the agent.", show_default="the host's name")] = "",
    allow: Annotated[
        Path | None,
        typer.Option(help="File with the releases that the agent accepts.", show_default="config/agent.yaml"),
    ] = None,
    intent_keys: IntentKeysFile = None,
    jars: Jars = None,
    metrics: Metrics = "",
    drain_s: Annotated[
        float | None,
        typer.Option(
            "--drain-s",
            min=1,
            help="Seconds that a detector may take to drain; then the agent kills it.",
            show_default="agent.drain_ms of config/detector.yaml",
        ),
    ] = None,
    drain_on_exit: Annotated[
        bool,
        typer.Option("--drain-on-exit", help="Drain the detector when the agent ends. Else the next agent adopts it."),
    ] = False,
) -> None:
    """Run the agent until SIGTERM or Ctrl-C.

    The agent starts, drains and watches the one detector that config/detector.yaml names. It executes the intent log,
    which Airflow, `fraud deploy` and `fraud drain` write, and reports to the topic detector-attempts. A second agent
    fences the first.

    \b
    Examples:
      fraud agent run
      fraud agent run --home /var/lib/fraud-agent --metrics 127.0.0.1:9108
    """
    from fraud_rules.deploy.agent.allow_list import AllowList
    from fraud_rules.deploy.agent.run import AgentJob, run_agent

    context = load_context()
    folder = home or context.project.var / "agent"
    settings = context.settings
    if drain_s is not None:
        settings = replace(settings, agent=replace(settings.agent, drain_ms=round(drain_s * MS_PER_S)))
    job = AgentJob(
        settings,
        kafka,
        folder,
        jars or context.project.jars / "connector",
        AllowList.load(allow or context.project.config / "agent.yaml", kafka.bootstrap),
        intent_keys or folder / KEYS_FILE,
        name or socket.gethostname(),
        metrics,
        drain_on_exit,
    )
    stop = threading.Event()
    with interrupts_set(stop):
        _report(f"the agent of {settings.detector} runs, home folder {job.home}")
        run_agent(job, stop, _report)


@app.command()
def status(
    kafka: Kafka, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
) -> None:
    """Show the newest intent, the agent and the last attempts.

    The exit code is 0 if the agent reported within 30 s and has executed the newest intent, else 1.

    \b
    Examples:
      fraud agent status
      fraud agent status --json | jq '.attempts[-1].phase'
    """
    from fraud_rules.cli.display.output import print_json
    from fraud_rules.deploy.deployment_log import read_deployment, read_intent_log
    from fraud_rules.kafka.reachable import require_broker

    require_broker(kafka)
    settings = load_context().settings
    intents = read_intent_log(kafka, settings.topics.detector_intents, settings.detector)
    seen = read_deployment(kafka, settings.topics.detector_attempts, settings.detector)
    now_ms = clock.now_ms()
    attempts = sorted(seen.attempts.values(), key=lambda each: each.status.epoch)
    if as_json:
        print_json(
            {
                "wantedEpoch": intents.epoch,
                "agent": None if seen.agent is None else seen.agent[1],
                "agentAgeMs": None if seen.agent is None else now_ms - seen.agent[0],
                "attempts": [each.status for each in attempts],
            }
        )
    else:
        for line in _lines(intents, seen, now_ms):
            print(line)
    if seen.agent is None or now_ms - seen.agent[0] > _SILENT_MS or seen.agent[1].executed_epoch < intents.epoch:
        raise typer.Exit(_NOT_WELL_EXIT_CODE)


def _report(line: str) -> None:
    sys.stderr.write(f"fraud: {line}\n")
    sys.stderr.flush()


def _lines(intents: IntentLog, seen: DeploymentReports, now_ms: int) -> list[str]:
    newest = intents.newest
    wanted = (
        "no intent yet (fraud deploy)" if newest is None else f"{newest.intent.kind} since {utc_text(newest.append_ms)}"
    )
    if newest is not None:
        wanted += f", epoch {newest.epoch}, by {newest.intent.requested_by}: {newest.intent.reason}"
    lines = [f"wanted    {wanted}"]
    if seen.agent is None:
        lines.append("agent     has never reported (fraud agent run)")
    else:
        at_ms, agent = seen.agent
        lines.append(f"agent     {agent.agent} on {agent.host}, last report {(now_ms - at_ms) / MS_PER_S:.0f} s ago")
    for attempt in sorted(seen.attempts.values(), key=lambda each: each.status.epoch)[-_SHOWN:]:
        status = attempt.status
        said = "" if status.message is None else f": {status.error_name or ''} {status.message}"
        lines.append(
            f"epoch {status.epoch:<4}{status.phase.value:<11}{status.batches_committed:>7} batches  "
            f"{status.attempt_id}{said}"
        )
    return lines
