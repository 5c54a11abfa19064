"""Fixtures for all tests: a real broker, and topics for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.kafka.own_topics import OwnTopics, own_topics
from tests.support.places import ROOT
from tests.support.ports import free_ports

_SHARED = frozenset({"broker", "topics", "spark"})
_WITH_AIRFLOW = ("tests/installation/", "tests/e2e/")
_AIRFLOW = "airflow"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that uses a server, also through another fixture, as an integration test."""
    if _SHARED.intersection(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.integration)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Assign tests to groups that one worker runs, and start with the longest group.

    All tests that start a whole Airflow are one group, because two Airflows starve each other. The tests of a file that
    start servers or share a fixture are one group, so that the fixture runs once. Any worker may run
    the other tests. They come last.
    """
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (groups[item] != _AIRFLOW, groups[item] is None))


def _group(item: pytest.Item) -> str | None:
    if item.nodeid.startswith(_WITH_AIRFLOW):
        return _AIRFLOW
    shares = any(
        fixture.scope != "function" and fixture.argname != "project" and fixture.baseid
        for fixtures in item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        for fixture in fixtures
    )
    if not shares and not any(item.get_closest_marker(name) for name in ("integration", "recovery")):
        return None
    return f"{item.path.parent.name}.{item.path.stem}"


@pytest.fixture(scope="session")
def project() -> Project:
    """The checkout under test."""
    return Project(ROOT)


@pytest.fixture(scope="session")
def broker(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker for the whole session. A test that kills brokers starts its own."""
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
