"""Keeps the task of small batches on one executor, whose host has current views.

Spark runs a task on any free executor, unless its partition prefers one. It follows the preference if this executor is
free when the task starts, even with `spark.locality.wait` 0, which only forbids to wait for it.
"""

from __future__ import annotations

import time
from typing import Any, Final, TypeVar

from pyspark import RDD, SparkContext
from pyspark.util import _load_from_socket

__all__ = ["SteadyExecutor", "executors", "one_task", "run_task"]

_CHECK_S: Final = 10.0

_Row = TypeVar("_Row")


class SteadyExecutor:
    """Chooses the executor of small batches: the same one while it lives."""

    def __init__(self, spark: SparkContext) -> None:
        self._spark = spark
        self._is_local = (spark.master or "").partition("[")[0] == "local"
        self._chosen: str | None = None
        self._due_s = float("-inf")

    def choose(self) -> str | None:
        """The executor's location for `one_task`. None with a local master, and before the first executor is ready.

        Looks for a lost executor every ten seconds only, because each look costs milliseconds. Until then, Spark runs
        its tasks on another one.
        """
        if self._is_local:
            return None
        if self._chosen is None or time.monotonic() >= self._due_s:
            alive = executors(self._spark)
            if self._chosen not in alive:
                self._chosen = min(alive, default=None)
            self._due_s = time.monotonic() + _CHECK_S
        return self._chosen


def executors(spark: SparkContext) -> list[str]:
    """The locations of the live executors, in the form in which an RDD names the locations of a partition."""
    manager = _jvm(spark).org.apache.spark.SparkEnv.get().blockManager()
    peers = manager.master().getPeers(manager.blockManagerId())
    found = [peers.apply(i) for i in range(peers.size())]
    return sorted(f"executor_{each.host()}_{each.executorId()}" for each in found)


def one_task(spark: SparkContext, location: str | None) -> RDD[int]:
    """An RDD with one partition of one element, whose task prefers this location."""
    one: RDD[int] = spark.parallelize([0], 1)
    if location is None:
        return one
    jvm = _jvm(spark)
    (element,) = one._jrdd.collect()
    to_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
    located = jvm.scala.Tuple2(element, to_scala([location]).toSeq())
    made = spark._jsc.sc().makeRDD(to_scala([located]).toSeq(), jvm.scala.reflect.ClassTag.Any())
    return RDD(made.toJavaRDD(), spark, one._jrdd_deserializer)


def run_task(rdd: RDD[_Row]) -> list[_Row]:
    """The elements of an RDD with one partition. This is the only action of its job.

    For each `RDD.collect`, Spark searches the byte code of two of its largest classes for references to clean. This
    call, which `SparkContext.runJob` also makes, searches one of them: it needs four fifths of the JVM's CPU time.
    """
    jvm, spark = _jvm(rdd.context), rdd.context._jsc.sc()
    partitions = jvm.java.util.ArrayList()
    partitions.add(0)
    with _load_from_socket(jvm.PythonRDD.runJob(spark, rdd._jrdd, partitions), rdd._jrdd_deserializer) as elements:
        return list(elements)


def _jvm(spark: SparkContext) -> Any:
    return spark._jvm
