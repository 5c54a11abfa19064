"""`fraud detect` and `fraud rebuild`: run the detector in the foreground."""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import (
    AcceptLoss,
    DriverMemory,
    Jars,
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

if TYPE_CHECKING:
    from fraud_rules.kafka.connection import KafkaConnection
    from fraud_rules.stream.driver.job import DetectorJob


def detect(
    kafka: Kafka,
    master: Master = DEFAULTS.master,
    tasks: Tasks = DEFAULTS.tasks,
    driver_memory: DriverMemory = DEFAULTS.driver_memory,
    spark_conf: SparkConf = None,
    ui_port: UiPort = None,
    jars: Jars = None,
    metrics: Metrics = "",
    resume: Resume = False,
    accept_loss: AcceptLoss = False,
) -> None:
    """Run the detector until Ctrl-C or SIGTERM.

    Both end it after the current batch. The next start continues there, even after a kill.

    \b
    Examples:
      fraud detect
      fraud detect --bootstrap kafka-1:9092 --master spark://master:7077
    """
    _run(
        _job(
            kafka,
            DetectorOptions(
                jars=jars,
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
    jars: Jars = None,
    partial: Partial = False,
    accept_loss: AcceptLoss = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only report whether a rebuild is possible, and change nothing.")
    ] = False,
) -> None:
    """Recompute the state from the topics and run on it. Use it for a damaged state, a lost marker or new `key_groups`.

    The rebuild replays the batches and rules that are recorded in detector-progress. One Kafka transaction then
    replaces the state in detector-state and the marker. No output is written twice.
    Under an agent, use `fraud deploy --rebuild`.

    \b
    Examples:
      fraud rebuild --check
      fraud rebuild
    """
    from fraud_rules.stream.driver.streaming import check_start

    options = DetectorOptions(
        jars=jars,
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
    _run(job)


def _job(kafka: KafkaConnection, options: DetectorOptions) -> DetectorJob:
    from fraud_rules.stream.driver.job import job_of

    context = load_context()
    return job_of(options.in_project(context.project), context.settings, context.schema, kafka)


def _run(job: DetectorJob) -> None:
    from fraud_rules.stream.driver.streaming import run
    from fraud_rules.stream.work import default_report, work_lines

    def on_running() -> None:
        _report(f"the detector {job.settings.detector} is running")

    run(job, on_running, work=default_report(work_lines(_report)), report=_report)
    _report("the detector has stopped")


def _report(text: str) -> None:
    sys.stderr.write(f"fraud: {text}\n")
    sys.stderr.flush()
