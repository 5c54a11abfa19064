"""`fraud detector run`, `rebuild` and `agent`: run the detector, or its agent, in the foreground."""

from __future__ import annotations

import socket
import sys
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import (
    KEYS_FILE,
    AcceptLoss,
    DriverMemory,
    IntentKeysFile,
    Kafka,
    Master,
    Metrics,
    Partial,
    Resume,
    SparkConf,
    Tasks,
    UiPort,
)
from fraud_rules.configuration.detector_options import DEFAULTS, DetectorOptions, spark_settings
from fraud_rules.runtime.interrupts import interrupts_set

if TYPE_CHECKING:
    from fraud_rules.kafka.connection import KafkaConnection
    from fraud_rules.stream.driver.job import DetectorJob


def run(
    kafka: Kafka,
    master: Master = DEFAULTS.master,
    tasks: Tasks = DEFAULTS.tasks,
    driver_memory: DriverMemory = DEFAULTS.driver_memory,
    spark_conf: SparkConf = None,
    ui_port: UiPort = None,
    metrics: Metrics = "",
    resume: Resume = False,
    accept_loss: AcceptLoss = False,
) -> None:
    """Run the detector until Ctrl-C or SIGTERM.

    Both end it after the current batch. The next start continues there, even after a kill.

    \b
    Examples:
      fraud detector run
      fraud detector run --bootstrap kafka-1:9092 --master spark://master:7077
    """
    _run_job(
        _job(
            kafka,
            DetectorOptions(
                master=master,
                tasks=tasks,
                driver_memory=driver_memory,
                spark_conf=spark_settings(spark_conf or []),
                ui_port=ui_port,
                resume=resume,
                metrics=metrics,
                accept_loss=accept_loss,
            ),
        )
    )


def rebuild(
    kafka: Kafka,
    master: Master = DEFAULTS.master,
    tasks: Tasks = DEFAULTS.tasks,
    driver_memory: DriverMemory = DEFAULTS.driver_memory,
    spark_conf: SparkConf = None,
    partial: Partial = False,
    accept_loss: AcceptLoss = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only report whether a rebuild is possible, and change nothing.")
    ] = False,
) -> None:
    """Recompute the state from the topics and run on it. Use it for a damaged state, a lost marker or new `key_groups`.

    The rebuild replays the batches and rules that are recorded in detector-progress. One Kafka transaction then
    replaces the state in detector-state and the marker. No output is written twice.
    Under an agent, use `fraud detector deploy --rebuild`.

    \b
    Examples:
      fraud detector rebuild --check
      fraud detector rebuild
    """
    from fraud_rules.stream.driver.streaming import check_start

    options = DetectorOptions(
        master=master,
        tasks=tasks,
        driver_memory=driver_memory,
        spark_conf=spark_settings(spark_conf or []),
        rebuild=uuid.uuid4().hex,
        partial=partial,
        accept_loss=accept_loss,
    )
    job = _job(kafka, options)
    if check:
        check_start(job)
        print(f"the state of {job.settings.detector} can be rebuilt")
        return
    _run_job(job)


def agent(
    kafka: Kafka,
    home: Annotated[
        Path | None, typer.Option(help="Folder of the attempts, their logs and handles.", show_default="var/agent")
    ] = None,
    allow: Annotated[
        Path | None,
        typer.Option(help="File with the releases that the agent accepts.", show_default="config/agent.yaml"),
    ] = None,
    intent_keys: IntentKeysFile = None,
    metrics: Metrics = "",
    drain_on_exit: Annotated[
        bool,
        typer.Option("--drain-on-exit", help="Drain the detector when the agent ends. Else the next agent adopts it."),
    ] = False,
) -> None:
    """Run the agent until SIGTERM or Ctrl-C.

    The agent starts, drains and watches the one detector that config/detector.yaml names. It executes the intent log,
    which Airflow and the commands `deploy` and `drain` write, and reports to the topic detector-attempts. A second
    agent fences the first.

    \b
    Examples:
      fraud detector agent
      fraud detector agent --home /var/lib/fraud-agent --metrics 127.0.0.1:9108
    """
    from fraud_rules.deploy.agent.allow_list import AllowList
    from fraud_rules.deploy.agent.run import AgentJob, run_agent

    context = load_context()
    folder = home or context.project.var / "agent"
    job = AgentJob(
        context.settings,
        kafka,
        folder,
        AllowList.load(allow or context.project.config / "agent.yaml", kafka.bootstrap),
        intent_keys or folder / KEYS_FILE,
        socket.gethostname(),
        metrics,
        drain_on_exit,
    )
    stop = threading.Event()
    with interrupts_set(stop):
        _report(f"the agent of {context.settings.detector} runs, home folder {job.home}")
        run_agent(job, stop, _report)


def _job(kafka: KafkaConnection, options: DetectorOptions) -> DetectorJob:
    from fraud_rules.stream.driver.job import job_of

    context = load_context()
    return job_of(options.in_project(context.project), context.settings, context.schema, kafka)


def _run_job(job: DetectorJob) -> None:
    from fraud_rules.stream.driver.streaming import run
    from fraud_rules.stream.work import default_report, work_lines

    def on_running() -> None:
        _report(f"the detector {job.settings.detector} is running")

    run(job, on_running, work=default_report(work_lines(_report)), report=_report)
    _report("the detector has stopped")


def _report(text: str) -> None:
    sys.stderr.write(f"fraud: {text}\n")
    sys.stderr.flush()
