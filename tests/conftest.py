"""Fixtures for all tests: a real broker, topics for one test, and processes with a warm JVM."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from functools import cache

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.kafka.own_broker import running_broker
from tests.support.kafka.own_topics import OwnTopics, own_topics
from tests.support.nightly.jobs import JobsInTurn
from tests.support.places import ROOT
from tests.support.processes.detectors_in_turn import DetectorsInTurn

# A busy machine must not fail a test, so no generated example has a time limit of its own.
settings.register_profile("untimed", deadline=None, max_examples=int(os.environ.get("FRAUD_EXAMPLES", "40")))
settings.load_profile("untimed")

_SHARED = frozenset({"broker", "topics", "spark"})
_SERVERS = frozenset({"integration", "recovery"})
_WITH_AIRFLOW = ("tests/installation/", "tests/e2e/")
_SHARING = {"tests/integration/control_plane/airflow/": "API server", "tests/integration/starts/": "Spark session"}
_FIRST = ("airflow", "detectors", "jobs")
_LONG = ("tests/unit/engine/test_kernel_against_oracle.py", "tests/unit/batch/test_parity_kernel.py")
"""Files of minutes without a server."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from the modules and the items, which live as long as the process: it would take a
    fifth of the CPU time of the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that uses a server, also through another fixture, as an integration test."""
    if _SHARED.intersection(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.integration)


@cache
def _files_with(name: str) -> frozenset[str]:
    """The test files whose text has this name."""
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(each.relative_to(ROOT).as_posix() for each in files if name in each.read_text(encoding="utf-8"))


def _group_of(nodeid: str) -> str:
    """The group of a test, by its node id: one worker runs all tests of a group. By default, a file is a group."""
    path = nodeid.split("::", 1)[0]
    if path.startswith(_WITH_AIRFLOW):
        return "airflow"
    if path in _files_with(DetectorsInTurn.__name__):
        return "detectors"
    if path in _files_with(JobsInTurn.__name__):
        return "jobs"
    return next((group for folder, group in _SHARING.items() if path.startswith(folder)), path)


class _Groups(LoadScopeScheduling):
    """Runs all tests that start a whole Airflow on one worker, because two starve each other. The tests that share an
    API server of Airflow's, a Spark session or a process with a warm JVM are on one worker too.

    Marks and `--dist loadgroup` would do the same, but pytest-xdist 3.8 writes the group into an attribute of an item
    that pytest 9 ignores.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Choose how tests are distributed to workers."""
    return _Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the groups that take longest, then the files that wait for servers, then long files. The rest are
    short files, so that the workers end together."""
    waiting = {item.path for item in items if _SERVERS.intersection(mark.name for mark in item.iter_markers())}

    def turn(item: pytest.Item) -> tuple[int, bool, bool]:
        group = _group_of(item.nodeid)
        first = _FIRST.index(group) if group in _FIRST else len(_FIRST)
        return first, item.path not in waiting, group not in _LONG

    items.sort(key=turn)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of tests that are coroutines (`pytest.mark.anyio`)."""
    return "asyncio"


@pytest.fixture(scope="session")
def project() -> Project:
    """The checkout under test."""
    return Project(ROOT)


@pytest.fixture(scope="session")
def broker(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker for the whole session. A test that kills brokers starts its own."""
    with running_broker(tmp_path_factory.mktemp("broker"), project) as broker:
        yield broker


@pytest.fixture
def topics(request: pytest.FixtureRequest, broker: Broker, project: Project) -> Iterator[OwnTopics]:
    """Topics for this test alone: those whose roles its module names in `TOPIC_ROLES`, or all declared topics.

    Creating and deleting all of them takes 0.6 s of CPU time, two of them 0.2 s.
    """
    with own_topics(broker, project, getattr(request.module, "TOPIC_ROLES", None)) as made:
        yield made


@pytest.fixture(scope="session")
def detectors(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DetectorsInTurn]:
    """The process for detectors that no test kills."""
    turn = DetectorsInTurn(tmp_path_factory.mktemp("detectors"), project)
    yield turn
    turn.end()


@pytest.fixture(scope="session")
def jobs(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobsInTurn]:
    """The process for jobs that no test kills."""
    turn = JobsInTurn(tmp_path_factory.mktemp("jobs"), project)
    yield turn
    turn.end()
