"""Places the tasks of a job on chosen executors, and runs such a job.

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

_Row = TypeVar("_Row")


def executors(spark: SparkContext) -> list[str]:
    """The locations of the live executors, in the form in which an RDD names the locations of a partition."""
    manager = _jvm(spark).org.apache.spark.SparkEnv.get().blockManager()
    peers = manager.master().getPeers(manager.blockManagerId())
    found = [peers.apply(i) for i in range(peers.size())]
    return sorted(f"executor_{each.host()}_{each.executorId()}" for each in found)


def cores(spark: SparkContext, location: str | None) -> int:
    """The cores of the executor at a location, see `executors`, or of a local master (None). 0 if it is lost."""
    number = "driver" if location is None else location.rpartition("_")[2]
    found = _jvm(spark).scala.jdk.javaapi.CollectionConverters.asJava(spark._jsc.sc().statusStore().executorList(True))
    return sum(each.totalCores() for each in found if each.id() == number)


def located(spark: SparkContext, locations: Sequence[str | None]) -> RDD[int]:
    """An RDD with a partition for each location, whose one element is its number. Its task prefers this location, if
    any."""
    jvm = _jvm(spark)
    to_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
    parts = [
        jvm.scala.Tuple2(pickle.dumps(number), to_scala([] if location is None else [location]).toSeq())
        for number, location in enumerate(locations)
    ]
    made = spark._jsc.sc().makeRDD(to_scala(parts).toSeq(), jvm.scala.reflect.ClassTag.Any())
    return RDD(made.toJavaRDD(), spark, CPickleSerializer())


def run_tasks(rdd: RDD[_Row], count: int = 1) -> list[_Row]:
    """The elements of an RDD with so many partitions. This is the only action of its job.

    For each `RDD.collect`, Spark searches the byte code of two of its largest classes for references to clean. This
    call, which `SparkContext.runJob` also makes, searches one of them: it needs four fifths of the JVM's CPU time.
    """
    jvm, spark = _jvm(rdd.context), rdd.context._jsc.sc()
    partitions = jvm.java.util.ArrayList()
    for number in range(count):
        partitions.add(number)
    with _load_from_socket(jvm.PythonRDD.runJob(spark, rdd._jrdd, partitions), rdd._jrdd_deserializer) as elements:
        return list(elements)


def _jvm(spark: SparkContext) -> Any:
    return spark._jvm
