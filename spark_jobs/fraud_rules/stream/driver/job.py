"""What one start of the detector is told."""

from __future__ import annotations

from dataclasses import dataclass

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.session import SparkOptions

__all__ = ["AttemptOf", "DetectorJob", "RebuildOrder"]


@dataclass(frozen=True, slots=True)
class AttemptOf:
    """The intent that a start executes: it gives way to one with a higher epoch."""

    attempt_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class RebuildOrder:
    """Begin a fresh checkpoint from the topics. One `order` is carried out once, however often it is given.

    `partial` accepts that retention has removed the beginning of the topics.
    """

    order: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class DetectorJob:
    """One start of the detector. `resume` lifts a stop that the rule log asked for; `adopt` begins an empty checkpoint
    where the outputs written so far end, instead of refusing to. `accept_loss` goes on without records that are gone
    before they were read. `metrics` is the address to serve them at, if any.
    """

    settings: DetectorSettings
    schema: TransactionSchema
    kafka: KafkaConnection
    spark: SparkOptions
    resume: bool = False
    adopt: bool = False
    attempt: AttemptOf | None = None
    rebuild: RebuildOrder | None = None
    metrics: str = ""
    accept_loss: bool = False
