"""The folder beside a checkpoint behaves the same on this host's disk and through Hadoop's client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.spark.session import SparkOptions, build_session, drop_hadoop_defaults
from fraud_rules.spark.storage import DiskFolder, Folder, HadoopFolder


@pytest.fixture(scope="module")
def spark(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    checkpoint = str(tmp_path_factory.mktemp("checkpoint"))
    session = build_session(SparkOptions(checkpoint, project.jars / "connector"))
    yield session
    session.stop()


@pytest.fixture(params=["disk", "hadoop"])
def folder(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Folder:
    root = tmp_path / "root"
    return DiskFolder(root) if request.param == "disk" else HadoopFolder(spark, root.as_uri())


def test_files_appear_whole_and_once(folder: Folder) -> None:
    assert folder.names() == []
    assert folder.read("pins/1") is None
    assert not folder.exists("pins/1")

    assert folder.create("pins/1", b"one")
    assert not folder.create("pins/1", b"two")
    assert folder.read("pins/1") == b"one"
    assert folder.create("pins/1", b"three", replace=True)
    assert folder.read("pins/1") == b"three"
    assert folder.create("pins/10", bytes(range(256)))
    assert folder.read("pins/10") == bytes(range(256))
    assert [name for name in folder.names("pins") if not name.startswith(".")] == ["1", "10"]

    folder.delete("pins/1")
    folder.delete("pins/1")
    assert folder.read("pins/1") is None
    assert folder.exists("pins")


@pytest.mark.parametrize(
    ("checkpoint", "on_disk", "path"),
    [
        ("/data/c", True, "/data/c"),
        ("file:/data/c", True, "/data/c"),
        ("file:///data/c", True, "/data/c"),
        ("hdfs://n/c", False, None),
        ("s3a://b/c", False, None),
        ("hdfs:/c", False, None),
    ],
)
def test_a_checkpoint_is_a_path_or_a_uri(checkpoint: str, on_disk: bool, path: str | None) -> None:
    options = SparkOptions(checkpoint, Path("lib"))
    assert options.checkpoints_to_disk is on_disk
    if path is not None:
        assert str(options.checkpoint_path) == path


def test_only_our_hadoop_settings_remain(spark: SparkSession) -> None:
    """A Hadoop class that is loaded later must not restore the others."""
    session: Any = spark._jsparkSession
    drop_hadoop_defaults(spark)
    assert spark.range(3).count() == 3
    left = session.sessionState().newHadoopConf()
    assert left.get("io.file.buffer.size") is None
    assert left.get("mapreduce.job.maps") is None
    assert left.get("yarn.nodemanager.address") is None
    assert left.get("fs.file.impl").endswith("BareLocalFileSystem")
