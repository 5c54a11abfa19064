"""The commands that use the API, against a control plane in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings
from tests.support.control_plane.web.server import Server
from tests.support.control_plane.web.terminal import Terminal, addressed
from tests.support.control_plane.web.terminal_work import work


@pytest.fixture
def settings(settings: ControlPlaneSettings) -> ControlPlaneSettings:
    """Four eyes, an administrator and an analyst."""
    return replace(settings, four_eyes=True, bindings={"admin": Role.ADMIN, "anna": Role.ANALYST})


def test_two_users_work_from_a_terminal(server: Server, tmp_path: Path) -> None:
    with addressed(server) as url:
        work(Terminal(url, tmp_path), server.topics.kafka, server.topics.names.alerts)
