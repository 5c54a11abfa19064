"""The streaming query, and the plan of a large batch.

A small batch runs as one task in one stage, because a stage and a shuffle cost the JVM more than such a batch costs the
engine. For a large batch, the driver ignores that plan and reads the same offsets into a plan with many tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.engine_stage import EngineStage
from fraud_rules.stream.worker.fanout_stage import FanOutStage
from fraud_rules.stream.worker.whole_stage import WholeStage
from fraud_rules.stream.worker.wire import KEYED_SCHEMA, OUTPUT_SCHEMA

__all__ = ["LARGE_BATCH_RECORDS", "QUERY_NAME", "large_batch", "record_count", "start_query"]

QUERY_NAME = "fraud-detector"

LARGE_BATCH_RECORDS: Final = 4_000
"""The number of records from which a batch gets many tasks."""

_MAX_FETCH_BYTES = "16777216"
_EARLIEST = -2
_READ_OPTIONS: Final = {
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
    # With the default of 500 ms, a batch that has caught up with the producer waits that long for another byte.
    "kafka.fetch.max.wait.ms": "20",
    "kafka.max.poll.records": "5000",
    "kafka.fetch.max.bytes": _MAX_FETCH_BYTES,
    "kafka.max.partition.fetch.bytes": _MAX_FETCH_BYTES,
}

Offsets = Mapping[str, Mapping[str, int]]


def start_query(
    spark: SparkSession,
    context: WorkerContext,
    starting_offsets: str,
    on_batch: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    """Start the query on the context's checkpoint. Only an empty checkpoint uses `starting_offsets`.

    One source reads all topics that trigger a batch, because the time to plan a batch grows with the sources. Rules and
    ticks only trigger a batch. The rule log itself is read separately, up to the batch's pin.
    """
    topics, settings = context.settings.topics, context.settings
    options = {
        **context.kafka.spark(),
        **_READ_OPTIONS,
        "subscribe": f"{topics.transactions},{topics.rules},{topics.detector_ticks}",
        "startingOffsets": starting_offsets,
        "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
    }
    records = _selected(spark.readStream.format("kafka").options(**options).load(), context)
    outputs = records.coalesce(1).mapInArrow(WholeStage(context).run, OUTPUT_SCHEMA)
    writer = outputs.writeStream.queryName(QUERY_NAME).outputMode("append").foreachBatch(on_batch)
    return writer.option("checkpointLocation", context.checkpoint).start()


def record_count(starts: Offsets, ends: Offsets) -> int:
    """The number of records between the offsets, at most."""
    return sum(end - starts.get(topic, {}).get(at, 0) for topic, places in ends.items() for at, end in places.items())


def large_batch(spark: SparkSession, context: WorkerContext, starts: Offsets, ends: Offsets) -> DataFrame:
    """The outputs of a large batch, evaluated by many tasks. A partition without a start is new."""
    first = {topic: {at: starts.get(topic, {}).get(at, _EARLIEST) for at in places} for topic, places in ends.items()}
    options = {
        **context.kafka.spark(),
        **_READ_OPTIONS,
        "assign": json.dumps({topic: [int(at) for at in places] for topic, places in ends.items()}),
        "startingOffsets": json.dumps(first),
        "endingOffsets": json.dumps(ends),
        # With a fixed group, the consumers of an executor serve the next large batch too. No offset is ever committed.
        "kafka.group.id": f"fraud-rules-{context.settings.detector}",
    }
    records = _selected(spark.read.format("kafka").options(**options).load(), context)
    keyed = records.mapInArrow(FanOutStage(context).run, KEYED_SCHEMA)
    return keyed.repartition(context.tasks, "key_group", "salt").mapInArrow(EngineStage(context).run, OUTPUT_SCHEMA)


def _selected(records: DataFrame, context: WorkerContext) -> DataFrame:
    is_transaction = (f.col("topic") == f.lit(context.settings.topics.transactions)).alias("is_transaction")
    return records.select("value", "partition", "offset", "timestamp", is_transaction)
