"""The installation that the tests of this folder share, in the order of their files: a start takes over a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fraud_rules.configuration.project import Project
from tests.support.processes.supervised import Supervised, supervised


@pytest.fixture(scope="package")
def world(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    with supervised(project, tmp_path_factory.mktemp("supervised")) as world:
        yield world
