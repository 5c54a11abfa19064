"""Live rules without an approval: those of other writers of the rule log, unless a seed file has their content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.lifecycle import StateName
from fraud_control.sync.cdc import apply_record
from fraud_control.sync.unapproved import seed_documents, unapproved_collections, unapproved_rules
from fraud_rules.codec.rules.collections.files import SeedCollection
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.reader import Record
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ADA, ANN, RULE, Scene, rule_input
from tests.support.rules import LIMITS, SCHEMA


def found(scene: Scene, seeds: Path | None = None) -> list[tuple[int | None, str]]:
    known = {} if seeds is None else seed_documents(seeds, SCHEMA, LIMITS)
    return [(each.item.rule_id, each.source) for each in unapproved_rules(scene.database, lambda: known)]


def seeded(folder: Path) -> Path:
    (folder / "rules").mkdir()
    (folder / "rules" / "a.yaml").write_text(yaml.safe_dump({"ruleId": 1, "ruleState": "ACTIVE", **RULE}))
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
    seeds = seeded(tmp_path)
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
    log.mirror_outbox()
    assert found(scene) == []


def test_a_pause_by_another_writer_is_unapproved_until_a_user_decides(scene: Scene, log: MemoryLog) -> None:
    detail = scene.service.create(ANN, rule_input(ruleId=1))
    detail = scene.service.change_state(ANN, 1, detail.row.revision, StateName.SHADOW)
    scene.service.change_state(ADA, 1, detail.row.revision, StateName.ACTIVE)
    log.publish()
    log.write(ruleId=1, ruleState="PAUSE")
    log.apply_record()
    assert found(scene) == [(1, "cli")]
    scene.service.change_state(ADA, 1, scene.service.rule(1).row.revision, StateName.ACTIVE)
    assert found(scene) == []


def test_a_row_of_the_rule_table_is_unapproved(scene: Scene) -> None:
    row = {**RULE, "ruleId": 1, "ruleState": "ACTIVE"}
    apply_row(scene, row)
    assert found(scene) == [(1, "cdc")]
    apply_row(scene, row | {"ruleState": "SHADOW"})
    assert found(scene) == [(1, "cdc")], "it was taken out of force without a user"


def apply_row(scene: Scene, row: dict[str, object]) -> None:
    value = json.dumps({"op": "c", "before": None, "after": row}).encode()
    with scene.store.unit_of_work() as work:
        apply_record(work, Record(1, 1, None, value))


def names_of_lists(scene: Scene, *seeds: SeedCollection) -> list[str]:
    return [each.item.key for each in unapproved_collections(scene.store, CollectionKind.LIST, lambda: seeds)]


def add(log: MemoryLog, value: int) -> None:
    record = {"listName": "mules", "listOperation": "ADD", "values": [value], "source": "seed"}
    log.append(json.dumps(record).encode(), b"list:mules")
    log.apply_record()


def test_a_list_of_an_active_rule_with_a_change_of_another_writer_is_unapproved(scene: Scene, log: MemoryLog) -> None:
    scene.service.lists.create(ANN, "mules", CollectionInput(ListOperation.SET, ("1",), ListType.LONG))
    detail = scene.service.create(ANN, rule_input(ruleId=1, when="beneficiaryId in list('mules')"))
    detail = scene.service.change_state(ANN, 1, detail.row.revision, StateName.SHADOW)
    log.publish()
    add(log, 2)
    assert names_of_lists(scene) == [], "no ACTIVE rule names it"
    scene.service.change_state(ADA, 1, detail.row.revision, StateName.ACTIVE)
    assert names_of_lists(scene) == ["mules"]
    seed = SeedCollection("config/lists/mules.yaml", "mules", ListType.LONG, dict.fromkeys([1, 2]))
    assert names_of_lists(scene, seed) == [], "a seed file has these values"
    add(log, 3)
    assert names_of_lists(scene, seed) == ["mules"]
    scene.service.lists.change(ADA, "mules", None, CollectionInput(ListOperation.REMOVE, ("3",)))
    assert names_of_lists(scene) == []


def test_the_shipped_seed_files_are_readable(project: Project) -> None:
    assert seed_documents(project.config / "rules", SCHEMA, LIMITS)
