"""docker-compose.yml and the image file: what can be told without a Docker daemon."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from fraud_rules.project import Project

ONE_SHOT = {"topics"}


@pytest.fixture
def compose(project: Project) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((project.root / "docker-compose.yml").read_text(encoding="utf-8"))
    return document


@pytest.fixture
def dockerfile(project: Project) -> str:
    return (project.config / "images" / "Dockerfile").read_text(encoding="utf-8")


def properties(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}


def test_services_run_as_nobody_special(compose: dict[str, Any]) -> None:
    assert {name: service["user"] for name, service in compose["services"].items()} == {
        "kafka": "appuser",
        "topics": "fraud",
        "detector": "fraud",
    }


def test_long_running_services_tell_their_health_and_come_back(compose: dict[str, Any]) -> None:
    running = {name: service for name, service in compose["services"].items() if name not in ONE_SHOT}
    wanted = {"healthcheck", "restart", "volumes", "stop_grace_period"}
    assert all(wanted <= service.keys() for service in running.values())


def test_what_is_kept_is_on_declared_volumes(compose: dict[str, Any]) -> None:
    used = {volume.split(":")[0] for service in compose["services"].values() for volume in service.get("volumes", ())}
    assert used == compose["volumes"].keys()


def test_ports_are_published_on_loopback_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_detector_waits_for_kafka_and_its_topics(compose: dict[str, Any]) -> None:
    waits = {name: how["condition"] for name, how in compose["services"]["detector"]["depends_on"].items()}
    assert waits == {"kafka": "service_healthy", "topics": "service_completed_successfully"}


def test_containers_broker_is_set_as_the_local_one(compose: dict[str, Any], project: Project) -> None:
    local = properties((project.config / "broker.properties").read_text(encoding="utf-8"))
    environment = compose["services"]["kafka"]["environment"]
    given = {name.removeprefix("KAFKA_").lower().replace("_", "."): str(value) for name, value in environment.items()}
    listeners = {
        "listener.security.protocol.map",
        "inter.broker.listener.name",
    }  # one more listener, for the containers
    shared = given.keys() & local.keys() - listeners
    assert len(shared) >= 10
    assert {name: given[name] for name in shared} == {name: local[name] for name in shared}


def test_images_are_of_a_named_version(compose: dict[str, Any], dockerfile: str, project: Project) -> None:
    kafka = re.search(r'name="kafka_2\.13" rev="([0-9.]+)"', (project.config / "ivy.xml").read_text(encoding="utf-8"))
    assert kafka is not None
    assert compose["services"]["kafka"]["image"] == f"apache/kafka:{kafka[1]}"
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"python:3.11-slim-bookworm"}


def test_the_image_drops_root_and_takes_only_what_exists(dockerfile: str, project: Project) -> None:
    assert dockerfile.index("\nUSER fraud") < dockerfile.index("ENTRYPOINT")
    copied = [source for source in re.findall(r"^COPY (\S+)", dockerfile, re.MULTILINE) if not source.startswith("--")]
    assert all((project.root / source).exists() for source in copied)
    assert (project.root / ".dockerignore").is_file()
