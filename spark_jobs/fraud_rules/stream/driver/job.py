"""The parameters of one start of the detector."""

from __future__ import annotations

from dataclasses import dataclass

from fraud_rules.configuration.detector_options import DetectorOptions
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.session import SparkOptions


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """The attempt and the epoch of the intent that a start executes. A higher epoch supersedes it."""

    attempt_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class RebuildOrder:
    """The order to recompute the state from the topics. An `order` id is executed once, however often it is given.

    `partial` accepts that retention has removed the beginning of the topics.
    """

    order: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class DetectorJob:
    """One start of the detector.

    `resume` lifts a stop that the rule log requested. `accept_loss` continues without records that were removed before
    they were read. `metrics` is the address of the metrics, empty for no metrics.
    """

    settings: DetectorSettings
    schema: TransactionSchema
    kafka: KafkaConnection
    spark: SparkOptions
    resume: bool = False
    attempt: AttemptRef | None = None
    rebuild: RebuildOrder | None = None
    metrics: str = ""
    accept_loss: bool = False


def job_of(
    options: DetectorOptions, settings: DetectorSettings, schema: TransactionSchema, kafka: KafkaConnection
) -> DetectorJob:
    """The job of these options."""
    spark = SparkOptions(
        master=options.master,
        tasks=options.tasks,
        driver_memory=options.driver_memory,
        ui_port=options.ui_port,
        further=options.spark_conf,
    )
    return DetectorJob(
        settings,
        schema,
        kafka,
        spark,
        resume=options.resume,
        attempt=None if options.attempt is None else AttemptRef(options.attempt, options.epoch),
        rebuild=None if options.rebuild is None else RebuildOrder(options.rebuild, options.partial),
        metrics=options.metrics,
        accept_loss=options.accept_loss,
    )
