"""The local broker starts once, answers, and starts again after any kind of end."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable, ConfigError, FraudError, PortInUse
from fraud_rules.kafka import topics
from fraud_rules.kafka.broker import Broker, broker_classes
from fraud_rules.kafka.declared import Topic
from fraud_rules.runtime.caches.class_archive import sharing_options
from fraud_rules.runtime.process import ProcessHandle
from tests.support.kafka.own_broker import running_broker
from tests.support.kafka.records import produce, read_all
from tests.support.ports import free_ports

pytestmark = pytest.mark.integration

LOG = Topic("log", 1)


@pytest.fixture(scope="module")
def own(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may kill. An earlier start was interrupted while it formatted the folder."""
    home = tmp_path_factory.mktemp("own-broker")
    (home / "data.partial" / "left").mkdir(parents=True)
    (home / "broker.log").write_text("of an earlier run\n", encoding="utf-8")
    with running_broker(home, project) as own:
        topics.apply(own.kafka, [LOG])
        yield own


def values(broker: Broker) -> list[bytes | None]:
    return [message.value() for message in read_all(broker.bootstrap, LOG.name)]


def pid(broker: Broker) -> int | None:
    return broker.status().pid


def test_an_interrupted_format_is_repeated(own: Broker) -> None:
    own.start()
    assert own.status().answers
    assert not (own.home / "data" / "left").exists()


def test_a_second_start_returns_the_running_broker(own: Broker, project: Project) -> None:
    own.start()
    other = Broker(own.home, own.port, own.controller_port, project)
    assert other.start() is False
    assert pid(other) == pid(own)
    assert other.status().answers


def test_its_jvm_maps_the_class_archive(own: Broker, project: Project) -> None:
    archive = broker_classes(project.jars / "broker")
    if not sharing_options(archive):
        pytest.skip("bin/bootstrap could not record the class archive")
    own.start()
    assert str(archive) in Path(f"/proc/{pid(own)}/maps").read_text(encoding="utf-8")


def test_a_killed_broker_starts_again_with_its_records(own: Broker) -> None:
    own.start()
    before = values(own)
    produce(own.bootstrap, LOG.name, [b"written before the kill"])
    own.kill()
    assert own.status().pid is None
    assert own.start() is True
    assert values(own) == [*before, b"written before the kill"]


def test_a_lost_handle_does_not_start_a_second_one(own: Broker) -> None:
    own.start()
    running = pid(own)
    (own.home / "process.json").unlink()
    assert own.start() is False
    assert pid(own) == running


def test_a_stop_is_clean_and_a_handle_with_the_pid_of_another_process_is_ignored(own: Broker) -> None:
    own.start()
    before = values(own)
    assert own.stop() is True
    assert own.stop() is False
    ProcessHandle(os.getpid(), 0.0, "-Dfraud.broker=elsewhere").write(own.home / "process.json")
    assert own.status().pid is None
    assert own.stop() is False
    assert own.start() is True
    assert values(own) == before


@pytest.mark.parametrize("taken", ["port", "controller_port"])
def test_a_port_of_another_program_is_refused_by_name(taken: str, project: Project, tmp_path: Path) -> None:
    broker = Broker(tmp_path, *free_ports(2), project)
    with socket.create_server(("127.0.0.1", getattr(broker, taken))), pytest.raises(PortInUse, match="FRAUD_BROKER_"):
        broker.start()
    assert broker.status().pid is None


def test_a_running_broker_refuses_another_port(own: Broker, project: Project) -> None:
    own.start()
    with pytest.raises(ConfigError, match="another port"):
        Broker(own.home, *free_ports(2), project).start()


def test_a_broker_that_ends_reports_the_reason(project: Project, tmp_path: Path) -> None:
    broker = Broker(tmp_path, *free_ports(2), project)
    (tmp_path / "data").mkdir()  # never formatted
    with pytest.raises(BrokerUnavailable, match=r"broker\.log"):
        broker.start()


def test_without_jars_the_error_names_the_command_to_run(project: Project, tmp_path: Path) -> None:
    elsewhere = dataclasses.replace(project, root=tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "broker.properties").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="make jars"):
        Broker(tmp_path / "home", *free_ports(2), elsewhere).start()


@pytest.mark.parametrize("text", ["", "x", "0", "65536", "-1", "9" * 5_000, "٣"])
def test_an_invalid_port_is_refused(text: str, project: Project) -> None:
    with pytest.raises(FraudError, match="FRAUD_BROKER_PORT"):
        Broker.of_project(project, {"FRAUD_BROKER_PORT": text})
