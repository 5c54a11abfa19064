"""The folder of a checkpoint, and the places that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fraud_ops.hooks.checkpoint import CheckpointHook
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError
from fraud_rules.spark.session import SparkOptions, build_session, check_options
from fraud_rules.spark.storage import DiskFolder
from tests.support.processes.fraud_command import fraud


@pytest.fixture(scope="module")
def spark(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    checkpoint = str(tmp_path_factory.mktemp("checkpoint"))
    session = build_session(SparkOptions(checkpoint, project.jars / "connector"))
    yield session
    session.stop()


@pytest.fixture
def folder(tmp_path: Path) -> DiskFolder:
    return DiskFolder(tmp_path / "root")


def test_files_appear_whole_and_once(folder: DiskFolder) -> None:
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
    ("checkpoint", "path"), [("/data/c", "/data/c"), ("file:/data/c", "/data/c"), ("file:///data/c", "/data/c")]
)
def test_a_checkpoint_is_a_path_or_a_uri_of_a_file(checkpoint: str, path: str) -> None:
    assert str(SparkOptions(checkpoint, Path("lib")).checkpoint_path) == path


@pytest.mark.parametrize("place", ["s3a://b/c", "s3://b/c", "hdfs://n/c", "hdfs:/c", "gs://b/c"])
def test_an_object_store_is_refused_by_name(project: Project, place: str) -> None:
    options = SparkOptions(place, project.jars / "connector")
    for opened in (lambda: check_options(options), lambda: CheckpointHook(place)):
        with pytest.raises(ConfigError, match=rf"{place}.*all hosts mount"):
            opened()


@pytest.mark.parametrize("command", ["detect", "rebuild"])
def test_a_start_refuses_an_object_store_before_it_asks_kafka(command: str) -> None:
    refused = fraud(command, "--bootstrap", "nowhere.invalid:9092", "--checkpoint", "s3a://bucket/checkpoint")
    assert refused.exit_code == ConfigError.exit_code
    assert "s3a://bucket/checkpoint: the checkpoint must be a folder that all hosts mount" in refused.err


@pytest.mark.parametrize("command", ["detect", "rebuild"])
def test_a_start_refuses_a_spark_setting_on_which_results_depend(command: str) -> None:
    setting = "spark.sql.streaming.minBatchesToRetain"
    refused = fraud(command, "--bootstrap", "nowhere.invalid:9092", "--spark-conf", f"{setting}=1")
    assert refused.exit_code == ConfigError.exit_code
    assert f"{setting}: exactly-once results depend on these Spark settings" in refused.err
