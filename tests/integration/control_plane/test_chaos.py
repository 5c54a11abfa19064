"""Servers and brokers are killed during many writes. Afterwards store and rule log agree, each change is in the log
once, and the audit chain is intact.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.control_plane.chaos import check_final_state, survive
from tests.support.control_plane.processes import ServerProcess
from tests.support.control_plane.scene import Scene
from tests.support.control_plane.writers import WRITERS
from tests.support.kafka.own_topics import create_topics


@pytest.mark.integration
@pytest.mark.recovery
@pytest.mark.timeout(900)
def test_a_few_kills(scene: Scene, own_broker: Broker, project: Project, tmp_path: Path) -> None:
    topics, revisions = create_topics(own_broker, project, prefix=""), 12
    total = (WRITERS + 1) * revisions
    server = ServerProcess(project, topics, scene.settings.database, tmp_path / "server.log", (1, revisions))
    server.start()
    try:
        survive(scene, own_broker, server, total, 2, random.randrange(1_000_000))
    finally:
        server.kill()
    check_final_state(scene, topics, total)
