"""The server of the control plane in this process, over a broker of the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_control.settings import ControlPlaneSettings
from fraud_rules.configuration.project import Project
from tests.support.control_plane.web.server import Login, Server, settings_of_every_role
from tests.support.kafka.own_topics import OwnTopics


@pytest.fixture(scope="session")
def login() -> Login:
    """A login of all users."""
    return Login.create()


@pytest.fixture
def settings(topics: OwnTopics, tmp_path: Path) -> ControlPlaneSettings:
    """An empty store, and a user for each role."""
    return settings_of_every_role(topics, tmp_path)


@pytest.fixture
def server(
    login: Login, topics: OwnTopics, project: Project, settings: ControlPlaneSettings, tmp_path: Path
) -> Iterator[Server]:
    """A control plane that is ready."""
    with Server.running(login, topics, project, settings, tmp_path) as running:
        yield running
