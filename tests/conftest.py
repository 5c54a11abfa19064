"""What tests share: a real broker, and topics of one's own on it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.declared import Topic, load_topics
from fraud_rules.project import Project
from fraud_rules.settings import TopicNames
from tests.ports import free_ports

_SHARED = frozenset({"broker", "topics", "spark"})
_WITH_AIRFLOW = ("tests/installation/", "tests/e2e/")


@dataclass(frozen=True, slots=True)
class OwnTopics:
    """All declared topics under a prefix no other test has: `names` by role, `declared` as created.

    `timed` says that the test dates the records of the two logs, see `timed_topics`.
    """

    bootstrap: str
    prefix: str
    names: TopicNames
    declared: tuple[Topic, ...]
    timed: bool = False

    @property
    def kafka(self) -> KafkaConnection:
        """How a client reaches them."""
        return KafkaConnection(self.bootstrap)


def pytest_itemcollected(item: pytest.Item) -> None:
    """What needs a server says so, also when only a fixture of it does."""
    if _SHARED.intersection(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.integration)


class _OneAirflow(LoadScopeScheduling):
    """The tests of a file stay in one worker, and all that start a whole Airflow share one: two starve each other."""

    def _split_scope(self, nodeid: str) -> str:
        return "airflow" if nodeid.startswith(_WITH_AIRFLOW) else nodeid.split("::", 1)[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How tests are shared out."""
    return _OneAirflow(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    items.sort(key=lambda item: not item.nodeid.startswith(_WITH_AIRFLOW))


@pytest.fixture(scope="session")
def project() -> Project:
    """The checkout under test."""
    return Project(Path(__file__).resolve().parents[1])


@pytest.fixture(scope="session")
def broker(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker for the whole session. A test that kills brokers makes its own."""
    port, controller_port = free_ports(2)
    broker = Broker(tmp_path_factory.mktemp("broker"), port, controller_port, project)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def topics(broker: Broker, project: Project) -> Iterator[OwnTopics]:
    """All declared topics, created for this test alone."""
    with own_topics(broker, project) as made:
        yield made


@contextmanager
def own_topics(broker: Broker, project: Project) -> Iterator[OwnTopics]:
    """All declared topics under a prefix of their own, until the block ends."""
    prefix = f"t{uuid.uuid4().hex[:8]}-"
    declared = load_topics(project.config / "topics.yaml", prefix)
    names = TopicNames(**{field.name: prefix + str(field.default) for field in fields(TopicNames)})
    topic_admin.apply(broker.kafka, declared)
    yield OwnTopics(broker.bootstrap, prefix, names, declared)
    topic_admin.delete(broker.kafka, declared)
