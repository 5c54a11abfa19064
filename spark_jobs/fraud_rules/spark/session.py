"""The Spark session of the detector: every setting that matters to it, with the reason where it is not obvious."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fraud_rules.errors import ConfigError
from fraud_rules.spark.spark_home import spark_home

_FIRST_HEAP_MIB = 640
_LEAST_HEAP_MIB = 512
"""Spark refuses to start with less than 450 of them beside what its garbage collector sets apart."""

_MEMORY = re.compile(r"([0-9]{1,9})([kmgt]?)b?", re.ASCII)
_MIB: Final = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_STREAMING: Final = "spark.sql.streaming."
_HADOOP: Final = "spark.hadoop."
_CHECKPOINTING: Final = "org.apache.spark.sql.execution.streaming.checkpointing."
_STATE: Final = "org.apache.spark.sql.execution.streaming.state."


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs. `checkpoint` is a path or URI; `ui_port` None means no UI; `jars` is a folder; `name` is shown.

    `further` settings of Spark go over those of this product, but for what results depend on: see `check_options`.
    """

    checkpoint: str
    jars: Path
    master: str = "local[2,4]"
    shuffle_partitions: int = 2
    driver_memory: str = "1536m"
    ui_port: int | None = None
    name: str = "fraud-detector"
    further: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are one process on this host."""
        return self.master.startswith("local")

    @property
    def checkpoints_to_disk(self) -> bool:
        """Whether the checkpoint is a path of this host: its own disk, or one that all hosts mount."""
        return self.checkpoint.startswith("file:") or _SCHEME.match(self.checkpoint) is None

    @property
    def checkpoint_path(self) -> Path:
        """The checkpoint as a path of this host."""
        return Path(re.sub("^file:(//)?", "", self.checkpoint)).absolute()


def check_options(options: SparkOptions) -> None:
    """Raise ConfigError for what cannot work: no connector, no memory, or a setting that is this product's to make."""
    if not any(jar.name.startswith("spark-sql-kafka") for jar in options.jars.glob("*.jar")):
        raise ConfigError(f"{options.jars} has no Kafka connector for Spark: fetch the jars first (make jars)")
    if _mebibytes(options.driver_memory) < _LEAST_HEAP_MIB:
        raise ConfigError(f"a driver memory of {options.driver_memory} is too little: give {_LEAST_HEAP_MIB}m or more")
    ours = [name for name in options.further if name.startswith(_STREAMING) or name in _WORKERS]
    if ours:
        raise ConfigError(f"{', '.join(ours)}: exactness depends on these settings of Spark, leave them as they are")


def _heap(driver_memory: str) -> tuple[str, ...]:
    """The JVM's first heap. A batch leaves tens of megabytes of garbage and keeps nothing: a large young generation is
    collected seldom."""
    heap = min(_FIRST_HEAP_MIB, _mebibytes(driver_memory))
    return f"-Xms{heap}m", f"-Xmn{heap * 3 // 5}m"


def _mebibytes(memory: str) -> int:
    """An amount of memory as Spark writes it. Raises ConfigError."""
    match = _MEMORY.fullmatch(memory.strip().lower())
    if match is None:
        raise ConfigError(f"{memory!r} is no amount of memory: write 1536m or 2g")
    return int(int(match[1]) * _MIB[match[2]])


def build_session(options: SparkOptions) -> SparkSession:
    """Start Spark. Raises ConfigError as `check_options` does."""
    check_options(options)
    jars = sorted(options.jars.glob("*.jar"))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if options.is_local:
        os.environ.setdefault("SPARK_HOME", str(spark_home()))
    for name, value in _MALLOC.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1" if options.is_local else "")
    if not os.environ["SPARK_LOCAL_IP"]:
        del os.environ["SPARK_LOCAL_IP"]
    builder = SparkSession.builder.appName(options.name).master(options.master)
    for name, value in _settings(options, jars).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def drop_hadoop_defaults(spark: SparkSession) -> None:
    """Leave out what Hadoop's own files set: more than a thousand settings, to what its code has as defaults too.

    Spark sends all settings along with the state of every batch, each of them through a compressor of its own. Those
    made in the session stay.
    """
    session: Any = spark._jsparkSession
    jsc: Any = spark.sparkContext._jsc
    session.sessionState()  # whoever makes it loads all of them anew
    configuration = jsc.hadoopConfiguration()
    configuration.clear()
    for name, value in spark.sparkContext.getConf().getAll():
        if name.startswith(_HADOOP):
            configuration.set(name.removeprefix(_HADOOP), value)


def warm_up(spark: SparkSession) -> threading.Thread:
    """Start Python workers on this host, in a thread of its own: the query can be made meanwhile."""

    def run() -> None:
        with contextlib.suppress(PySparkException, Py4JError):
            spark.range(0, 2, 1, 2).mapInArrow(_nothing, "id long").toArrow()

    thread = threading.Thread(target=run, name="warm-up", daemon=True)
    thread.start()
    return thread


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield from ()


def _settings(options: SparkOptions, jars: list[Path]) -> dict[str, str]:
    settings = {**_placement(options, jars), **STATE_STORE, **_LOW_LATENCY, **_HISTORY, **_WORKERS}
    settings |= {f"spark.executorEnv.{name}": value for name, value in _MALLOC.items()}
    settings["spark.sql.shuffle.partitions"] = str(options.shuffle_partitions)
    if options.checkpoints_to_disk:
        settings |= _LOCAL_CHECKPOINT
    return settings | dict(options.further)


def _placement(options: SparkOptions, jars: list[Path]) -> dict[str, str]:
    settings = {
        "spark.driver.memory": options.driver_memory,
        "spark.driver.extraJavaOptions": " ".join([*_JVM, *_heap(options.driver_memory)]),
        "spark.executor.extraJavaOptions": _EXIT_ON_OOM,
        # Outputs are bounded by what a batch may take in; a limit here would fail the same batch for ever.
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": str(options.ui_port is not None).lower(),
        "spark.ui.showConsoleProgress": "false",
    }
    if options.ui_port is not None:
        settings["spark.ui.port"] = str(options.ui_port)
    paths = [str(jar) for jar in jars]
    if options.is_local:
        settings["spark.driver.extraClassPath"] = os.pathsep.join(paths)
        settings["spark.driver.bindAddress"] = settings["spark.driver.host"] = "127.0.0.1"
    else:
        settings["spark.driver.extraClassPath"] = os.pathsep.join(p for p in paths if "bare-naked" in p)
        settings["spark.jars"] = ",".join(paths)
    return settings


STATE_STORE: Final = {  # a reader of the state needs them too
    _STREAMING + "stateStore.providerClass": _STATE + "RocksDBStateStoreProvider",
    # A batch uploads what it changed, not whole files.
    _STREAMING + "stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Each attempt of a batch writes files of its own, so a repeated task cannot mix with the first.
    _STREAMING + "stateStore.checkpointFormatVersion": "2",
    # A snapshot flushes RocksDB within the commit. Chunks are few, so replaying a hundred changelogs takes no time.
    _STREAMING + "stateStore.minDeltasForSnapshot": "100",
    _STREAMING + "stateStore.rowChecksum.enabled": "true",
    _STREAMING + "checkpoint.fileChecksum.enabled": "true",
    _STREAMING + "stateStore.rocksdb.boundedMemoryUsage": "true",
    # The state is written, and read when a view is built anew: a cache wins nothing.
    _STREAMING + "stateStore.rocksdb.maxMemoryUsageMB": "64",
}

# What Spark's pages would show is kept for a thousand batches by default: too long to die young, so the heap would fill
# with it. A UI that is switched on shows the newest.
_HISTORY: Final = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "400",
    "spark.sql.ui.retainedExecutions": "10",
    _STREAMING + "ui.retainedProgressUpdates": "20",
}

# glibc gives the JVM's 300 threads up to eight arenas a core, and takes ever larger blocks from them; what is freed in
# them hardly ever returns to the system, so that native memory grows for hours. Two arenas, and large blocks by mmap.
_MALLOC: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "131072"}

# A JVM that lives on without the thread that ran out of memory makes no progress, and counts as active.
_EXIT_ON_OOM: Final = "-XX:+ExitOnOutOfMemoryError"

_JVM: Final = (
    # A batch runs much code once: the thorough compiler's threads take a core for minutes and win nothing back.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # Spark looks at the text of errors with regular expressions that need the stack.
    "-Xss4m",
    # At its default of 21 MB each start makes four or five full collections, of up to a second, while it loads classes.
    "-XX:MetaspaceSize=256m",
    _EXIT_ON_OOM,
)

# A batch has a few rows in each task, whatever the load: what matters is what a task costs before its first row.
_LOW_LATENCY: Final = {
    # Generating code takes longer than interpreting it for a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.broadcast.compress": "false",
    "spark.broadcast.blockSize": "128k",
    "spark.broadcast.checksum": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    _STREAMING + "noDataMicroBatches.enabled": "false",
    _STREAMING + "metricsEnabled": "false",
    _STREAMING + "numRecentProgressUpdates": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.locality.wait": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}

_WORKERS: Final = {
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "fraud_rules.stream.worker.daemon",
    # Only one of the two stages would take it, and workers of different settings are not shared.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # A worker that hangs is killed, and its task repeated.
    "spark.python.worker.idleTimeoutSeconds": "300",
    "spark.python.worker.killOnIdleTimeout": "true",
}

# Hadoop's local file system forks a process for each file it makes: tens of milliseconds a batch.
_LOCAL_CHECKPOINT: Final = {
    _HADOOP + "fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    _STREAMING + "checkpointFileManagerClass": _CHECKPOINTING + "FileSystemBasedCheckpointFileManager",
}
