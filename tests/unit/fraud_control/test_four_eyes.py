"""Four eyes: every user who changed a rule since its last approval is refused as its approver."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fraud_control.domain.collection_models import CollectionInput, StoredList
from fraud_control.domain.errors import Conflict, Invalid, RefusalCause, RequestRefused
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import Approval
from fraud_control.domain.roles import Actor
from fraud_control.service.rules.approved_content import content_of
from fraud_control.sync.expiry import Expiry
from fraud_rules.codec.rules.codec import encode_document, parse_rule_record
from fraud_rules.model.rule import Rule
from fraud_rules.model.value_list import ListOperation, ListType
from tests.support.control_plane.desk import CollectionDesk, Desk
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ABE, ADA, ANN, PAT, PIA, REASON, RULE, Scene, rule_input
from tests.support.rules import LIMITS, SCHEMA

SHADOW, ACTIVE, PAUSE, DELETE = StateName.SHADOW, StateName.ACTIVE, StateName.PAUSE, StateName.DELETE


@pytest.fixture
def service(scene: Scene) -> Desk:
    """A service that requires four eyes, with rule 1: ann's SHADOW rule (revision 2)."""
    service = scene.another(four_eyes=True)
    service.create(ANN, rule_input(name="Mules", limit=20))
    service.change_state(ANN, 1, 1, SHADOW)
    return service


def edit(service: Desk, who: Actor, **members: object) -> None:
    service.edit(who, 1, service.rule(1).row.revision, rule_input(**{"name": "Mules", "limit": 20, **members}))


def request(service: Desk, who: Actor, state: StateName = ACTIVE) -> Approval:
    return pending(service.change_state(who, 1, service.rule(1).row.revision, state, comment=REASON).row.pending)


def request_edit(service: Desk, who: Actor, **members: object) -> Approval:
    revision = service.rule(1).row.revision
    return pending(service.edit(who, 1, revision, rule_input(**members), comment=REASON).row.pending)


def request_rollback(service: Desk, who: Actor, target: int) -> Approval:
    revision = service.rule(1).row.revision
    return pending(service.rollback(who, 1, revision, target, comment=REASON).row.pending)


def pending(found: Approval | None) -> Approval:
    assert found is not None
    return found


def approve(service: Desk, who: Actor, requested: Approval) -> None:
    service.decide(who, requested.id, approve=True)


def refuse(service: Desk, who: Actor, requested: Approval) -> None:
    with pytest.raises(RequestRefused, match="second person") as refused:
        approve(service, who, requested)
    assert refused.value.forbidden
    assert refused.value.cause is RefusalCause.SECOND_PERSON


def test_a_later_edit_by_another_user_does_not_hide_a_contributor(service: Desk) -> None:
    edit(service, PAT, limit=1)
    edit(service, ABE, limit=1, name="Money mules")
    requested = request(service, ABE)
    assert requested.contributors == ["abe", "ann", "pat"]
    refuse(service, PAT, requested)
    approve(service, PIA, requested)
    assert service.rule(1).row.state is ACTIVE


def test_an_approval_ends_the_part_of_the_contributors_before_it(service: Desk) -> None:
    edit(service, PAT, limit=1)
    edit(service, ABE, limit=1, name="Money mules")
    approve(service, PIA, request(service, ABE))
    edited = request_edit(service, ANN, limit=30)
    assert edited.contributors == ["abe", "ann"]
    approve(service, PAT, edited)


def test_the_revision_of_an_approval_has_both_reasons(service: Desk) -> None:
    requested = service.change_state(ANN, 1, service.rule(1).row.revision, ACTIVE, "fired well on trial").row.pending
    service.decide(PIA, pending(requested).id, approve=True, comment="seen")
    comment = service.revisions(1).items[0].comment
    assert comment == "requested by ann: fired well on trial; approved by pia: seen"


def test_an_edit_of_a_paused_rule_counts_for_its_resumption(service: Desk) -> None:
    approve(service, PIA, request(service, ANN))
    service.change_state(PAT, 1, service.rule(1).row.revision, PAUSE)
    edit(service, PAT, limit=1)
    edit(service, PIA, limit=1, name="Money mules")
    requested = request(service, ANN)
    for who in (PAT, PIA):
        refuse(service, who, requested)
    approve(service, ADA, requested)


def test_a_rollback_brings_back_the_contributors_of_its_revision(service: Desk) -> None:
    edit(service, PAT, limit=1)
    edit(service, ABE, limit=1, name="Money mules")
    inherits_pats_limit = service.rule(1).row.revision
    edit(service, ANN, limit=20)
    approve(service, PIA, request(service, ANN))
    rollback = request_rollback(service, ANN, inherits_pats_limit)
    refuse(service, PAT, rollback)
    approve(service, ADA, rollback)
    assert service.rule(1).row.document["limit"] == 1


def test_an_approver_rolls_back_to_approved_content_at_once(service: Desk) -> None:
    """Ann asks for a limit of 3, pat approves it, and it floods. Pat ends the flood alone."""
    approve(service, PIA, request(service, ANN))
    approve(service, PAT, request_edit(service, ANN, name="Mules", limit=3))
    good, flood = service.revisions(1).items[1], service.revisions(1).items[0]
    assert service.approved_revisions(1, service.revisions(1).items) >= {good.revision, flood.revision}
    restored = service.rollback(PAT, 1, flood.revision, good.revision, "flood")
    assert (restored.row.pending, restored.row.document["limit"]) == (None, 20)
    row = service.audit_rows().items[0]
    assert (row.who, row.action) == ("pat", "rule.rollback")
    assert row.after is not None and row.after["approvedBefore"] == "approval 1 by pia"
    asked = request_rollback(service, ANN, flood.revision)
    assert asked.action == "rollback", "an analyst asks for it"
    assert asked.contributors == ["ann"], "the restored content was approved, so pat changed nothing since"


def test_a_rollback_to_content_that_was_never_approved_waits(service: Desk) -> None:
    edit(service, PAT, limit=1)
    unapproved = service.rule(1).row.revision
    edit(service, ABE, limit=20)
    approve(service, PIA, request(service, ABE))
    assert unapproved not in service.approved_revisions(1, service.revisions(1).items)
    refuse(service, PIA, request_rollback(service, PIA, unapproved))


def test_an_approval_by_a_contributor_does_not_cover_a_rollback(scene: Scene, service: Desk) -> None:
    edit(service, PAT, limit=1)
    approve(scene.another(four_eyes=False), PAT, request(service, ANN))
    own = service.rule(1).row.revision
    approve(service, PIA, request_edit(service, ANN, limit=20))
    assert request_rollback(service, PAT, own).action == "rollback"


def test_the_approvals_of_a_deleted_rule_do_not_cover_a_new_one_with_its_number(service: Desk) -> None:
    approve(service, PIA, request(service, ANN))
    old = service.rule(1).row.revision
    service.change_state(PAT, 1, old, DELETE)
    service.create(ANN, rule_input(ruleId=1, limit=40))
    service.change_state(ANN, 1, service.rule(1).row.revision, SHADOW)
    approve(service, PIA, request(service, ANN))
    assert request_rollback(service, PAT, old).action == "rollback"


def test_a_seed_file_counts_as_approved(scene: Scene) -> None:
    seed = {**rule_input(ruleId=1, limit=20).document, "ruleState": "ACTIVE"}  # type: ignore[dict-item]
    rule = parse_rule_record(encode_document(seed), SCHEMA, LIMITS)
    assert isinstance(rule, Rule)
    store = replace(scene.another(four_eyes=True).store, seeds=lambda: {1: [content_of(rule.document)]})
    service = Desk(store)
    service.create(ANN, rule_input(ruleId=1, limit=20))
    service.change_state(ANN, 1, 1, SHADOW)
    edit(service, ANN, limit=3)
    approve(service, PIA, request(service, ANN))
    restored = service.rollback(PAT, 1, service.rule(1).row.revision, 1).row
    assert (restored.pending, restored.document["limit"]) == (None, 20)
    row = service.audit_rows().items[0]
    assert row.after is not None and row.after["approvedBefore"] == "a seed file"


def test_a_rollback_of_a_shadow_rule_counts_as_writing(service: Desk) -> None:
    edit(service, ANN, limit=30)
    service.rollback(PAT, 1, service.rule(1).row.revision, 2)
    refuse(service, PAT, request(service, ANN))


def test_an_approval_by_a_contributor_without_four_eyes_does_not_count(scene: Scene, service: Desk) -> None:
    edit(service, PAT, limit=1)
    approve(scene.another(four_eyes=False), PAT, request(service, ANN))
    service.change_state(PAT, 1, service.rule(1).row.revision, PAUSE)
    refuse(service, PAT, request(service, ANN))


def test_a_new_rule_with_the_id_of_a_deleted_one_has_its_own_contributors(service: Desk) -> None:
    edit(service, PAT, limit=1)
    service.change_state(PAT, 1, service.rule(1).row.revision, DELETE)
    service.create(ANN, rule_input(ruleId=1))
    service.change_state(ANN, 1, service.rule(1).row.revision, SHADOW)
    approve(service, PAT, request(service, ANN))


def test_a_record_of_another_program_keeps_the_contributors(service: Desk, log: MemoryLog) -> None:
    log.publish()
    edit(service, PAT, limit=1)
    log.publish()
    log.write(ruleId=1, ruleState="SHADOW", limit=1)
    log.apply_record()
    assert service.rule(1).author == "log:cli"
    refuse(service, PAT, request(service, ANN))


def test_a_source_in_the_log_is_no_user(service: Desk, log: MemoryLog) -> None:
    """A record cannot make a user a contributor, and so exclude an approver, nor the author of a change."""
    log.publish()
    log.write(ruleId=1, ruleState="SHADOW", limit=1, source="pat")
    log.apply_record()
    assert service.rule(1).author == "log:pat"
    approve(service, PAT, request(service, ANN))
    assert service.rule(1).row.state is ACTIVE


def test_a_rollback_to_force_needs_the_right_to_force(service: Desk) -> None:
    edit(service, PAT, force=True)
    forced = service.rule(1).row.revision
    edit(service, ANN, force=False)
    with pytest.raises(RequestRefused, match="`force` needs the role approver") as refused:
        service.rollback(ANN, 1, service.rule(1).row.revision, forced)
    assert refused.value.forbidden
    approve(service, PIA, request(service, ANN))
    with pytest.raises(RequestRefused, match="force"):
        service.rollback(ANN, 1, service.rule(1).row.revision, forced)
    assert request_rollback(service, PAT, forced).document["force"] is True


NAMES_MULES = {"name": "Mules", "limit": 20, "when": "beneficiaryId in list('mules')"}


@pytest.fixture
def lists(service: Desk) -> CollectionDesk:
    """The lists of a service that requires four eyes. Rule 1 is ann's SHADOW rule, which names her list `mules`."""
    service.lists.create(ANN, "mules", CollectionInput(ListOperation.SET, ("1",), ListType.LONG))
    edit(service, ANN, **NAMES_MULES)
    return service.lists


def add(lists: CollectionDesk, who: Actor, value: int) -> StoredList:
    changed = lists.change(who, "mules", None, CollectionInput(ListOperation.ADD, (str(value),)))
    assert changed is not None
    return changed


def test_a_change_of_a_list_counts_for_the_rules_that_name_it(service: Desk, lists: CollectionDesk) -> None:
    add(lists, PAT, 2)
    requested = request(service, ANN)
    assert requested.contributors == ["ann", "pat"]
    refuse(service, PAT, requested)
    approve(service, ADA, requested)
    assert service.rule(1).row.state is ACTIVE


def refused_as_changed(service: Desk, who: Actor, requested: Approval, part: str) -> None:
    with pytest.raises(Conflict, match=f"withdrawn.*{part} has changed"):
        approve(service, who, requested)
    assert service.rule(1).row.pending is None


def test_a_change_of_a_list_withdraws_the_request_to_activate_a_rule_that_names_it(
    service: Desk, lists: CollectionDesk
) -> None:
    requested = request(service, ANN)
    assert requested.basis == {"rule 1": service.rule(1).row.revision, "list mules": 1}
    add(lists, ANN, 2)
    refused_as_changed(service, PIA, requested, "the list mules")
    assert service.rule(1).row.state is SHADOW
    assert request(service, ANN).basis == {"rule 1": service.rule(1).row.revision, "list mules": 2}


def test_a_change_of_a_list_that_only_a_request_names_withdraws_it(service: Desk) -> None:
    approve(service, PIA, request(service, ANN))
    service.lists.create(ABE, "safe", CollectionInput(ListOperation.SET, ("1",), ListType.LONG))
    members = {"name": "Mules", "limit": 20, "when": "beneficiaryId not in list('safe')"}
    requested = request_edit(service, PIA, **members)
    service.lists.change(ABE, "safe", None, CollectionInput(ListOperation.ADD, ("2",)))
    refused_as_changed(service, PAT, requested, "the list safe")
    again = request_edit(service, PIA, **members)
    assert again.contributors == ["abe", "ann", "pia"]
    approve(service, PAT, again)


def test_a_change_of_a_list_by_another_writer_withdraws_the_request(
    service: Desk, lists: CollectionDesk, log: MemoryLog
) -> None:
    log.publish()
    requested = request(service, ANN)
    log.append(b'{"listName": "mules", "listOperation": "ADD", "values": [7], "source": "cli"}', b"list:mules")
    log.apply_record()
    refused_as_changed(service, PIA, requested, "the list mules")


def test_the_expiry_of_a_value_keeps_the_request_but_the_approver_reads_it_again(
    service: Desk, lists: CollectionDesk, scene: Scene
) -> None:
    until_ms = scene.clock() + 1_000
    lists.change(ANN, "mules", None, CollectionInput(ListOperation.ADD, ("9",), expires_at_ms=until_ms))
    seen = request(service, ANN)
    scene.clock.now_ms += 2_000
    assert Expiry(scene.store).remove_due() == 1
    with pytest.raises(Conflict, match="changed since: list mules"):
        service.decide(PIA, seen.id, approve=True, shown=seen.basis)
    (now,) = service.approvals().items
    assert now.basis != seen.basis
    service.decide(PIA, seen.id, approve=True, shown=now.basis)
    assert service.rule(1).row.state is ACTIVE


def test_an_approval_of_a_rule_covers_the_values_of_its_lists(service: Desk, lists: CollectionDesk) -> None:
    add(lists, PAT, 2)
    approve(service, PIA, request(service, ANN))
    edited = request_edit(service, ANN, **NAMES_MULES | {"limit": 30})
    assert edited.contributors == ["ann"]
    approve(service, PAT, edited)


def test_a_rollback_to_approved_content_waits_if_a_list_of_the_rule_has_changed_since(
    service: Desk, lists: CollectionDesk
) -> None:
    approve(service, PIA, request(service, ANN))
    good = service.rule(1).row.revision
    approve(service, PIA, request_edit(service, ANN, limit=3))
    add(lists, ANN, 6)
    assert "ann" in request_rollback(service, PAT, good).contributors


def test_an_edit_that_names_a_list_counts_its_contributors(service: Desk) -> None:
    approve(service, PIA, request(service, ANN))
    service.lists.create(PAT, "mules", CollectionInput(ListOperation.SET, ("1",), ListType.LONG))
    edited = request_edit(service, ANN, **NAMES_MULES)
    refuse(service, PAT, edited)
    approve(service, PIA, edited)


def test_a_change_of_the_list_of_a_paused_rule_counts_for_its_resumption(service: Desk, lists: CollectionDesk) -> None:
    approve(service, PIA, request(service, ANN))
    service.change_state(PAT, 1, service.rule(1).row.revision, PAUSE)
    add(lists, PAT, 2)
    refuse(service, PAT, request(service, ANN))


def test_an_approved_set_ends_the_part_of_the_contributors_before_it(service: Desk, lists: CollectionDesk) -> None:
    add(lists, PAT, 2)
    approve(service, PIA, request(service, ANN))
    service.change_state(PIA, 1, service.rule(1).row.revision, PAUSE)
    add(lists, PIA, 3)
    asked = lists.change(
        ANN, "mules", lists.detail("mules").revision, CollectionInput(ListOperation.SET, ("4",)), comment=REASON
    )
    assert asked is not None
    approve(service, PAT, pending(asked.pending))
    approve(service, PIA, request(service, ANN))


def test_a_new_list_with_the_name_of_a_deleted_one_has_its_own_contributors(service: Desk) -> None:
    for who in (PAT, ANN):
        made = service.lists.create(who, "mules", CollectionInput(ListOperation.SET, ("1",), ListType.LONG))
        if who is PAT:
            service.lists.change(PAT, "mules", made.revision, CollectionInput(ListOperation.DELETE))
    edit(service, ANN, **NAMES_MULES)
    approve(service, PAT, request(service, ANN))


def test_a_request_needs_a_reason(service: Desk) -> None:
    with pytest.raises(Invalid, match="comment: state the reason") as refused:
        service.change_state(ANN, 1, service.rule(1).row.revision, ACTIVE, comment=" ")
    assert [reason.field for reason in refused.value.reasons] == ["comment"]
    approve(service, PIA, request(service, ANN))
    with pytest.raises(Invalid, match="comment: state the reason"):
        edit(service, ANN, limit=30)
    service.lists.create(ABE, "mules", CollectionInput(ListOperation.SET, ("1",), ListType.LONG))
    approve(service, PAT, request_edit(service, ANN, **NAMES_MULES))
    with pytest.raises(Invalid, match="comment: state the reason"):
        service.lists.change(ANN, "mules", None, CollectionInput(ListOperation.ADD, ("2",)))
    assert not service.approvals().items
    service.change_state(PAT, 1, service.rule(1).row.revision, PAUSE)  # at once, so without a reason


def test_an_import_that_requests_needs_a_reason_but_its_preview_does_not(service: Desk) -> None:
    approve(service, PIA, request(service, ANN))
    content = json.dumps([{**RULE, "ruleId": 1, "limit": 30}])
    assert [item.effect for item in service.import_rules(ANN, content, dry_run=True).items] == ["requested"]
    refused = service.import_rules(ANN, content)
    assert not refused.applied
    assert [(reason.field, reason.message[:16]) for reason in refused.items[0].reasons] == [
        ("comment", "state the reason")
    ]
    assert service.import_rules(ANN, content, comment=REASON).applied
