"""Rules that name rules in the control plane: what is refused, and what the page of a rule shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from fraud_control.domain.errors import Invalid
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleInput
from fraud_control.store.models import OutboxRow
from fraud_control.sync.cdc import cdc_intake
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record
from tests.support.control_plane.change_events import ROW, envelope
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ADA, ANN, PAT, REASON, RULE, Scene

DRAFT, SHADOW, ACTIVE, SIGNAL, PAUSE, DELETE = (
    StateName.DRAFT, StateName.SHADOW, StateName.ACTIVE, StateName.SIGNAL, StateName.PAUSE, StateName.DELETE
)  # fmt: skip


def naming(*named: int) -> dict[str, Any]:
    return {"conditions": [{"ruleId": each} for each in named]} if named else {}


def document(rule_id: int, *named: int) -> dict[str, Any]:
    return {**RULE, "ruleId": rule_id, "name": f"Rule {rule_id}", **naming(*named)}


def put(scene: Scene, rule_id: int, *named: int, state: StateName = SHADOW) -> None:
    """Create a rule that names rules, and move it to a state."""
    revision = scene.service.create(ADA, RuleInput(document=document(rule_id, *named))).row.revision
    for step in (SHADOW, ACTIVE, PAUSE):
        if state is DRAFT:
            return
        revision = scene.service.change_state(ADA, rule_id, revision, step).row.revision
        if step is state:
            return


def edit(scene: Scene, rule_id: int, *named: int) -> None:
    revision = scene.service.rule(rule_id).row.revision
    scene.service.edit(ADA, rule_id, revision, RuleInput(document=document(rule_id, *named)))


def move(scene: Scene, rule_id: int, state: StateName) -> None:
    scene.service.change_state(ADA, rule_id, scene.service.rule(rule_id).row.revision, state)


def sent(scene: Scene) -> list[tuple[int, str]]:
    with scene.database.reading() as session:
        records = [json.loads(row.value) for row in session.scalars(select(OutboxRow).order_by(OutboxRow.seq))]
    return [(each["ruleId"], each["ruleState"]) for each in records]


def test_a_rule_names_rules_that_are_there(scene: Scene) -> None:
    with pytest.raises(Invalid, match=r"conditions\[0\].ruleId: there is no rule 12"):
        put(scene, 1, 12)
    checked = scene.service.validate(RuleInput(document=document(1, 12)))
    assert [(each.field, each.message) for each in checked.reasons] == [("conditions[0].ruleId", "there is no rule 12")]
    put(scene, 12, state=DRAFT)
    put(scene, 1, 12, state=DRAFT)
    with pytest.raises(Invalid, match="there is no rule 12"):
        move(scene, 1, SHADOW)
    move(scene, 12, SHADOW)
    move(scene, 1, SHADOW)
    with pytest.raises(Invalid, match="rule 1 names rules itself"):
        put(scene, 2, 1)


def test_a_new_rule_may_name_the_first_rule(scene: Scene) -> None:
    put(scene, 1)
    unsaved = {name: value for name, value in document(1, 1).items() if name != "ruleId"}
    assert scene.service.validate(RuleInput(document=unsaved)).valid
    assert scene.service.create(ANN, RuleInput(document=unsaved)).row.rule_id == 2


def test_a_named_rule_is_neither_deleted_nor_names_rules(scene: Scene) -> None:
    put(scene, 12, state=ACTIVE)
    put(scene, 3)
    put(scene, 1, 12)
    put(scene, 2, 12)
    put(scene, 4, 12, state=DRAFT)
    with pytest.raises(Invalid, match="ruleId: cannot delete the rule: rules 1, 2 name it"):
        move(scene, 12, DELETE)
    with pytest.raises(Invalid, match=r"conditions\[0\].ruleId: cannot name a rule: rules 1, 2 name this one"):
        edit(scene, 12, 3)
    move(scene, 12, PAUSE)
    edit(scene, 1)
    move(scene, 2, DELETE)
    move(scene, 12, DELETE)
    with pytest.raises(Invalid, match="there is no rule 12"):
        move(scene, 4, SHADOW)


def test_a_request_is_checked_when_it_is_made_and_when_it_is_approved(scene: Scene) -> None:
    put(scene, 12, state=ACTIVE)
    put(scene, 13, state=ACTIVE)
    put(scene, 3)
    put(scene, 1, 12)
    desk = scene.another(four_eyes=True)

    def request(rule_id: int) -> int:
        changed = RuleInput(document=document(rule_id, 3))
        asked = desk.edit(ANN, rule_id, scene.service.rule(rule_id).row.revision, changed, REASON).row.pending
        assert asked is not None
        return asked.id

    with pytest.raises(Invalid, match="cannot name a rule: rule 1 names this one"):
        request(12)
    asked = request(13)
    put(scene, 2, 13)
    with pytest.raises(Invalid, match="cannot name a rule: rule 2 names this one"):
        desk.decide(PAT, asked, approve=True)
    edit(scene, 2)
    desk.decide(PAT, asked, approve=True)
    assert [each.rule_id for each in scene.service.rule(13).named] == [3]


def test_the_page_of_a_rule_shows_the_rules_that_it_names_and_that_name_it(scene: Scene) -> None:
    put(scene, 12)
    put(scene, 13, state=ACTIVE)
    put(scene, 1, 13, 12, state=DRAFT)
    shown = scene.service.rule(1)
    assert [(each.rule_id, each.name, each.state) for each in shown.named] == [
        (13, "Rule 13", ACTIVE), (12, "Rule 12", SHADOW),
    ]  # fmt: skip
    assert not shown.named_by
    assert [(each.rule_id, each.state) for each in scene.service.rule(12).named_by] == [(1, DRAFT)]


def test_an_import_has_rules_in_any_order(scene: Scene) -> None:
    text = json.dumps([document(1, 12), document(2, 1), document(12)])
    result = scene.service.import_rules(ADA, text)
    assert [(each.rule_id, each.effect) for each in result.items] == [(1, "added"), (2, "rejected"), (12, "added")]
    result = scene.service.import_rules(ADA, json.dumps([document(1, 12), document(12)]))
    assert (result.applied, [each.rule_id for each in result.items]) == (True, [1, 12])
    for rule_id in (12, 1):
        move(scene, rule_id, SHADOW)
    gone = {"ruleState": "DELETE"}
    refused = scene.service.import_rules(ADA, json.dumps([{"ruleId": 12, **gone}]))
    assert "rule 1 names it" in str(refused.items[0].reasons)
    assert scene.service.import_rules(ADA, json.dumps([{"ruleId": 12, **gone}, {"ruleId": 1, **gone}])).applied
    assert sent(scene)[-2:] == [(1, "DELETE"), (12, "DELETE")]


def test_the_store_decides_like_the_log_about_records_of_others(scene: Scene, log: MemoryLog) -> None:
    log.write(ruleId=1, ruleState="ACTIVE", **naming(12))  # there is no rule 12
    log.write(ruleId=12, ruleState="SIGNAL")
    log.write(ruleId=1, ruleState="ACTIVE", **naming(12))
    log.write(ruleId=12, ruleState="DELETE")  # rule 1 names it
    log.write(ruleId=2, ruleState="ACTIVE", **naming(1))  # rule 1 names rules
    log.apply_record()
    assert scene.service.rule(12).row.state is SIGNAL
    edit(scene, 1)
    log.write(ruleId=12, ruleState="DELETE")  # comes before the edit
    log.publish()
    log.write(ruleId=12, ruleState="DELETE")
    log.apply_record()
    assert scene.service.rule(12).row.state is DELETE
    assert log.drift() == ()
    refused = [row.after["reasons"] for row in scene.service.audit_rows().items if row.action == "mirror.refused"]
    assert [str(each[0]).split(": ")[-1] for each in reversed(refused)] == [
        "there is no rule 12", "rule 1 names it", "rule 1 names rules itself", "rule 1 names it",
    ]  # fmt: skip


def test_a_table_sends_rules_in_any_order(scene: Scene) -> None:
    def apply(start: int, *values: bytes) -> None:
        intake = cdc_intake(scene.store, KafkaConnection("nowhere:1"), "rules-cdc")
        records = [Record(start + place, 1, b"key", value) for place, value in enumerate(values)]
        intake.apply_records(records, start + len(records))

    first, second = {**ROW, "rule_id": 1, "conditions": '[{"ruleId": 5}]'}, ROW
    apply(0, envelope("c", first), envelope("c", second), envelope("c", {**ROW, "rule_id": 7, "limit": "x"}))
    assert sent(scene) == [(5, "ACTIVE"), (1, "ACTIVE")]
    apply(3, envelope("d", None, second))
    assert sent(scene)[2:] == []
    apply(4, envelope("d", None, second), envelope("d", None, first))
    assert sent(scene)[2:] == [(1, "DELETE"), (5, "DELETE")]
