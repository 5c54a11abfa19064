"""The streaming query: Kafka source, fan-out, shuffle by key group, engine, and the driver's batch callback."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.fanout_stage import FanOutStage
from fraud_rules.stream.worker.stateful_stage import KeyGroupProcessor
from fraud_rules.stream.worker.wire import KEYED_SCHEMA, ROW_SCHEMA

QUERY_NAME = "fraud-detector"

_MAX_FETCH_BYTES = "16777216"


def start_query(
    spark: SparkSession,
    context: WorkerContext,
    starting_offsets: str,
    on_batch: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    """Start the query on the context's checkpoint. Only an empty checkpoint uses `starting_offsets`."""
    rows = _source(spark, context, starting_offsets).mapInArrow(FanOutStage(context).run, KEYED_SCHEMA)
    outputs = rows.groupBy("key_group", "lane").transformWithState(
        KeyGroupProcessor(context), outputStructType=ROW_SCHEMA, outputMode="update", timeMode="none"
    )
    writer = outputs.writeStream.queryName(QUERY_NAME).outputMode("update").foreachBatch(on_batch)
    return writer.option("checkpointLocation", context.checkpoint).start()


def _source(spark: SparkSession, context: WorkerContext, starting_offsets: str) -> DataFrame:
    """One source for all topics that trigger a batch, because the time to plan a batch grows with the sources.

    Rules and ticks only trigger a batch. The rule log itself is read separately, up to the batch's pin.
    """
    topics, settings = context.settings.topics, context.settings
    options = {
        **context.kafka.spark(),
        "subscribe": f"{topics.transactions},{topics.rules},{topics.detector_ticks}",
        "startingOffsets": starting_offsets,
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
        "kafka.isolation.level": "read_committed",
        # With the default of 500 ms, a batch that has caught up with the producer waits that long for another byte.
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.poll.records": "5000",
        "kafka.fetch.max.bytes": _MAX_FETCH_BYTES,
        "kafka.max.partition.fetch.bytes": _MAX_FETCH_BYTES,
    }
    records = spark.readStream.format("kafka").options(**options).load()
    is_transaction = (f.col("topic") == f.lit(topics.transactions)).alias("is_transaction")
    return records.select("value", "partition", "offset", "timestamp", is_transaction)
