"""Places the tasks of a job on chosen executors, and runs a job of one task.

Spark runs a task on any free executor, unless its partition prefers one. It follows the preference if this executor is
free when the task starts, even with `spark.locality.wait` 0, which only forbids to wait for it.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, TypeVar

from pyspark import RDD, SparkContext
from pyspark.serializers import CPickleSerializer
from pyspark.util import _load_from_socket

__all__ = ["executors", "located", "one_task", "run_task"]

_Row = TypeVar("_Row")


def executors(spark: SparkContext) -> list[str]:
    """The locations of the live executors, in the form in which an RDD names the locations of a partition."""
    manager = _jvm(spark).org.apache.spark.SparkEnv.get().blockManager()
    peers = manager.master().getPeers(manager.blockManagerId())
    found = [peers.apply(i) for i in range(peers.size())]
    return sorted(f"executor_{each.host()}_{each.executorId()}" for each in found)


def located(spark: SparkContext, locations: Sequence[str]) -> RDD[int]:
    """An RDD with a partition of one element for each location, whose task prefers this location."""
    jvm = _jvm(spark)
    to_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
    element = pickle.dumps(0)
    parts = [jvm.scala.Tuple2(element, to_scala([each]).toSeq()) for each in locations]
    made = spark._jsc.sc().makeRDD(to_scala(parts).toSeq(), jvm.scala.reflect.ClassTag.Any())
    return RDD(made.toJavaRDD(), spark, CPickleSerializer())


def one_task(spark: SparkContext, location: str | None) -> RDD[int]:
    """An RDD with one partition of one element, whose task prefers this location, if any."""
    return spark.parallelize([0], 1) if location is None else located(spark, [location])


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
