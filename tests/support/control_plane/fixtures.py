"""The fixtures that unit tests and integration tests of the control plane share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import Scene, empty_store
from tests.support.kafka.own_broker import running_broker


@contextmanager
def scene_in(folder: Path) -> Iterator[Scene]:
    """A service over an empty SQLite file in a folder, without the four-eyes rule."""
    url = empty_store(folder)
    database = Database.open(url)
    yield Scene(database, ControlPlaneSettings(database=url, bindings={"ada": Role.ADMIN}))
    database.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """The service of `scene_in`, for this test alone."""
    with scene_in(tmp_path) as scene:
        yield scene


@pytest.fixture
def log(scene: Scene) -> MemoryLog:
    """The rule log of the scene, in memory."""
    return MemoryLog(scene)


@pytest.fixture
def own_broker(project: Project, tmp_path: Path) -> Iterator[Broker]:
    """A broker that the test can kill."""
    with running_broker(tmp_path / "broker", project) as broker:
        yield broker
