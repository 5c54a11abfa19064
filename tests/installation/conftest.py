"""The installation that the tests of this folder share, in the order of their files: a start takes over a minute."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from fraud_rules.configuration.project import Project
from tests.support.processes.supervised import Supervised, supervised


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
