"""Records the class archives of a local Spark and a local broker: `python -m fraud_rules.spark.record_classes`, once a
checkout.

bin/bootstrap runs this module. A JVM that maps its archive starts with half of the CPU time. The program loads the
classes that a detector and a batch job need. It runs jobs with Python workers and with Parquet. It begins a read of a
broker that does not exist, and loads the remaining classes of such a read by name. For the broker's archive it starts
a broker and writes a record.
"""

from __future__ import annotations

import contextlib
import shlex
import socket
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.errors import DetectorFailed
from fraud_rules.kafka import topics
from fraud_rules.kafka.broker import Broker, broker_classes
from fraud_rules.kafka.declared import Topic
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime.class_archive import recorded_archive
from fraud_rules.spark.session import JVM, SparkOptions, build_session, class_archive

__all__ = ["main", "record_broker_classes", "record_classes"]

_END_S: Final = 120.0
_OF_A_READ: Final = (
    "org/apache/spark/sql/kafka010/",
    "org/apache/kafka/clients/consumer/",
    "org/apache/kafka/common/record/",
    "org/apache/commons/pool2/impl/",
)
"""The packages of the connector whose classes a read of records loads."""


def record_classes(jars: Path) -> None:
    """Write the archive beside this folder of jars. Raises FraudError or OSError."""
    with tempfile.TemporaryDirectory(prefix="classes-") as scratch, recorded_archive(class_archive(jars)) as recording:
        further = {"spark.driver.extraJavaOptions": shlex.join((*JVM, *recording))}
        spark = build_session(SparkOptions(jars, further=further))
        _run_jobs(spark, f"{scratch}/rows")
        _begin_to_read(spark)
        _load(spark, [name for jar in jars.glob("*.jar") for name in _classes_of(jar) if name.startswith(_OF_A_READ)])
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
    record_classes(project.jars / "connector")
    record_broker_classes(project)
    sys.stderr.write(f"the class archives are written ({time.monotonic() - began_s:.0f} s)\n")
    return 0


def _run_jobs(spark: SparkSession, rows: str) -> None:
    """Run two stages of Python workers, as a batch does, and jobs with Parquet, as the batch jobs do."""
    parts = spark.range(0, 2, 1, 2).mapInArrow(_same, "id long").repartition(2, "id")
    parts.mapInArrow(_same, "id long").toArrow()
    spark.range(2).selectExpr("id", "id % 2 as part").write.partitionBy("part").parquet(rows)
    spark.read.parquet(rows).where("part = 1").orderBy("id").toArrow()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _begin_to_read(spark: SparkSession) -> None:
    """Request the offsets of a topic from a port without a broker. The request fails after a second."""
    port, _ = _free_ports()
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{port}",
        "kafka.default.api.timeout.ms": "1000",
        "kafka.request.timeout.ms": "1000",
        "fetchOffset.numRetries": "1",
        "subscribe": "transactions",
    }
    with contextlib.suppress(PySparkException, Py4JError):
        spark.read.format("kafka").options(**options).load().selectExpr("value", "`offset`").toArrow()


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _classes_of(jar: Path) -> list[str]:
    with zipfile.ZipFile(jar) as content:
        return [name.removesuffix(".class") for name in content.namelist() if name.endswith(".class")]


def _load(spark: SparkSession, names: Iterable[str]) -> None:
    """Load classes, and skip those whose own dependencies are missing."""
    jvm = spark._jvm
    assert jvm is not None
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for name in names:
        with contextlib.suppress(Py4JError):
            jvm.java.lang.Class.forName(name.replace("/", "."), False, loader)


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
