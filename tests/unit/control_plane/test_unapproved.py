"""Live rules without an approval: those of other writers of the rule log, unless a seed file has their content."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fraud_ops.control_plane.domain.lifecycle import StateName
from fraud_ops.control_plane.sync.unapproved import seed_documents, unapproved_rules
from fraud_rules.configuration.project import Project
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ADA, ANN, LIMITS, RULE, SCHEMA, Scene, rule_input


@pytest.fixture
def log(scene: Scene) -> MemoryLog:
    return MemoryLog(scene)


def found(scene: Scene, seeds: Path | None = None) -> list[tuple[int, str]]:
    known = {} if seeds is None else seed_documents(seeds, SCHEMA, LIMITS)
    return [(each.rule_id, each.source) for each in unapproved_rules(scene.database, lambda: known)]


def seeded(folder: Path, **members: object) -> Path:
    (folder / "rules").mkdir()
    (folder / "rules" / "a.yaml").write_text(yaml.safe_dump({"ruleId": 1, "ruleState": "ACTIVE", **RULE, **members}))
    return folder / "rules"


@pytest.mark.parametrize("source", ["alice", "seed", "ui"])
def test_an_active_rule_of_another_writer_is_unapproved_whatever_its_source_says(
    scene: Scene, log: MemoryLog, source: str
) -> None:
    log.write(ruleId=1, ruleState="ACTIVE", source=source)
    log.write(ruleId=2, ruleState="SHADOW", source=source)
    log.apply_record()
    assert found(scene) == [(1, source)]


def test_a_rule_with_the_content_of_a_seed_file_is_approved(scene: Scene, log: MemoryLog, tmp_path: Path) -> None:
    log.write(ruleId=1, ruleState="ACTIVE", source="seed")
    log.apply_record()
    seeds = seeded(tmp_path, approve="pat")
    assert found(scene, seeds) == []
    log.write(ruleId=1, ruleState="ACTIVE", source="seed", limit=1)
    log.apply_record()
    assert found(scene, seeds) == [(1, "seed")]


def test_a_rule_that_passed_the_control_plane_is_approved(scene: Scene, log: MemoryLog) -> None:
    """A pause and an activation in the control plane end the alarm about a rule of another writer."""
    log.write(ruleId=1, ruleState="ACTIVE", source="alice")
    log.apply_record()
    detail = scene.service.change_state(ADA, 1, scene.service.rule(1).row.revision, StateName.PAUSE)
    assert found(scene) == []
    scene.service.change_state(ADA, 1, detail.row.revision, StateName.ACTIVE)
    detail = scene.service.create(ANN, rule_input(ruleId=2))
    detail = scene.service.change_state(ANN, 2, detail.row.revision, StateName.SHADOW)
    scene.service.change_state(ADA, 2, detail.row.revision, StateName.ACTIVE)
    log.publish()
    log.apply_record()
    assert found(scene) == []


def test_the_shipped_seed_files_are_readable(project: Project) -> None:
    assert seed_documents(project.config / "rules", SCHEMA, LIMITS)
