"""Recomputes the state from the topics as Spark jobs: one job for each segment of the history.

The driver holds the heads of the key groups between two jobs. It writes nothing to Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from fraud_rules.logs.batch_history import History, read_ends
from fraud_rules.replay.segments import segments_of
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.work import WorkReport
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.rebuild_stage import HEAD_SCHEMA, PART_SCHEMA, SegmentStages

__all__ = ["recompute"]


def recompute(
    spark: SparkSession,
    context: WorkerContext,
    tasks: int,
    history: History,
    pin: Pin,
    state_ends: Sequence[int],
    work: WorkReport,
) -> dict[int, bytes]:
    """The heads of all key groups that have state after the history. The topic `detector-state` has their chunks.

    `pin` is the pin of the last batch. `state_ends` has the ends of the partitions of `detector-state` before it.
    Raises BrokerUnavailable, and Spark's errors if a task fails.
    """
    heads: dict[int, bytes] = {}
    done = 0
    for segment in segments_of(read_ends(history, context.kafka, context.settings), history.starts):
        stages = SegmentStages(context, tasks, segment, pin.reasons(), heads, state_ends, history.known_from_ms)
        heads = heads | _evaluate(spark, stages)
        done += segment.records
        work.reached(done)
    return heads


def _evaluate(spark: SparkSession, stages: SegmentStages) -> dict[int, bytes]:
    """The new heads of the key groups that the segment has changed."""
    shares = spark.range(0, stages.tasks, 1, stages.tasks)
    parts = shares.mapInArrow(stages.fan_out, PART_SCHEMA)
    if visits := stages.visits():
        parts = parts.union(spark.createDataFrame(visits, PART_SCHEMA))
    # By number, because hashes of a few small numbers are uneven, and a segment lasts as long as its largest task.
    parts = parts.repartitionById(stages.tasks, "key_group")
    table = parts.mapInArrow(stages.evaluate, HEAD_SCHEMA).toArrow()
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
