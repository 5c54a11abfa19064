"""The Spark session of the detector: all settings that it depends on, with reasons."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from fraud_rules.configuration.detector_options import DEFAULTS
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.caches.class_archive import sharing_options
from fraud_rules.spark.spark_home import spark_home

_LEAST_HEAP_MIB = 512
"""Spark refuses to start with less than 450 MiB, plus the reserve of its garbage collector."""

_MEMORY = re.compile(r"([0-9]{1,9})([kmgt]?)b?", re.ASCII)
_MIB: Final = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options of a Spark session. `tasks` is the number of tasks of a large batch; None: one for each core.
    `ui_port` None: no UI.

    `further` settings of Spark override this product's, except those on which results depend, see `check_options`.
    """

    master: str = DEFAULTS.master
    tasks: int | None = DEFAULTS.tasks
    driver_memory: str = DEFAULTS.driver_memory
    ui_port: int | None = None
    name: str = "fraud-detector"
    further: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are one process on this host."""
        return self.master.startswith("local")


def check_options(options: SparkOptions) -> None:
    """Raise ConfigError for too little memory, or a setting that must not change."""
    if _mebibytes(options.driver_memory) < _LEAST_HEAP_MIB:
        raise ConfigError(f"a driver memory of {options.driver_memory} is too little: set {_LEAST_HEAP_MIB}m or more")
    ours = [name for name in options.further if name in _WORKERS]
    if ours:
        raise ConfigError(f"{', '.join(ours)}: exactly-once results depend on these Spark settings, so do not set them")


def _mebibytes(memory: str) -> int:
    """Parse an amount of memory in Spark's notation. Raises ConfigError."""
    match = _MEMORY.fullmatch(memory.strip().lower())
    if match is None:
        raise ConfigError(f"{memory!r} is not an amount of memory: write 1536m or 2g")
    return int(int(match[1]) * _MIB[match[2]])


def class_archive(project: Project) -> Path:
    """The class archive of a local Spark."""
    return project.jars / "spark.jsa"


def build_session(options: SparkOptions) -> SparkSession:
    """Start Spark. Raises the ConfigErrors of `check_options`."""
    check_options(options)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if options.is_local:
        os.environ.setdefault("SPARK_HOME", str(spark_home()))
    for name, value in _MALLOC.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1" if options.is_local else "")
    if not os.environ["SPARK_LOCAL_IP"]:
        del os.environ["SPARK_LOCAL_IP"]
    builder = SparkSession.builder.appName(options.name).master(options.master)
    for name, value in _settings(options).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _settings(options: SparkOptions) -> dict[str, str]:
    settings = {**_placement(options), **_LOW_LATENCY, **_HISTORY, **_WORKERS}
    settings |= {f"spark.executorEnv.{name}": value for name, value in _MALLOC.items()}
    return settings | dict(options.further)


def _placement(options: SparkOptions) -> dict[str, str]:
    settings = {
        "spark.driver.memory": options.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(JVM),
        "spark.executor.extraJavaOptions": _EXIT_ON_OOM,
        # The batch size bounds the outputs. A limit here would fail the same batch forever.
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": str(options.ui_port is not None).lower(),
        "spark.ui.showConsoleProgress": "false",
    }
    if options.ui_port is not None:
        settings["spark.ui.port"] = str(options.ui_port)
    if options.is_local:
        settings["spark.driver.extraJavaOptions"] = shlex.join((*JVM, *sharing_options(class_archive(Project.find()))))
        settings["spark.driver.bindAddress"] = settings["spark.driver.host"] = "127.0.0.1"
    else:
        settings |= _LOST_HOSTS
    return settings


# The connections of a host without power or network stay open, so only missing heartbeats show its loss. By default
# Spark waits up to three minutes for them. With these settings it waits 11 s at most, less than a supervisor does
# (`stalled_ms`).
_LOST_HOSTS: Final = {
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": "10s",
    "spark.network.timeoutInterval": "1s",
    # By default Spark waits 5 s for the reason of a disconnection. A standalone cluster gives it at once, and none for
    # a lost host.
    "spark.standalone.executorRemoveDelayOnDisconnection": "500ms",
    # Its default is the network's time-out. An answer may take longer, for example while a JVM loads its classes.
    "spark.rpc.askTimeout": "120s",
    # A task that reads the shuffled rows of a lost host fails soon, so that Spark evaluates these rows again elsewhere.
    "spark.shuffle.io.connectionCreationTimeout": "5s",
    "spark.shuffle.io.retryWait": "1s",
}

# By default Spark keeps the data of its UI for a thousand batches. These objects survive the young generation and would
# fill the heap. With these settings the UI shows only the newest batches.
_HISTORY: Final = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "400",
    "spark.sql.ui.retainedExecutions": "10",
}

# glibc gives the JVM's 300 threads up to eight arenas per core and allocates ever larger blocks from them. Freed memory
# hardly ever returns to the system, so native memory grows for hours. Hence two arenas, and mmap for large blocks. The
# Python workers inherit these variables and need the opposite, see `worker/daemon.py`.
_MALLOC: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "131072"}

# Without this option a JVM survives the death of a thread by lack of memory: it makes no progress but counts as active.
_EXIT_ON_OOM: Final = "-XX:+ExitOnOutOfMemoryError"

JVM: Final = (
    # A batch runs much code once. The threads of the C2 compiler would use a core for minutes without a gain.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # A batch leaves tens of megabytes of garbage and retains nothing: a large young generation needs few collections.
    "-Xms240m",
    "-Xmn144m",
    # Spark applies regular expressions to the text of errors, which need a large stack.
    "-Xss4m",
    # With the default of 21 MB, loading classes causes four or five full collections per start, of up to a second each.
    "-XX:MetaspaceSize=256m",
    # With C1 alone the code cache has 48 MB, and since Java 20 each few MB of new code cause a full collection.
    "-XX:ReservedCodeCacheSize=240m",
    _EXIT_ON_OOM,
)

# A task has few rows, whatever the load, so the fixed cost of a task dominates.
_LOW_LATENCY: Final = {
    # For a few rows, code generation takes longer than interpretation.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # For each query, Spark renders its plan for the UI. The default form takes several times as long.
    "spark.sql.ui.explainMode": "simple",
    "spark.broadcast.compress": "false",
    "spark.broadcast.blockSize": "128k",
    "spark.broadcast.checksum": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.locality.wait": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}

_WORKERS: Final = {
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "fraud_rules.stream.worker.daemon",
    # Only one of the two stages would use this setting, and workers with different settings are not shared.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # A worker that hangs is killed, and its task repeated.
    "spark.python.worker.idleTimeoutSeconds": "300",
    "spark.python.worker.killOnIdleTimeout": "true",
}
