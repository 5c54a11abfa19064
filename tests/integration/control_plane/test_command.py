"""`fraud control`, with and without the plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from fraud_rules.configuration.project import Project
from tests.support.control_plane.scene import ANN, Scene, rule_input


def control(project: Project, scene: Scene, *words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "PYTHONPATH": str(project.root / "spark_jobs"),
        "FRAUD_HOME": str(home or project.root),
        "FRAUD_CONTROL_DATABASE": scene.settings.database,
    }
    command = [sys.executable, "-m", "fraud_rules.cli", "control", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_it_checks_the_audit_chain(scene: Scene, project: Project) -> None:
    scene.service.create(ANN, rule_input())
    done = control(project, scene, "audit", "verify")
    assert (done.returncode, done.stdout[:14]) == (0, "intact: 1 rows"), done.stderr
    with scene.database.writing() as session:
        session.execute(text("DROP TRIGGER audit_no_update"))
        session.execute(text("UPDATE audit SET who = 'bob'"))
    done = control(project, scene, "audit", "verify")
    assert (done.returncode, done.stderr) == (38, "fraud: the audit log is broken at row 1 of 1\n")


def test_it_shows_the_waiting_records(scene: Scene, project: Project) -> None:
    assert control(project, scene, "outbox").stdout == "0 waiting\n"


@pytest.mark.parametrize("words", [(), ("--help",), ("audit", "--help")])
def test_it_has_its_own_help(scene: Scene, project: Project, words: tuple[str, ...]) -> None:
    done = control(project, scene, *words)
    assert "Commands:" in done.stdout + done.stderr


def test_without_the_plugins_it_names_the_place_where_it_works(scene: Scene, project: Project, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.yaml").write_text("topics: {}\n", encoding="utf-8")
    done = control(project, scene, "outbox", home=tmp_path)
    assert (done.returncode, "Airflow plugins" in done.stderr) == (3, True)
