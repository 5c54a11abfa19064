"""Evaluates a batch on Spark: the evaluator evaluates a small batch, two jobs with many tasks a large one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.logs.detector_status import BatchMode
from fraud_rules.runtime import clock
from fraud_rules.stream.batch_loop import PlannedBatch
from fraud_rules.stream.batch_order import BatchOrder
from fraud_rules.stream.driver.channel_server import ChannelServer
from fraud_rules.stream.driver.evaluator import Evaluator
from fraud_rules.stream.driver.executors import ReadyExecutors
from fraud_rules.stream.driver.placement import located, run_tasks
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.engine_stage import EngineStage
from fraud_rules.stream.worker.fanout_stage import FanOutStage
from fraud_rules.stream.worker.wire import SIDE_OUTPUT, OutputRow, TaskRow

LARGE_BATCH_TRANSACTIONS: Final = 4_000
"""The number of transactions from which a batch gets many tasks."""


class BatchJobs:
    """Evaluates batches. The outputs do not depend on the mode."""

    def __init__(
        self,
        spark: SparkSession,
        context: WorkerContext,
        executors: ReadyExecutors,
        channel: ChannelServer,
        evaluator: Evaluator,
        tasks: int | None,
    ) -> None:
        """`tasks` is the number of tasks of a large batch, see `task_count`."""
        self._spark = spark
        self._context = context
        self._executors = executors
        self._channel = channel
        self._tasks = tasks
        self._evaluator = evaluator
        self.mode: BatchMode | None = None

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
        large = is_large(counts, topic)
        if self.mode is None or self.mode.large != large:
            self.mode = BatchMode(large, clock.now_ms())
        if large:
            with self._evaluator.suspended():  # the jobs need all cores
                return self._run_large(order)
        return self._evaluator.evaluate(order)

    def _run_large(self, order: BatchOrder) -> list[OutputRow]:
        # Spark would send the marks to every task, and keep a file of more than 1 MB until the detector ends.
        context = self._context.of_batch(msgspec.structs.replace(order, marks={}))
        tasks = task_count(self._tasks, context.settings, self._spark)
        places = located(self._spark.sparkContext, self._executors.places(tasks))
        side_outputs: list[OutputRow] = []
        parts: list[list[TaskRow]] = [[] for _ in range(tasks)]
        for row in run_tasks(places.mapPartitions(FanOutStage(context, tasks).run), tasks):
            if row.key_group == SIDE_OUTPUT:
                side_outputs.append(row)
            else:
                parts[row.key_group % tasks].append(TaskRow(row.key_group, row.blob))
        for key_group, marks in order.marks.items():
            parts[key_group % tasks].append(TaskRow(key_group, None, marks))
        self._channel.hand_out(order.pin.batch_id, parts)
        return [*side_outputs, *run_tasks(places.mapPartitions(EngineStage(context).run), tasks)]


def task_count(tasks: int | None, settings: DetectorSettings, spark: SparkSession) -> int:
    """The number of tasks of a job: as set, or a task for each core of the executors that Spark has at this moment, at
    most one for each key group."""
    return tasks or min(spark.sparkContext.defaultParallelism, settings.key_groups)


def is_large(counts: Mapping[str, int], transactions: str) -> bool:
    """Whether a batch with so many records by topic gets many tasks. `transactions` is the name of their topic.

    Thousands of changes of rules and lists at once are no reason: more jobs would delay the transactions between them,
    and each further worker would have to read the whole rule log.
    """
    return counts.get(transactions, 0) >= LARGE_BATCH_TRANSACTIONS


def _record_count(first: Mapping[str, int], ends: Mapping[str, int]) -> int:
    """The number of records between the offsets of a topic's partitions, at most."""
    return sum(end - first[at] for at, end in ends.items())
