"""Servers and brokers are killed during many writes. Afterwards store and rule log agree, each change is in the log
once, and the audit chain is intact.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.control_plane.chaos import check_final_state, survive, topics_of
from tests.support.control_plane.processes import ServerProcess
from tests.support.control_plane.scene import Scene
from tests.support.control_plane.writers import WRITERS


def run(
    scene: Scene, broker: Broker, project: Project, folder: Path, *, rules: int, revisions: int, kills: int
) -> None:
    topics = topics_of(broker, project)
    total = (WRITERS * rules + 1) * revisions
    seed = random.randrange(1_000_000)
    server = ServerProcess(project, topics, scene.settings.database, folder / "server.log", (rules, revisions))
    server.start()
    try:
        survive(scene, broker, server, total, kills, seed)
    finally:
        server.kill()
    check_final_state(scene, topics, total)


@pytest.mark.integration
@pytest.mark.recovery
@pytest.mark.timeout(900)
def test_a_few_kills(scene: Scene, own_broker: Broker, project: Project, tmp_path: Path) -> None:
    run(scene, own_broker, project, tmp_path, rules=1, revisions=45, kills=3)


@pytest.mark.long
@pytest.mark.recovery
@pytest.mark.timeout(0)
def test_twenty_kills_under_ten_thousand_changes(
    scene: Scene, own_broker: Broker, project: Project, tmp_path: Path
) -> None:
    run(scene, own_broker, project, tmp_path, rules=5, revisions=244, kills=20)
