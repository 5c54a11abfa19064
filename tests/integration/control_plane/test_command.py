"""`fraud store` on the store of a control plane."""

from __future__ import annotations

import os
import subprocess
import sys

from sqlalchemy import text

from fraud_rules.configuration.project import Project
from tests.support.control_plane.scene import ANN, Scene, rule_input


def store(project: Project, scene: Scene, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "FRAUD_HOME": str(project.root),
        "FRAUD_CONTROL_DATABASE": scene.settings.database,
    }
    command = [sys.executable, "-m", "fraud_rules.cli", "store", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_it_checks_the_audit_chain(scene: Scene, project: Project) -> None:
    scene.service.create(ANN, rule_input())
    done = store(project, scene, "verify")
    assert (done.returncode, done.stdout[:14]) == (0, "intact: 1 rows"), done.stderr
    with scene.database.writing() as session:
        session.execute(text("DROP TRIGGER audit_no_update"))
        session.execute(text("UPDATE audit SET who = 'bob'"))
    done = store(project, scene, "verify")
    assert (done.returncode, done.stderr) == (38, "fraud: the audit log is broken at row 1 of 1\n")


def test_it_shows_the_waiting_records(scene: Scene, project: Project) -> None:
    assert store(project, scene, "outbox").stdout == "0 waiting\n"
