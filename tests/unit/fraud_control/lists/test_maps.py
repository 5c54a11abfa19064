"""Maps in the control plane: the pipeline of lists, with a value for each key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fraud_control.domain.collection_input import input_of_lines
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.errors import Invalid, RequestRefused
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged, RuleInput
from fraud_control.domain.roles import Actor
from fraud_control.service.audit import AuditFilter
from fraud_control.sync.expiry import EXPIRY_AUTHOR, Expiry
from fraud_control.sync.unapproved import unapproved_collections
from fraud_rules.codec.rules.collections.files import SeedCollection
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from fraud_rules.model.value_map import MapType, MapValueType
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ABE, ADA, ANN, PAT, PIA, REASON, RULE, Scene

SET, ADD, REMOVE, DELETE = ListOperation
NUMBERS = MapType(ListType.LONG, MapValueType.DECIMAL)


def entries(operation: ListOperation, /, **members: str) -> CollectionInput:
    """Entries with the keys `k7`, `k8`."""
    return CollectionInput(operation, entries=tuple((key[1:], value) for key, value in members.items()))


def create(scene: Scene, who: Actor = ANN, name: str = "limits", **members: str) -> Any:
    given = CollectionInput(SET, type=NUMBERS, entries=entries(SET, **members).entries)
    return scene.service.maps.create(who, name, given, "first")


def shown(scene: Scene, name: str = "limits") -> dict[str, str]:
    return {each.key: each.value for each in scene.service.maps.values(name).items}


def use(scene: Scene, state: StateName, when: str = "paymentAmount > map('limits', beneficiaryId)") -> None:
    """Put a rule that names the map into a state."""
    revision = scene.service.create(ADA, RuleInput(document={**RULE, "ruleId": 1, "when": when})).row.revision
    for step in (StateName.SHADOW, StateName.ACTIVE):
        revision = scene.service.change_state(ADA, 1, revision, step).row.revision
        if step is state:
            return


def write(log: MemoryLog, operation: str, **members: object) -> None:
    record = {"mapName": "limits", "mapOperation": operation, "source": "cli", **members}
    log.append(json.dumps(record).encode(), b"map:limits")


def in_log(log: MemoryLog) -> dict[Any, Any]:
    return log.timeline().maps["limits"].entries()


def test_a_map_is_created_changed_and_deleted(scene: Scene, log: MemoryLog) -> None:
    made = create(scene, k7="250.00", k8="99.5")
    assert (made.key_type, made.value_type, made.size, made.revision) == ("long", "decimal", 2, 1)
    maps = scene.service.maps
    maps.change(ANN, "limits", None, entries(ADD, k8="99.5", k9="1", k7="300"), "case 7")
    maps.change(ANN, "limits", None, CollectionInput(REMOVE, ("9", "10")))
    maps.change(ANN, "limits", 3, entries(SET, k7="300", k8="98"))
    assert shown(scene) == {"7": "300", "8": "98"}
    log.mirror_outbox()
    records = [json.loads(each.value or b"") for each in log.records]
    assert [(each["mapOperation"], each.get("entries") or each.get("keys")) for each in records] == [
        ("SET", {"7": "250", "8": "99.5"}), ("ADD", {"9": "1", "7": "300"}), ("REMOVE", [9]), ("ADD", {"8": "98"}),
    ]  # fmt: skip
    assert {each.key for each in log.records} == {b"map:limits"}
    assert in_log(log) == {7: 300_000_000, 8: 98_000_000}
    history = [(each.operation, each.added, each.removed, each.author) for each in maps.revisions("limits").items]
    assert history == [("SET", 1, 1, "ann"), ("REMOVE", 0, 1, "ann"), ("ADD", 2, 1, "ann"), ("SET", 2, 0, "ann")]
    difference = maps.diff("limits", 1, 4)
    assert (difference.added_values, difference.removed_values) == (["7,300", "8,98"], ["7,250", "8,99.5"])
    assert maps.export("limits") == "7,300\n8,98\n"
    assert maps.change(PAT, "limits", 4, CollectionInput(DELETE)) is None
    assert maps.rows() == ()
    assert scene.notified[0] == RuleChanged(None, 1, None, "limits")
    assert scene.service.verify_audit().whole
    found = scene.service.audit_rows(AuditFilter(map_name="limits")).items
    assert {each.action for each in found} == {"map.change"}


def test_a_list_and_a_map_may_share_a_name(scene: Scene) -> None:
    create(scene, name="vips", k7="1")
    scene.service.lists.create(ANN, "vips", CollectionInput(SET, ("x",), ListType.STRING))
    assert (shown(scene, "vips"), scene.service.lists.export("vips")) == ({"7": "1"}, "x\n")
    assert [each.rules for each in scene.service.maps.rows()] == [[]]


def test_a_change_of_a_map_that_an_active_rule_names_needs_a_second_person(scene: Scene, log: MemoryLog) -> None:
    create(scene, ADA, k7="250")
    use(scene, StateName.ACTIVE)
    service = scene.another(four_eyes=True)
    asked = service.maps.change(PAT, "limits", None, entries(ADD, k7="300"), REASON)
    pending = asked.pending
    assert (pending.map_name, pending.action, pending.document["values"]) == ("limits", "map", ["7,300"])
    assert pending.basis == {"map limits": 1}
    with pytest.raises(RequestRefused):
        service.decide(PAT, pending.id, approve=True)
    service.decide(PIA, pending.id, approve=True)
    assert shown(scene) == {"7": "300"}
    removed = service.maps.change(PAT, "limits", None, CollectionInput(REMOVE, ("7",)), REASON)
    service.decide(PIA, removed.pending.id, approve=True)
    log.mirror_outbox()
    assert in_log(log) == {}


def test_a_map_is_part_of_the_basis_of_its_rules(scene: Scene) -> None:
    create(scene, ABE, k7="250")
    revision = scene.service.create(
        ANN, RuleInput(document={**RULE, "ruleId": 1, "when": "paymentAmount > map('limits', beneficiaryId)"})
    ).row.revision
    asked = scene.service.change_state(ANN, 1, revision, StateName.SHADOW, REASON)
    request = asked.row.pending
    if request is None:  # no approval for SHADOW in these settings
        request = scene.service.change_state(ANN, 1, asked.row.revision, StateName.ACTIVE, REASON).row.pending
    assert request is not None
    assert request.basis == {"rule 1": request.revision, "map limits": 1}
    assert "abe" in request.contributors
    scene.service.maps.change(ADA, "limits", None, entries(ADD, k7="1"), REASON)
    (row,) = scene.service.approvals(open_only=False).items
    assert (row.decision, row.decision_comment) == ("WITHDRAWN", "the map limits has changed")


def test_records_of_other_writers_arrive_in_the_store(scene: Scene, log: MemoryLog) -> None:
    write(log, "SET", keyType="long", valueType="decimal", entries={"7": "250", "8": "1"})
    write(log, "ADD", entries={"8": "2.50"})
    write(log, "REMOVE", keys=["7"])
    log.apply_record()
    assert shown(scene) == {"8": "2.5"}
    found = scene.service.maps.detail("limits")
    assert (found.source, found.log_version, found.updated_by) == ("cli", 4, "log:cli")
    history = [(each.operation, each.added, each.removed) for each in scene.service.maps.revisions("limits").items]
    assert history == [("REMOVE", 0, 1), ("ADD", 1, 1), ("SET", 2, 0)]
    assert log.drift() == ()
    write(log, "ADD", entries={"9": "x"})
    write(log, "ADD", entries={"9": "1"})
    (drifted,) = log.drift()
    assert (drifted.item.map_name, drifted.store and drifted.store.version) == ("limits", 4)
    assert "1 long to decimal values" in str(drifted.store)
    log.apply_record()
    rejected = scene.service.audit_rows(AuditFilter(map_name="limits")).items
    assert [each.action for each in rejected][:2] == ["log.map_add", "mirror.refused"]


def test_entries_expire_unless_they_change(scene: Scene, log: MemoryLog) -> None:
    create(scene, k7="250", k8="1")
    at_ms = scene.clock.now_ms + 1_000
    given = CollectionInput(ADD, expires_at_ms=at_ms, entries=(("7", "250"), ("8", "2"), ("9", "3")))
    scene.service.maps.change(ANN, "limits", None, given)
    scene.service.maps.change(ANN, "limits", None, entries(ADD, k9="4"))
    found = scene.service.maps.detail("limits")
    assert (found.expiring, found.next_expiry_ms) == (2, at_ms)
    assert [each.expires_at_ms for each in scene.service.maps.values("limits").items] == [at_ms, at_ms, None]
    expiry = Expiry(scene.store)
    assert expiry.remove_due() == 0
    scene.clock.now_ms = at_ms
    assert (expiry.remove_due(), expiry.remove_due()) == (2, 0)
    log.mirror_outbox()
    assert (shown(scene), in_log(log)) == ({"9": "4"}, {9: 4_000_000})
    newest = scene.service.maps.revisions("limits").items[0]
    assert (newest.operation, newest.author, newest.comment) == ("REMOVE", EXPIRY_AUTHOR, "the entries have expired")


@pytest.mark.parametrize("form", list(RuleFormat))
def test_an_export_is_imported_elsewhere_and_changes_nothing_at_its_origin(scene: Scene, form: RuleFormat) -> None:
    create(scene, k7="250", k8="1")
    content = scene.service.maps.export_all(form)
    same = scene.service.maps.import_file(ANN, content, comment="again")
    assert [each.effect for each in same.items] == ["unchanged"]
    scene.service.maps.change(ANN, "limits", None, entries(ADD, k7="3"))
    (item,) = scene.service.maps.import_file(ANN, content, comment="back").items
    assert (item.effect, item.diff.added_values, item.diff.removed_values) == ("changed", ["7,250"], ["7,3"])
    assert shown(scene) == {"7": "250", "8": "1"}


def test_pasted_lines_are_entries_and_their_faults_name_the_lines(scene: Scene) -> None:
    create(scene, k7="250")
    maps, kind = scene.service.maps, CollectionKind.MAP
    preview = maps.preview("limits", input_of_lines(kind, ADD, '# known\n7,250\n8,"1.5"\n'))
    assert (preview.added_values, preview.removed_values) == (["8,1.5"], [])
    assert maps.preview("limits", input_of_lines(kind, REMOVE, "7,1\n")).removed_values == ["7,250"]
    with pytest.raises(Invalid) as invalid:
        input_of_lines(kind, ADD, "7\n8,1\n8,2\n")
    assert [(each.field, each.message) for each in invalid.value.reasons] == [
        ("line 1", "must have the form key,value"), ("line 3", "has the key '8' again"),
    ]  # fmt: skip
    with pytest.raises(Invalid) as invalid:
        maps.preview("limits", input_of_lines(kind, ADD, "x,1\n8,many\n"))
    assert [each.field for each in invalid.value.reasons] == ["line 1", "line 2"]


@contextmanager
def all_maps_within(scene: Scene, size: int) -> Iterator[None]:
    limits = scene.store.reader.limits
    object.__setattr__(limits, "max_map_bytes", size)
    try:
        yield
    finally:
        object.__setattr__(limits, "max_map_bytes", type(limits)().max_map_bytes)


def test_all_maps_together_have_a_size_limit(scene: Scene) -> None:
    create(scene, k7="1")
    with all_maps_within(scene, 40):
        create(scene, name="others", k7="1")
        with pytest.raises(Invalid, match="all maps would have 48 bytes, at most 40 are allowed"):
            scene.service.maps.change(ANN, "others", None, entries(ADD, k8="1"))


def test_records_of_other_writers_obey_the_size_limit(scene: Scene, log: MemoryLog) -> None:
    write(log, "SET", keyType="long", valueType="decimal", entries={"7": "250"})
    log.apply_record()
    with all_maps_within(scene, 24):
        write(log, "ADD", entries={"8": "1"})
        write(log, "ADD", entries={"7": "3"})
        log.apply_record()
        log.apply_record()
    assert shown(scene) == {"7": "3"}
    actions = [each.action for each in scene.service.audit_rows(AuditFilter(map_name="limits")).items]
    assert actions == ["log.map_add", "mirror.refused", "log.map_set"]


def test_values_of_another_writer_are_unapproved_unless_a_seed_file_has_them(scene: Scene, log: MemoryLog) -> None:
    write(log, "SET", keyType="long", valueType="decimal", entries={"7": "250"})
    log.apply_record()
    use(scene, StateName.ACTIVE)

    def found(*values: int) -> list[str]:
        seeds = [SeedCollection("", "limits", NUMBERS, {7: value}) for value in values]
        return [str(each.item) for each in unapproved_collections(scene.store, CollectionKind.MAP, lambda: seeds)]

    assert (found(), found(1), found(250_000_000)) == (["map limits"], ["map limits"], [])
