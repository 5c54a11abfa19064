"""The mirror: in any order of records, the store ends in the state of the rule log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fraud_control.domain.errors import ControlPlaneError
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged, RuleInput
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items import saving
from fraud_control.service.items.kind import Kind, NewRevision
from fraud_control.service.rules.content import RuleContent
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from fraud_control.store.models import ItemHead
from fraud_control.sync import mirror
from fraud_control.sync.drift import compare, store_side
from tests.support.control_plane.hostile import HOSTILE
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ADA, ANN, PAT, RULE, Scene, empty_store


def wanted(**members: Any) -> RuleInput:
    return RuleInput(document={**RULE, **members})


def in_step(scene: Scene, log: MemoryLog) -> None:
    with scene.database.reading() as session:
        store = store_side(session, scene.store.contents)
    assert compare(store, log.timeline()) == ()
    assert store.pending == 0


def test_rules_of_others_become_revisions(scene: Scene, log: MemoryLog) -> None:
    log.write(ruleId=1, ruleState="ACTIVE", source="seed", name="Mules", limit=20)
    log.write(ruleId=1, ruleState="ACTIVE", limit=30)
    log.append(b'{"ruleId": 1, "limit": "nonsense"}')
    log.append(b"2,(shadow),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")
    log.apply_record()
    detail = scene.service.rule(1)
    assert (detail.row.state, detail.row.revision, detail.row.source) == (StateName.ACTIVE, 2, "cli")
    assert (detail.row.log_version, detail.row.published) == (2, True)
    assert [(each.source, each.log_version, each.author) for each in scene.service.revisions(1).items] == [
        ("cli", 2, "log:cli"),
        ("seed", 0, "log:seed"),
    ]
    assert scene.service.rule(2).row.source == "somebody"
    log.write(ruleId=1, ruleState="DELETE")
    log.apply_record()
    assert scene.service.rule(1).row.state is StateName.DELETE
    in_step(scene, log)
    assert scene.service.verify_audit().whole


def test_no_record_of_another_writer_names_a_user(scene: Scene, log: MemoryLog) -> None:
    """Whoever can write to the rule log writes any `source`. No name of a user comes from it."""
    scene.service.create(ANN, wanted(ruleId=9))
    scene.service.change_state(ANN, 9, 1, StateName.SHADOW)
    ours = len(scene.service.audit_rows().items)
    log.mirror_outbox()
    log.write(ruleId=1, ruleState="ACTIVE", source="ann")
    log.write(ruleId=1, ruleState="DELETE", source="ann")
    log.write(ruleState="CONTROL", controlType="EXPORT_RULES_CURRENT", source="ann")
    log.append(b'{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [1], "source": "ann"}')
    log.append(b'{"listName": "mules", "listOperation": "DELETE", "source": "ann"}')
    log.write(ruleId=2, ruleState="ACTIVE", source="ann")
    log.write(ruleState="CONTROL", controlType="DELETE_RULES_ALL", source="ann")
    scene.service.edit(ANN, 9, 2, wanted(ruleId=9, limit=77))
    log.write(ruleId=9, ruleState="ACTIVE", source="ann")
    log.publish()
    log.write(ruleState="CONTROL", controlType="CLEAR_STATE_ALL", source="Ann " * 1_000)
    log.apply_record()
    rows = [row for row in reversed(scene.service.audit_rows().items) if row.who != "ann"]
    assert len(scene.service.audit_rows().items) - len(rows) == ours + 1
    assert [(row.who, row.action) for row in rows] == [
        ("log:ann", "log.rule"), ("log:ann", "log.delete"), ("log:ann", "log.control"), ("log:ann", "log.list_set"),
        ("log:ann", "log.list_delete"), ("log:ann", "log.rule"), ("log:ann", "log.control"),
        ("log:ann", "rule.delete_all"), ("log:ann", "log.overtaken"), ("log:somebody", "log.control"),
    ]  # fmt: skip
    authors = {each.author for rule_id in (1, 2) for each in scene.service.revisions(rule_id).items}
    assert authors == {"log:ann"}
    assert {each.author for each in scene.service.lists.revisions("mules").items} == {"log:ann"}


def test_our_records_are_acknowledged_and_not_applied_again(scene: Scene, log: MemoryLog) -> None:
    scene.service.create(ANN, wanted())
    scene.service.change_state(ANN, 1, 1, StateName.SHADOW)
    assert (scene.service.rule(1).row.published, scene.service.outbox().pending) == (False, 1)
    log.write(ruleId=5, ruleState="ACTIVE")
    log.mirror_outbox()
    row = scene.service.rule(1).row
    assert (row.revision, row.log_version, row.published) == (2, 2, True)
    assert scene.service.revisions(1).items[0].log_version == 2
    assert scene.service.outbox().pending == 0
    assert scene.notified[-1] == RuleChanged(1, 2)
    log.mirror.apply_records(log.records, log.end)
    assert [each.revision for each in scene.service.revisions(5).items] == [1]
    in_step(scene, log)


def test_ours_stays_in_force_where_it_comes_after_theirs(scene: Scene, log: MemoryLog) -> None:
    log.write(ruleId=1, ruleState="ACTIVE", limit=20)
    log.apply_record()
    scene.service.edit(PAT, 1, 1, wanted(limit=99))
    log.write(ruleId=1, ruleState="PAUSE", limit=30)
    log.mirror_outbox()
    row = scene.service.rule(1).row
    assert (row.revision, row.document["limit"], row.state) == (2, 99, StateName.ACTIVE)
    assert [(each.revision, each.log_version) for each in scene.service.revisions(1).items] == [(3, 2), (2, 4), (1, 0)]
    in_step(scene, log)
    assert scene.service.edit(PAT, 1, 2, wanted(limit=100)).row.revision == 4


def test_a_foreign_delete_all_keeps_our_later_rules(scene: Scene, log: MemoryLog) -> None:
    log.write(ruleId=1, ruleState="ACTIVE")
    log.write(ruleId=2, ruleState="ACTIVE")
    log.apply_record()
    scene.service.edit(PAT, 2, 1, wanted(limit=99))
    log.write(ruleState="CONTROL", controlType="DELETE_RULES_ALL")
    log.mirror_outbox()
    assert (scene.service.rule(1).row.state, scene.service.rule(2).row.state) == (StateName.DELETE, StateName.ACTIVE)
    in_step(scene, log)


def test_our_delete_all_ends_rules_that_arrived_in_between(scene: Scene, log: MemoryLog) -> None:
    log.write(ruleId=1, ruleState="ACTIVE")
    log.apply_record()
    scene.service.control(ADA, "DELETE_RULES_ALL", "DELETE_RULES_ALL")
    log.write(ruleId=1, ruleState="ACTIVE", limit=50)
    log.write(ruleId=2, ruleState="ACTIVE", limit=50)
    log.publish()
    log.write(ruleId=3, ruleState="ACTIVE", limit=50)
    log.apply_record()
    assert [row.rule_id for row in scene.service.rules().items] == [3]
    assert [row.rule_id for row in scene.service.rules(state=StateName.DELETE).items] == [1, 2]
    in_step(scene, log)


def test_a_forged_mark_is_no_mark_of_ours(scene: Scene, log: MemoryLog) -> None:
    scene.service.create(ANN, wanted())
    scene.service.change_state(ANN, 1, 1, StateName.SHADOW)
    forged = b'{"ruleId":9,"ruleState":"ACTIVE","source":"ui"}'
    for headers in ([("control-store", log.store), ("control-seq", b"1")], [("control-store", log.store)],
                    [("control-seq", b"1")], [("control-store", log.store), ("control-seq", b"9" * 40)]):  # fmt: skip
        log.append(forged, b"9", headers)
    log.apply_record()
    assert scene.service.outbox().pending == 1


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_a_record_that_is_no_rule_is_skipped_and_is_in_the_audit_log(
    scene: Scene, log: MemoryLog, value: bytes | None
) -> None:
    scene.service.create(ANN, wanted())
    scene.service.change_state(ANN, 1, 1, StateName.SHADOW)
    at = log.append(value)
    log.write(ruleId=7, ruleState="ACTIVE", source="cli")
    log.mirror_outbox()
    assert scene.service.rule(7).row.state is StateName.ACTIVE
    assert scene.service.rule(1).row.published
    refused = [row for row in scene.service.audit_rows().items if row.action == "mirror.refused"]
    assert [(row.who, row.subject) for row in refused] == [("system:mirror", f"offset {at}")]
    assert scene.service.verify_audit().whole
    in_step(scene, log)


def test_a_change_that_fails_half_way_leaves_only_its_row_in_the_audit_log(
    scene: Scene, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All effects of the failed record are rolled back; other records keep theirs."""
    save = saving.save

    def fails(
        work: UnitOfWork, kind: Kind[RuleContent], head: ItemHead | None, new: NewRevision[RuleContent]
    ) -> ItemHead:
        found = save(work, kind, head, new)
        if found.rule_id == 2:
            raise ValueError("a record like none before")
        return found

    monkeypatch.setattr(mirror, "save", fails)
    for rule_id in (1, 2, 3):
        log.write(ruleId=rule_id, ruleState="ACTIVE")
    log.apply_record()
    assert [row.rule_id for row in scene.service.rules().items] == [1, 3]
    assert [changed.rule_id for changed in scene.notified] == [1, 3]
    rows = scene.service.audit_rows().items
    assert [(row.action, row.subject) for row in reversed(rows)] == [
        ("log.rule", "rule 1"),
        ("mirror.refused", f"offset {log.records[1].offset}"),
        ("log.rule", "rule 3"),
    ]
    assert scene.service.verify_audit().whole


RULES = (1, 2)
STATES = ("ACTIVE", "SHADOW", "PAUSE", "DELETE")
OTHERS = st.tuples(st.just("other"), st.sampled_from(RULES), st.sampled_from(STATES), st.integers(1, 99))
OURS = st.tuples(st.just("ours"), st.sampled_from(RULES), st.sampled_from((*STATES, "edit")), st.integers(1, 99))
WIPES = st.sampled_from([("wipe other", 0, "", 0), ("wipe ours", 0, "", 0)])
MOVES = st.tuples(st.sampled_from(["publish", "take in"]), st.integers(1, 3), st.just(""), st.just(0))
EVENTS = st.lists(st.one_of(OURS, OTHERS, MOVES, OURS, MOVES, WIPES), max_size=25)


def ours(scene: Scene, rule_id: int, step: str, limit: int) -> None:
    """Make a change in the service if the lifecycle allows it."""
    if rule_id in {row.rule_id for row in scene.service.rules().items}:
        row = scene.service.rule(rule_id).row
    else:
        row = scene.service.create(ADA, wanted(ruleId=rule_id, limit=limit)).row
    try:
        if step == "edit":
            scene.service.edit(ADA, rule_id, row.revision, wanted(limit=limit))
        else:
            scene.service.change_state(ADA, rule_id, row.revision, StateName(step))
    except ControlPlaneError:
        return


def play(scene: Scene, log: MemoryLog, event: tuple[str, int, str, int]) -> None:
    match event:
        case ("ours", rule_id, step, limit):
            ours(scene, rule_id, step, limit)
        case ("other", rule_id, state, limit):
            log.write(ruleId=rule_id, ruleState=state, limit=limit)
        case ("wipe other", *_):
            log.write(ruleState="CONTROL", controlType="DELETE_RULES_ALL")
        case ("wipe ours", *_):
            scene.service.control(ADA, "DELETE_RULES_ALL", "DELETE_RULES_ALL")
        case ("publish", most, *_):
            log.publish(most)
        case ("take in", most, *_):
            log.apply_record(most)


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(EVENTS)
def test_any_order_of_events_ends_in_the_state_of_the_log(events: list[tuple[str, int, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = empty_store(Path(folder))
        scene = Scene(Database.open(url), ControlPlaneSettings(database=url))
        log = MemoryLog(scene)
        for event in events:
            play(scene, log, event)
        log.mirror_outbox()
        in_step(scene, log)
        assert scene.service.verify_audit().whole
        scene.database.close()
