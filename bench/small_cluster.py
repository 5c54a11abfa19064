"""A standalone cluster of small workers on this machine, for the detector of a session."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.spark_cluster import StandaloneCluster

_SETTINGS = {"spark.executor.memory": "700m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@contextmanager
def small_cluster(home: Path, workers: int, cores: int = 1) -> Iterator[tuple[StandaloneCluster, list[str]]]:
    """A cluster whose files are in a folder until the end of the block, and the arguments of a detector on it."""
    home.mkdir()
    cluster = StandaloneCluster(home, workers, cores)
    flags = [flag for name, value in _SETTINGS.items() for flag in ("--spark-conf", f"{name}={value}")]
    try:
        yield cluster, ["--master", cluster.url, *flags]
    finally:
        cluster.end()
        shutil.rmtree(home, ignore_errors=True)
