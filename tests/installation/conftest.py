"""The installation that the tests of this folder share, in the order of their files: a start takes over a minute."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.record_writer import append_records
from tests.support.processes.supervised import Supervised, supervised

WARMED = {
    "ruleId": 9001,
    "ruleState": "SHADOW",
    "groupingKeyNames": ["payeeId", "paymentType"],
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">",
    "limit": 1_000_000,
    "windowMinutes": 10,
    "warmUp": True,
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the situation of the installation to the report of a failed test."""
    report = yield
    world = item.funcargs.get("world")
    if report.failed and call.when == "call" and isinstance(world, Supervised):
        report.sections.append(("installation", world.situation()))
    return report


@pytest.fixture(scope="package")
def world(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    with supervised(project, tmp_path_factory.mktemp("supervised")) as world:
        yield world


@pytest.fixture(scope="package")
def requested(world: Supervised) -> int:
    """The version of a rule that requests a warm-up. Airflow starts the watcher of such requests when it reads the DAGs
    again, two minutes after the start: the first test makes the request, and a test of the nights waits for the run."""
    world.await_batches(2)
    (version,) = append_records(
        world.site.broker.kafka, world.context.settings.topics.rules, [(b"9001", json.dumps(WARMED).encode())]
    )
    return version
