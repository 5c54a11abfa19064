"""Import and export of lists in the control plane: effects, differences, approval, and faults by line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fraud_control.domain.collection_input import input_of_lines
from fraud_control.domain.collection_models import CollectionImportResult, CollectionInput
from fraud_control.domain.errors import Invalid, RequestRefused
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleInput
from fraud_control.domain.roles import Actor
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from tests.support.control_plane.scene import ADA, ANN, PAT, PIA, REASON, RULE, VIC, Scene


def create(scene: Scene, name: str, *values: object, kind: ListType = ListType.LONG) -> None:
    scene.service.lists.create(ANN, name, CollectionInput(ListOperation.SET, tuple(map(str, values)), kind))


def values(scene: Scene, name: str) -> list[str]:
    return [each.value for each in scene.service.lists.values(name).items]


def dry_run(scene: Scene, content: str, who: Actor = ANN) -> CollectionImportResult:
    return scene.service.lists.import_file(who, content, dry_run=True)


def effects(result: CollectionImportResult) -> list[tuple[str, str | None, str]]:
    return [(each.where, each.name, each.effect) for each in result.items]


@pytest.mark.parametrize("form", RuleFormat)
def test_an_export_is_imported_elsewhere_and_changes_nothing_at_its_origin(scene: Scene, form: RuleFormat) -> None:
    create(scene, "mules", 7, 8)
    create(scene, "types", "CSH", "a, b", kind=ListType.STRING)
    lists = scene.service.lists
    content = lists.export_all(form)
    assert {each.effect for each in lists.import_file(ANN, content).items} == {"unchanged"}
    lists.change(PAT, "mules", 1, CollectionInput(ListOperation.DELETE))
    lists.change(ANN, "types", 1, CollectionInput(ListOperation.SET, ("CRD",)))
    result = lists.import_file(ANN, content)
    assert result.applied
    assert [(each.name, each.effect) for each in result.items] == [("mules", "added"), ("types", "changed")]
    assert (values(scene, "mules"), values(scene, "types")) == (["7", "8"], ["CSH", "a, b"])
    assert lists.export_all(form) == content


def test_a_dry_run_shows_the_difference_and_saves_nothing(scene: Scene) -> None:
    create(scene, "mules", 7, 8)
    result = dry_run(scene, "mules,long,8\nmules,long,9\nnew,long,1\n")
    assert effects(result) == [("line 1", "mules", "changed"), ("line 3", "new", "added")]
    changed, added = result.items
    assert (changed.diff.added_values, changed.diff.removed_values, changed.revision) == (["9"], ["7"], 1)
    assert (added.diff.added_values, added.revision, result.applied) == (["1"], 0, False)
    assert (values(scene, "mules"), [each.name for each in scene.service.lists.rows()]) == (["7", "8"], ["mules"])


def test_one_rejected_list_prevents_the_import(scene: Scene) -> None:
    create(scene, "mules", 7)
    result = scene.service.lists.import_file(ANN, "mules,long,8\nhello\nother,long,x\n")
    assert not result.applied
    assert effects(result) == [
        ("line 1", "mules", "changed"), ("line 3", "other", "rejected"), ("line 2", None, "rejected"),
    ]  # fmt: skip
    assert [(each.field, each.message) for each in result.items[2].reasons] == [
        ("line 2", "a line has the form name,type,value")
    ]
    assert values(scene, "mules") == ["7"]
    again = '[{"listName": "mules", "listType": "string", "values": ["a"]}, {"listName": "mules", "values": []}]'
    twice = '[{"listName": "a", "listType": "long", "values": []}, {"listName": "a", "listType": "long", "values": []}]'
    assert [each.effect for each in dry_run(scene, again).items] == ["changed", "rejected"]
    assert [each.effect for each in dry_run(scene, twice).items] == ["added", "rejected"]


def test_a_list_that_changed_since_the_preview_is_not_replaced(scene: Scene) -> None:
    create(scene, "mules", 7)
    previewed = dry_run(scene, "mules,long,8")
    scene.service.lists.change(ANN, "mules", None, CollectionInput(ListOperation.ADD, ("9",)))
    read = {each.name: each.revision for each in previewed.items if each.name is not None}
    result = scene.service.lists.import_file(ANN, "mules,long,8", revisions=read)
    assert (result.applied, result.items[0].effect) == (False, "rejected")
    assert "has changed since the preview" in result.items[0].reasons[0].message
    assert values(scene, "mules") == ["7", "9"]


def test_the_rules_of_a_list_decide_whether_its_import_needs_approval(scene: Scene) -> None:
    create(scene, "mules", 7)
    document = {**RULE, "ruleId": 1, "when": "beneficiaryId in list('mules')"}
    revision = scene.service.create(ADA, RuleInput(document=document)).row.revision
    for step in (StateName.SHADOW, StateName.ACTIVE):
        revision = scene.service.change_state(ADA, 1, revision, step).row.revision
    service = scene.another(four_eyes=True)
    assert service.lists.import_file(PAT, "mules,long,8", dry_run=True).items[0].effect == "requested"
    result = service.lists.import_file(PAT, "mules,long,8", comment=REASON)
    assert (result.applied, result.items[0].effect, values(scene, "mules")) == (True, "requested", ["7"])
    (request,) = service.approvals().items
    service.decide(PIA, request.id, approve=True)
    assert values(scene, "mules") == ["8"]
    with pytest.raises(RequestRefused):
        dry_run(scene, "mules,long,8", VIC)


def test_the_limits_of_a_file_hold(scene: Scene) -> None:
    small = scene.another(bounds=replace(scene.settings.bounds, list_bytes=1_024, import_bytes=1_024))
    with pytest.raises(Invalid, match="at most 1024 are allowed"):
        small.lists.import_file(ANN, "mules,long,7\n" * 100)
    with pytest.raises(Invalid, match="use JSON or the text form"):
        small.lists.import_file(ANN, "- listName: mules\n  values:\n" + "    - 7\n" * 200)
    with pytest.raises(Invalid, match="has no lists"):
        dry_run(scene, "# nothing\n")


def test_garbage_lines_of_pasted_values_are_named(scene: Scene) -> None:
    create(scene, "mules", 7)
    with pytest.raises(Invalid) as invalid:
        scene.service.lists.preview(
            "mules", input_of_lines(CollectionKind.LIST, ListOperation.ADD, "# known\n8\n\nx\n8\n1.5\n")
        )
    assert [each.field for each in invalid.value.reasons] == ["line 4", "line 6"]
