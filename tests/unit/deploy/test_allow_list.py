"""The agent's allow-list: members of a release that decide which code runs, and which broker gets the credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.deploy.agent.allow_list import AllowList
from fraud_rules.errors import ConfigError, ReleaseNotAllowed
from tests.support.deployments import RELEASE

BOOTSTRAP = "kafka:9092, kafka-2:9092"


@pytest.fixture
def shipped(project: Project) -> AllowList:
    return AllowList.load(project.config / "agent.yaml", BOOTSTRAP)


def written(folder: Path, text: str) -> AllowList:
    (folder / "agent.yaml").write_text(text)
    return AllowList.load(folder / "agent.yaml", BOOTSTRAP)


def test_the_shipped_list_accepts_what_the_demo_deploys(shipped: AllowList) -> None:
    shipped.check(RELEASE)
    placed = {"spark.driver.host": "agent", "spark.executor.memory": "2g"}
    shipped.check(msgspec.structs.replace(RELEASE, master="local[2,4]", bootstrap="kafka-2:9092", spark=placed))


def test_the_list_for_compose_accepts_what_compose_deploys(project: Project) -> None:
    allowed = AllowList.load(project.config / "images" / "agent.yaml", BOOTSTRAP)
    placed = {"spark.driver.bindAddress": "0.0.0.0", "spark.driver.host": "agent"}
    allowed.check(
        msgspec.structs.replace(
            RELEASE,
            master="spark://spark-master:7077",
            spark=placed,
            kafka_properties="/tmp/kafka/detector.properties",
        )
    )


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"spark": {"spark.driver.extraJavaOptions": "-XX:OnOutOfMemoryError=touch$IFS/tmp/x"}}, "extraJavaOptions"),
        ({"spark": {"spark.jars": "http://evil/x.jar"}}, r"spark\.jars"),
        ({"spark": {"spark.plugins": "evil.Plugin"}}, r"spark\.plugins"),
        ({"spark": {"spark.pyspark.python": "/tmp/evil"}}, r"spark\.pyspark\.python"),
        ({"spark": {"spark.driver.host": "${env:FRAUD_KAFKA_SASL_PASSWORD}"}}, "a reference"),
        ({"wheel": "/tmp/evil.whl"}, r"/tmp/evil\.whl"),
        ({"bootstrap": "kafka:9092,evil:9092"}, "evil:9092"),
        ({"bootstrap": ""}, "bootstrap"),
        ({"master": "spark://evil:7077"}, "spark://evil:7077"),
        ({"kafka_properties": "/etc/shadow"}, "/etc/shadow"),
    ],
)
def test_a_release_outside_the_list_is_refused_by_name(shipped: AllowList, members: dict[str, Any], named: str) -> None:
    with pytest.raises(ReleaseNotAllowed, match=named):
        shipped.check(msgspec.structs.replace(RELEASE, **members))


def test_a_refusal_names_every_fault(shipped: AllowList) -> None:
    with pytest.raises(ReleaseNotAllowed, match=r"evil:1.*spark\.jars.*x\.whl"):
        shipped.check(msgspec.structs.replace(RELEASE, bootstrap="evil:1", spark={"spark.jars": "x"}, wheel="/x.whl"))


def test_a_wheel_must_be_in_an_allowed_folder(tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    allowed = written(tmp_path, f"masters: ['local*']\nwheel_folders: ['{folder}']")
    allowed.check(msgspec.structs.replace(RELEASE, wheel=str(folder / "a.whl")))
    for outside in (f"{folder}-2/a.whl", f"{folder}/../a.whl", f"{folder}/link/a.whl"):
        with pytest.raises(ReleaseNotAllowed, match="the wheel"):
            allowed.check(msgspec.structs.replace(RELEASE, wheel=outside))


def test_the_file_can_extend_the_list(tmp_path: Path) -> None:
    allowed = written(tmp_path, "masters: [yarn]\nspark_settings: ['spark.hadoop.fs.s3a.*']\nbootstrap_servers: [b:1]")
    s3 = {"spark.hadoop.fs.s3a.endpoint": "http://s3"}
    allowed.check(msgspec.structs.replace(RELEASE, master="yarn", bootstrap="b:1", spark=s3))
    with pytest.raises(ReleaseNotAllowed, match="kafka:9092"):
        allowed.check(msgspec.structs.replace(RELEASE, master="yarn"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[]", "must be a mapping"),
        ("master: [local]", "master is unknown"),
        ("masters: local", "masters must be a list"),
        ("spark_settings: [1]", "spark_settings must be a list"),
        ("wheel_folders: [wheels]", "not an absolute path"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        written(tmp_path, text)
