"""The Spark job of a batch: one task for a small batch (see `small_batch`), a query with many tasks for a large one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.lost_records import Offsets
from fraud_rules.spark.append_times import append_time
from fraud_rules.spark.kafka_records import records_between
from fraud_rules.stream.batch_loop import PlannedBatch
from fraud_rules.stream.batch_order import ORDER_PROPERTY, BatchOrder
from fraud_rules.stream.driver.channel_server import ChannelServer
from fraud_rules.stream.driver.executors import ReadyExecutors
from fraud_rules.stream.driver.placement import located, run_tasks
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.engine_stage import EngineStage
from fraud_rules.stream.worker.fanout_stage import FanOutStage
from fraud_rules.stream.worker.small_batch import SmallBatch
from fraud_rules.stream.worker.wire import KEYED_SCHEMA, SIDE_OUTPUT, OutputRow

__all__ = ["LARGE_BATCH_TRANSACTIONS", "BatchJobs", "is_large", "read_records", "task_count"]

LARGE_BATCH_TRANSACTIONS: Final = 4_000
"""The number of transactions from which a batch gets many tasks."""


class BatchJobs:
    """Runs the Spark job of a batch. The outputs do not depend on the way."""

    def __init__(
        self,
        spark: SparkSession,
        context: WorkerContext,
        executors: ReadyExecutors,
        channel: ChannelServer,
        tasks: int | None,
    ) -> None:
        """`tasks` is the number of tasks of a large batch, see `task_count`."""
        self._spark = spark
        self._context = context
        self._executors = executors
        self._channel = channel
        self._tasks = tasks
        self._small: tuple[str | None, RDD[OutputRow]] | None = None

    def run(self, order: BatchOrder, batch: PlannedBatch) -> list[OutputRow]:
        """Evaluate the records of a batch. The order has no records yet."""
        starts, ends = batch.starts, batch.ends
        first = {topic: {at: starts.get(topic, {}).get(at, 0) for at in places} for topic, places in ends.items()}
        topic = self._context.settings.topics.transactions
        counts = {name: _record_count(first[name], places) for name, places in ends.items()}
        ranges = {int(at): (first[topic][at], end) for at, end in ends.get(topic, {}).items()}
        # Without transactions, the batch makes rules live, or removes expired rows.
        visits_all = not counts.get(topic) or any(count for name, count in counts.items() if name != topic)
        order = msgspec.structs.replace(order, ranges=ranges, visits_all=visits_all)
        self._spark.sparkContext.setLocalProperty(ORDER_PROPERTY, order.encode())
        if is_large(counts, topic):
            return self._run_large(batch.batch_id, {topic: first[topic]}, {topic: ends[topic]})
        return run_tasks(self._small_batch())

    def _small_batch(self) -> RDD[OutputRow]:
        """The task of a small batch. One object serves all small batches on an executor, because it keeps its
        serialized form."""
        location = self._executors.steady()
        if self._small is None or self._small[0] != location:
            one = located(self._spark.sparkContext, [location])
            self._small = location, one.mapPartitions(SmallBatch(self._context).run)
        return self._small[1]

    def _run_large(self, batch_id: int, first: Offsets, ends: Offsets) -> list[OutputRow]:
        context, tasks = self._context, task_count(self._tasks, self._context.settings, self._spark)
        records = read_records(self._spark, context, tasks, first, ends)
        keyed = records.mapInArrow(FanOutStage(context).run, KEYED_SCHEMA).toArrow()
        groups = keyed["key_group"].to_numpy()
        numbers = np.where(groups == SIDE_OUTPUT, SIDE_OUTPUT, groups % tasks)
        self._channel.hand_out(batch_id, [_filtered(keyed, numbers == task) for task in range(tasks)])
        places = located(self._spark.sparkContext, self._executors.places(tasks))
        rows = run_tasks(places.mapPartitions(EngineStage(context).run), tasks)
        side_outputs = _filtered(keyed, numbers == SIDE_OUTPUT)["blob"].to_pylist()
        return [*(OutputRow(SIDE_OUTPUT, blob) for blob in side_outputs), *rows]


def _filtered(table: pa.Table, is_kept: NDArray[np.bool_]) -> pa.Table:
    return table.filter(pa.array(is_kept))


def task_count(tasks: int | None, settings: DetectorSettings, spark: SparkSession) -> int:
    """The number of tasks of a job: as set, or a task for each core of the executors that Spark has at this moment, at
    most one for each key group."""
    return tasks or min(spark.sparkContext.defaultParallelism, settings.key_groups)


def is_large(counts: Mapping[str, int], transactions: str) -> bool:
    """Whether a batch with so many records by topic gets many tasks. `transactions` is the name of their topic.

    Thousands of changes of rules and lists at once are no reason: a query would delay the transactions between them,
    and each further worker would have to read the whole rule log.
    """
    return counts.get(transactions, 0) >= LARGE_BATCH_TRANSACTIONS


def _record_count(first: Mapping[str, int], ends: Mapping[str, int]) -> int:
    """The number of records between the offsets of a topic's partitions, at most."""
    return sum(end - first[at] for at, end in ends.items())


def read_records(spark: SparkSession, context: WorkerContext, tasks: int, starts: Offsets, ends: Offsets) -> DataFrame:
    """The transactions between the offsets, with the columns that `FanOutStage.run` reads.

    There are at least `tasks` Spark partitions, so that a topic with few partitions does not limit the cores.
    """
    options = {
        # With the default of 500 ms, a batch that has caught up with the producer waits that long for another byte.
        "kafka.fetch.max.wait.ms": "20",
        "minPartitions": str(tasks),
        # With a fixed group, the consumers of an executor serve the next large batch too. No offset is ever committed.
        "kafka.group.id": f"fraud-rules-{context.settings.detector}",
    }
    timestamp = append_time(context.settings.topics.transactions, producer_times=context.settings.producer_times)
    records = records_between(spark, context.kafka, starts, ends, options)
    return records.select("value", "partition", "offset", timestamp)
