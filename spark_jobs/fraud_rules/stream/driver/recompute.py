"""Recomputes the state from the topics as Spark jobs: one job for each segment of the history.

The driver holds the heads of the key groups between two jobs, and the marks that the rules that name rules have
changed. It writes nothing to Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from fraud_rules.logs.batch_history import History, read_ends
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.replay.segments import segments_of
from fraud_rules.stream.batch_order import pack_marks
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.work import WorkReport
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.rebuild_stage import HEAD_SCHEMA, PART_SCHEMA, SegmentStages, unpack_outputs


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
    heads, marks, done = dict[int, bytes](), dict[int, bytes](), 0
    for segment in segments_of(read_ends(history, context.kafka, context.settings), history.starts):
        stages = SegmentStages(context, tasks, segment, pin.reasons(), heads, marks, state_ends, history.known_from_ms)
        changed, outputs = _evaluate(spark, stages)
        heads, marks = heads | changed, {}
        if any(output.pending for output in outputs):
            timeline = context.rule_log().up_to(segment.rules_end, pin.reasons())
            marks = pack_marks(segment.conclude(outputs, timeline))
        done += segment.records
        work.reached(done)
    if marks:
        heads |= _evaluate(spark, replace(stages, segment=segment.after, heads=heads, marks=marks))[0]
    return heads


def _evaluate(spark: SparkSession, stages: SegmentStages) -> tuple[dict[int, bytes], list[KeyGroupOutput]]:
    """The new heads of the key groups that the segment has changed, and the outputs to conclude."""
    shares = spark.range(0, stages.tasks, 1, stages.tasks)
    parts = shares.mapInArrow(stages.fan_out, PART_SCHEMA)
    if visits := stages.visits():
        parts = parts.union(spark.createDataFrame(visits, PART_SCHEMA))
    # By number, because hashes of a few small numbers are uneven, and a segment lasts as long as its largest task.
    parts = parts.repartitionById(stages.tasks, "key_group")
    table = parts.mapInArrow(stages.evaluate, HEAD_SCHEMA).toArrow()
    key_groups, heads, packed = (column.to_pylist() for column in table.columns)
    return dict(zip(key_groups, heads, strict=True)), [each for blob in packed for each in unpack_outputs(blob)]
