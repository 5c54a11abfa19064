"""Lists in the control plane: who changes them, what reaches the rule log, and when values expire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from fraud_control.domain.collection_models import CollectionInput, StoredList
from fraud_control.domain.errors import Conflict, Invalid, NotFound, RequestRefused
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged, RuleInput
from fraud_control.domain.roles import Actor
from fraud_control.service.audit import AuditFilter
from fraud_control.service.collections.values import CollectionContents
from fraud_control.sync.drift import compare, store_side
from fraud_control.sync.expiry import Expiry
from fraud_rules.model.value_list import ListOperation, ListType
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ABE, ADA, ANN, PAT, PIA, REASON, RULE, VIC, Scene
from tests.support.rules import LIMITS

SET, ADD, REMOVE, DELETE = ListOperation
DAY_MS = 86_400_000


def given(operation: ListOperation, *values: object, **members: Any) -> CollectionInput:
    return CollectionInput(operation, tuple(map(str, values)), **members)


def create(scene: Scene, *values: object, name: str = "mules", who: Actor = ANN, **members: Any) -> StoredList:
    return scene.service.lists.create(who, name, given(SET, *values, type=ListType.LONG, **members), "first")


def values(scene: Scene, name: str = "mules") -> list[str]:
    return [each.value for each in scene.service.lists.values(name).items]


def use(scene: Scene, state: StateName, rule_id: int = 1) -> None:
    """Put a rule that names the list `mules` into a state."""
    document = {**RULE, "ruleId": rule_id, "name": "Mules", "when": "beneficiaryId in list('mules')"}
    revision = scene.service.create(ADA, RuleInput(document=document)).row.revision
    for step in (StateName.SHADOW, StateName.ACTIVE, StateName.PAUSE):
        revision = scene.service.change_state(ADA, rule_id, revision, step).row.revision
        if step is state:
            return


def records(log: MemoryLog) -> list[dict[str, Any]]:
    return [json.loads(each.value or b"") for each in log.records]


def test_a_list_is_created_changed_and_deleted(scene: Scene, log: MemoryLog) -> None:
    made = create(scene, 1, 2, 2)
    assert (made.type, made.size, made.revision, made.published, made.updated_by) == ("long", 2, 1, False, "ann")
    lists = scene.service.lists
    lists.change(ANN, "mules", None, given(ADD, 10, 1), "case 7")
    lists.change(ANN, "mules", 2, given(SET, 1, 10, 11))
    assert values(scene) == ["1", "10", "11"]
    log.mirror_outbox()
    assert [(each["listOperation"], each["values"]) for each in records(log)] == [
        ("SET", [1, 2]), ("ADD", [10]), ("ADD", [11]), ("REMOVE", [2]),
    ]  # fmt: skip
    assert {each["source"] for each in records(log)} == {"ui"}
    found = lists.detail("mules")
    assert (found.size, found.revision, found.log_version, found.published) == (3, 3, log.records[-1].offset, True)
    assert log.timeline().lists["mules"].values() == [1, 10, 11]
    history = [
        (each.operation, each.added, each.removed, each.author, each.comment) for each in lists.revisions("mules").items
    ]
    assert history == [("SET", 1, 1, "ann", ""), ("ADD", 1, 0, "ann", "case 7"), ("SET", 2, 0, "ann", "first")]
    difference = lists.diff("mules", 1, 3)
    assert (difference.added_values, difference.removed_values) == (["10", "11"], ["2"])
    assert lists.change(PAT, "mules", 3, given(DELETE)) is None
    assert lists.rows() == ()
    with pytest.raises(NotFound):
        lists.values("mules")
    create(scene, 5)
    log.mirror_outbox()
    assert (values(scene), log.timeline().lists["mules"].values()) == (["5"], [5])
    assert scene.notified[0] == RuleChanged(None, 1, "mules")
    assert scene.service.verify_audit().whole


def test_values_are_searched_and_listed_in_pages(scene: Scene) -> None:
    create(scene, *range(100, 120), 7)
    lists = scene.service.lists
    first = lists.values("mules", limit=2)
    assert ([each.value for each in first.items], first.next) == (["7", "100"], "100")
    assert [each.value for each in lists.values("mules", limit=2, cursor=first.next).items] == ["101", "102"]
    assert [each.value for each in lists.values("mules", query="11").items][-1] == "119"
    with pytest.raises(Invalid):
        lists.values("mules", cursor="x")
    assert lists.export("mules").splitlines()[:2] == ["7", "100"]


def test_every_fault_of_a_change_is_reported_by_field(scene: Scene) -> None:
    create(scene, 1)
    lists = scene.service.lists
    with pytest.raises(Invalid) as refused:
        lists.change(ANN, "mules", None, given(ADD, 7, "x", "9" * 19))
    assert [reason.field for reason in refused.value.reasons] == ["values", "values"]
    assert "value 2 must be a whole number" in str(refused.value)
    cases: list[tuple[str, CollectionInput, str]] = [
        ("mules", given(ADD, 2, expires_at_ms=scene.clock.now_ms), "expiresAt"),
        ("mules", given(REMOVE, 1, expires_at_ms=scene.clock.now_ms + 1), "expiresAt"),
    ]
    for name, wrong, field in cases:
        with pytest.raises(Invalid) as refused:
            lists.change(ANN, name, None, wrong)
        assert [reason.field for reason in refused.value.reasons] == [field]
    with pytest.raises(NotFound):
        lists.change(ANN, "others", None, given(ADD, 2))
    with pytest.raises(Conflict):
        create(scene)
    with pytest.raises(Invalid):
        create(scene, name="Not a name")
    with pytest.raises(Conflict):
        lists.change(ANN, "mules", 7, given(SET, 2))
    assert values(scene) == ["1"]


@pytest.mark.parametrize(
    ("state", "who", "four_eyes", "outcome"),
    [
        (None, VIC, False, "refused"),
        (None, ANN, True, "now"),
        (StateName.SHADOW, ANN, True, "now"),
        (StateName.ACTIVE, ANN, False, "request"),
        (StateName.ACTIVE, PAT, False, "now"),
        (StateName.ACTIVE, PAT, True, "request"),
        (StateName.PAUSE, PAT, True, "now"),
        (StateName.PAUSE, ANN, True, "request"),
    ],
)
def test_the_rules_of_a_list_decide_who_changes_it(
    scene: Scene, state: StateName | None, who: Actor, four_eyes: bool, outcome: str
) -> None:
    create(scene, 1)
    if state is not None:
        use(scene, state)
    lists = scene.another(four_eyes=four_eyes).lists
    if outcome == "refused":
        with pytest.raises(RequestRefused):
            lists.change(who, "mules", None, given(ADD, 2))
        return
    changed = lists.change(who, "mules", None, given(ADD, 2), comment=REASON)
    assert changed is not None
    assert (changed.pending is not None, values(scene)) == (
        outcome == "request",
        ["1"] if outcome == "request" else ["1", "2"],
    )


def test_a_second_person_approves_a_change_of_a_list(scene: Scene, log: MemoryLog) -> None:
    create(scene, 1)
    use(scene, StateName.ACTIVE)
    service = scene.another(four_eyes=True)
    asked = service.lists.change(PAT, "mules", None, given(ADD, 2, 3), "case 9")
    assert asked is not None and asked.pending is not None
    pending = asked.pending
    assert (pending.rule_id, pending.list_name, pending.action) == (None, "mules", "list")
    assert pending.document == {"listName": "mules", "listOperation": "ADD", "values": ["2", "3"], "count": 2}
    with pytest.raises(RequestRefused):
        service.decide(PAT, pending.id, approve=True)
    with pytest.raises(RequestRefused):
        service.decide(ABE, pending.id, approve=False)
    with pytest.raises(RequestRefused):
        service.lists.change(PIA, "mules", None, given(ADD, 4))
    service.decide(PIA, pending.id, approve=True, comment="seen")
    assert values(scene) == ["1", "2", "3"]
    newest = service.lists.revisions("mules").items[0]
    assert (newest.author, newest.comment) == ("pia", "requested by pat: case 9; approved by pia: seen")
    log.mirror_outbox()
    assert log.timeline().lists["mules"].values() == [1, 2, 3]
    again = service.lists.change(PAT, "mules", None, given(REMOVE, 1), comment=REASON)
    assert again is not None and again.pending is not None
    service.decide(PIA, again.pending.id, approve=False)
    assert values(scene) == ["1", "2", "3"]
    third = service.lists.change(PAT, "mules", None, given(REMOVE, 1), comment=REASON)
    assert third is not None and third.pending is not None
    log.append(b'{"listName": "mules", "listOperation": "ADD", "values": [9], "source": "cli"}')
    log.apply_record()
    assert service.approvals().items == ()


def test_a_rule_and_its_list_belong_together(scene: Scene) -> None:
    with pytest.raises(Invalid) as refused:
        use(scene, StateName.SHADOW)
    assert [str(reason) for reason in refused.value.reasons] == ["when: there is no list 'mules'"]
    assert not scene.service.validate(
        RuleInput(document={**RULE, "ruleId": 1, "when": "beneficiaryId in list('mules')"})
    ).valid
    scene.service.lists.create(ANN, "mules", given(SET, "a", type=ListType.STRING))
    with pytest.raises(Invalid):
        use(scene, StateName.SHADOW)
    scene.service.lists.change(ADA, "mules", 1, given(DELETE))
    create(scene, 1)
    use(scene, StateName.ACTIVE)
    (shown,) = scene.service.lists.rows()
    assert [(each.rule_id, each.name, each.state) for each in shown.rules] == [(1, "Mules", "ACTIVE")]
    with pytest.raises(Invalid) as refused:
        scene.service.lists.change(ADA, "mules", shown.revision, given(DELETE))
    assert "rule 1 uses it" in str(refused.value)


def test_a_change_of_a_list_asks_once_for_its_rules_while_other_changes_wait(scene: Scene) -> None:
    create(scene, 1)
    use(scene, StateName.SHADOW)
    statements: list[str] = []
    event.listen(Engine, "before_cursor_execute", record := lambda *given: statements.append(given[2]))
    scene.service.lists.change(ADA, "mules", None, given(ADD, 2))
    event.remove(Engine, "before_cursor_execute", record)
    begun = statements.index("BEGIN IMMEDIATE")
    ended = next(n for n in range(begun, len(statements)) if statements[n] == "BEGIN")
    assert sum("lower(items.document) LIKE" in each for each in statements[begun:ended]) == 1


def test_each_server_sees_the_rules_that_another_one_changed(scene: Scene) -> None:
    create(scene, 1)
    other = scene.another()
    assert other.lists.detail("mules").rules == []
    use(scene, StateName.SHADOW)
    assert [each.rule_id for each in other.lists.detail("mules").rules] == [1]
    revision = scene.service.rule(1).row.revision
    document = {**RULE, "ruleId": 1, "name": "No mules"}
    scene.service.edit(ADA, 1, revision, RuleInput(document=document))
    assert other.lists.detail("mules").rules == []
    other.lists.change(ADA, "mules", 1, given(DELETE))


def test_records_of_others_follow_the_order_of_the_log(scene: Scene, log: MemoryLog) -> None:
    log.append(b'{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [1, 2], "source": "cli"}')
    log.append(b'{"listName": "mules", "listOperation": "ADD", "listType": "string", "values": ["x"], "source": "cli"}')
    log.append(b'{"listName": "none", "listOperation": "ADD", "values": [1], "source": "cli"}')
    log.write(ruleId=9, ruleState="ACTIVE", when="beneficiaryId in list('none')")
    log.apply_record()
    assert scene.service.lists.detail("mules").source == "cli"
    refused = [row for row in scene.service.audit_rows().items if row.action == "mirror.refused"]
    assert len(refused) == 3
    assert log.drift() == ()
    # Our ADD was saved before the SET of another writer arrived, and comes after it in the log.
    scene.service.lists.change(ANN, "mules", None, given(ADD, 3))
    log.append(b'{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [7], "source": "cli"}')
    log.apply_record()
    assert values(scene) == ["3", "7"]
    assert not scene.service.lists.detail("mules").published
    log.mirror_outbox()
    assert values(scene) == ["3", "7"]
    assert log.timeline().lists["mules"].values() == [3, 7]
    # Our SET was saved later than a record of another writer that arrives after it.
    scene.service.lists.change(ANN, "mules", scene.service.lists.detail("mules").revision, given(SET, 50))
    log.publish()
    log.append(b'{"listName": "mules", "listOperation": "ADD", "values": [8], "source": "cli"}')
    log.apply_record()
    assert values(scene) == ["8", "50"]
    assert [str(each) for each in log.timeline().lists["mules"].values()] == values(scene)


def test_a_list_that_differs_from_the_rule_log_is_named(scene: Scene, log: MemoryLog) -> None:
    for name in ("mules", "trusted"):
        create(scene, 1, 2, name=name)
    log.mirror_outbox()
    contents = CollectionContents(LIMITS)

    def drifted() -> list[tuple[str, tuple[int, int] | None, tuple[int, int] | None]]:
        with scene.database.reading() as session:
            store = store_side(session, contents)
        return [
            (each.item.key, *(None if side is None else (side.version, side.size) for side in (each.store, each.log)))
            for each in compare(store, log.timeline())
        ]

    assert drifted() == []
    scene.service.lists.change(ANN, "mules", None, given(ADD, 3))
    assert drifted() == []  # a change in the outbox is no drift
    log.mirror_outbox()
    assert drifted() == []
    log.append(b'{"listName": "trusted", "listOperation": "ADD", "values": [7]}')
    log.append(b'{"listName": "others", "listOperation": "SET", "listType": "string", "values": ["a"]}')
    at = log.records[-2].offset
    trusted = scene.service.lists.detail("trusted").log_version
    assert drifted() == [("others", None, (at + 2, 1)), ("trusted", (trusted, 2), (at, 3))]
    log.apply_record()
    assert drifted() == []
    with scene.database.writing() as session:
        session.execute(
            text("UPDATE item_revisions SET payload = :values WHERE item_key = 'trusted' AND revision = 1"),
            {"values": b"[1,3]"},
        )
    assert drifted() == []
    contents = CollectionContents(LIMITS)  # of another process
    (found,) = drifted()
    assert found == ("trusted", (at, 3), (at, 3))


def test_the_audit_log_can_be_read_by_list(scene: Scene, log: MemoryLog) -> None:
    for name in ("mules", "trusted"):
        create(scene, 1, name=name)
    use(scene, StateName.ACTIVE)
    asked = scene.service.lists.change(ANN, "mules", None, given(ADD, 2), comment=REASON)
    assert asked is not None and asked.pending is not None
    scene.service.decide(PAT, asked.pending.id, approve=False)
    log.append(b'{"listName": "mules", "listOperation": "ADD", "listType": "string", "values": ["x"]}')
    log.mirror_outbox()
    rows = scene.service.audit_rows(AuditFilter(list_name="mules")).items
    assert [each.action for each in rows] == ["mirror.refused", "approval.reject", "approval.request", "list.change"]
    assert [each.subject for each in scene.service.audit_rows(AuditFilter(list_name="trusted")).items] == [
        "list trusted"
    ]
    assert scene.service.audit_rows(AuditFilter(list_name="none")).items == ()
    assert scene.service.verify_audit().whole
    with scene.database.writing() as session:
        session.execute(text("DROP TRIGGER audit_no_update"))
        session.execute(text("UPDATE audit SET item_key = 'trusted' WHERE item_key = 'mules'"))
    assert not scene.service.verify_audit().whole


def expiry(scene: Scene) -> Expiry:
    """A process that has just started."""
    return Expiry(scene.another().store, scene.notified.append)


def test_values_expire_once_and_survive_a_restart(scene: Scene, log: MemoryLog) -> None:
    create(scene, 1)
    use(scene, StateName.ACTIVE)
    lists, at_ms = scene.service.lists, scene.clock.now_ms + DAY_MS
    lists.change(PAT, "mules", None, given(ADD, 2, 3, expires_at_ms=at_ms))
    lists.change(PAT, "mules", None, given(ADD, 3))  # stays
    lists.change(PAT, "mules", None, given(ADD, 4, expires_at_ms=at_ms + 1))
    asked = lists.change(ANN, "mules", None, given(ADD, 5), comment=REASON)
    assert asked is not None and asked.pending is not None
    assert [each.expires_at_ms for each in lists.values("mules").items] == [None, at_ms, None, at_ms + 1]
    assert (asked.expiring, asked.next_expiry_ms) == (2, at_ms)
    assert expiry(scene).remove_due() == 0
    scene.clock.now_ms = at_ms
    assert [expiry(scene).remove_due() for _ in range(2)] == [1, 0]
    log.mirror_outbox()
    assert (records(log)[-1]["listOperation"], records(log)[-1]["values"]) == ("REMOVE", [2])
    assert values(scene) == ["1", "3", "4"]
    newest = lists.revisions("mules").items[0]
    assert (newest.author, newest.removed) == ("system:expiry", 1)
    scene.service.decide(PAT, asked.pending.id, approve=True)  # an expiry does not withdraw a request
    assert values(scene) == ["1", "3", "4", "5"]
    scene.clock.now_ms += DAY_MS
    expiry(scene).remove_due()
    assert values(scene) == ["1", "3", "5"]


def test_a_long_change_is_several_records_and_one_revision(scene: Scene, log: MemoryLog) -> None:
    create(scene, *range(10**15, 10**15 + 150_000))
    assert [each.revision for each in scene.service.lists.revisions("mules").items] == [1]
    log.publish()
    assert len(log.records) > 1
    assert all(len(each.value or b"") <= LIMITS.max_list_record_bytes for each in log.records)
    log.apply_record(1)
    assert not scene.service.lists.detail("mules").published
    log.apply_record()
    shown = scene.service.lists.detail("mules")
    assert (shown.published, shown.size) == (True, 150_000)
    assert log.timeline().lists["mules"].size == 150_000


def test_bad_list_records_of_others_are_skipped_with_their_reasons(scene: Scene, log: MemoryLog) -> None:
    values_of = ", ".join(map(str, range(10**15, 10**15 + 130_000)))
    log.append(
        b'{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [%b]}' % values_of.encode()
    )
    log.append(b'{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [1, 1, 2, 1]}')
    log.append(b'{"listName": "mules", "listOperation": "ADD", "values": ["x", 1.5]}')
    log.append(b'{"listName": "mules", "listOperation": "REMOVE", "listType": "string", "values": ["x"]}')
    log.append(b'{"listName": "none", "listOperation": "REMOVE", "values": [1]}')
    log.apply_record()
    assert values(scene) == ["1", "2"]
    refused = [row.after for row in scene.service.audit_rows().items if row.action == "mirror.refused"]
    fields = [[reason.split(":")[0] for reason in each["reasons"]] for each in refused if isinstance(each, dict)]
    assert fields == [["listName"], ["listType"], ["values"], ["record"]]


def test_many_changes_of_a_list_are_mirrored(scene: Scene, log: MemoryLog) -> None:
    log.append(b'{"listName": "mules", "listOperation": "SET", "listType": "long", "values": []}')
    for value in range(50):
        log.append(b'{"listName": "mules", "listOperation": "ADD", "values": [%d]}' % value)
    statements = []
    event.listen(Engine, "before_cursor_execute", record := lambda *given: statements.append(given[2]))
    log.apply_record()
    event.remove(Engine, "before_cursor_execute", record)
    assert len(statements) < len(log.records)
    assert scene.service.lists.detail("mules").size == 50
    assert [int(each) for each in scene.service.lists.export("mules").split()] == list(range(50))
