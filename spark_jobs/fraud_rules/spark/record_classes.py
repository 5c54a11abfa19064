"""Records the class archives of a local Spark and a local broker: `python -m fraud_rules.spark.record_classes`, once a
checkout.

bin/bootstrap runs this module. A JVM that maps its archive starts with half of the CPU time. The program loads the
classes that a detector and a batch job need: it runs jobs with Python workers and with Parquet. For the archive of the
broker, it starts a broker and writes a record.
"""

from __future__ import annotations

import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.errors import DetectorFailed
from fraud_rules.kafka import topics
from fraud_rules.kafka.broker import Broker, broker_classes
from fraud_rules.kafka.declared import Topic
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime.caches.class_archive import recorded_archive
from fraud_rules.spark.session import JVM, SparkOptions, build_session, class_archive

_END_S: Final = 300.0


def record_classes(project: Project) -> None:
    """Write the archive of Spark of a project. Raises FraudError or OSError."""
    archive = class_archive(project)
    with tempfile.TemporaryDirectory(prefix="classes-") as scratch, recorded_archive(archive) as recording:
        further = {"spark.driver.extraJavaOptions": shlex.join((*JVM, *recording))}
        spark = build_session(SparkOptions(further=further))
        _run_jobs(spark, f"{scratch}/rows")
        _end(spark)


def record_broker_classes(project: Project) -> None:
    """Write the archive of the broker of a project. Raises FraudError or OSError."""
    archive = broker_classes(project.jars / "broker")
    archive.unlink(missing_ok=True)  # a JVM records no archive while it maps one
    with tempfile.TemporaryDirectory(prefix="classes-") as home, recorded_archive(archive) as recording:
        broker = Broker(Path(home), *_free_ports(), project, recording)
        try:
            broker.start()
            topics.apply(broker.kafka, [Topic("classes", 1)])
            append_records(broker.kafka, "classes", [(b"", b"")])
        finally:
            broker.stop()


def main() -> int:
    """Record the archives and report the duration."""
    began_s, project = time.monotonic(), Project.find()
    record_classes(project)
    record_broker_classes(project)
    sys.stderr.write(f"the class archives are written ({time.monotonic() - began_s:.0f} s)\n")
    return 0


def _run_jobs(spark: SparkSession, rows: str) -> None:
    """Run a job of Python workers, as a batch does, and jobs with two stages and with Parquet, as the batch jobs do."""
    spark.sparkContext.parallelize(range(2), 2).mapPartitions(list).collect()
    parts = spark.range(0, 2, 1, 2).mapInArrow(_same, "id long").repartition(2, "id")
    parts.mapInArrow(_same, "id long").toArrow()
    spark.range(2).selectExpr("id", "id % 2 as part").write.partitionBy("part").parquet(rows)
    spark.read.parquet(rows).where("part = 1").orderBy("id").toArrow()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _end(spark: SparkSession) -> None:
    """Wait until the JVM has ended and written the archive. Raises DetectorFailed after an error of the JVM."""
    gateway = SparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM of pyspark ends with its input
    code = gateway.proc.wait(_END_S)
    if code != 0:
        raise DetectorFailed(f"Spark's JVM ended with exit code {code}")


if __name__ == "__main__":
    sys.exit(main())
