"""The service: changes of rules by users, over a SQLite database."""

from __future__ import annotations

import itertools
import json
import shutil
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select

from fraud_control.domain.errors import Conflict, Invalid, NotFound, RequestRefused, Unavailable
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import DecisionName, ImportResult, RuleChanged, RuleInput, RuleWithForms
from fraud_control.domain.roles import Actor, Role
from fraud_control.service.audit import AuditFilter
from fraud_control.service.labels.payments import add_payments
from fraud_control.service.rules import imports
from fraud_control.settings import Bounds
from fraud_control.store.database import Database
from fraud_control.store.models import AuditEntry, OutboxRow
from fraud_rules.codec.rules.export import RuleFormat
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ABE, ADA, ANN, PAT, PIA, REASON, RULE, VIC, Scene, rule_input
from tests.support.records.flink_demo import DEFAULT_RULES

SHADOW, ACTIVE, PAUSE, DELETE = StateName.SHADOW, StateName.ACTIVE, StateName.PAUSE, StateName.DELETE


def sent(scene: Scene) -> list[dict[str, Any]]:
    """The records in the outbox, in order."""
    with scene.database.reading() as session:
        return [json.loads(row.value) for row in session.scalars(select(OutboxRow).order_by(OutboxRow.seq))]


def copied_store(scene: Scene) -> str:
    """The URL of a copy of the scene's database."""
    assert scene.database.file is not None
    copy = scene.database.file.with_name("copy.db")
    for name in ("", "-wal"):
        copy.with_name(f"copy.db{name}").unlink(missing_ok=True)
        source = scene.database.file.with_name(f"{scene.database.file.name}{name}")
        if source.exists():
            shutil.copy(source, copy.with_name(f"copy.db{name}"))
    return f"sqlite:///{copy}"


def in_state(scene: Scene, *states: StateName, **members: Any) -> RuleWithForms:
    """A rule by ann, moved through these states by ada."""
    detail = scene.service.create(ANN, rule_input(**members))
    for state in states:
        detail = scene.another(four_eyes=False).change_state(ADA, detail.row.rule_id, detail.row.revision, state)
    return detail


def test_a_rule_goes_from_draft_to_its_end(scene: Scene) -> None:
    draft = scene.service.create(ANN, rule_input(name="Mules"), "first try")
    assert (draft.row.rule_id, draft.row.revision, draft.row.state) == (1, 1, StateName.DRAFT)
    assert sent(scene) == []
    shadow = scene.service.change_state(ANN, 1, 1, SHADOW)
    active = scene.service.change_state(PAT, 1, shadow.row.revision, ACTIVE)
    paused = scene.service.change_state(PAT, 1, active.row.revision, PAUSE)
    ended = scene.service.change_state(PAT, 1, paused.row.revision, DELETE)
    assert ended.row.revision == 5
    assert [record["ruleState"] for record in sent(scene)] == ["SHADOW", "ACTIVE", "PAUSE", "DELETE"]
    assert all(record["source"] == "ui" for record in sent(scene))
    assert [each.state for each in scene.service.revisions(1).items] == [DELETE, PAUSE, ACTIVE, SHADOW, StateName.DRAFT]
    assert scene.service.rules().items == ()
    assert [row.rule_id for row in scene.service.rules(state=DELETE).items] == [1]
    assert scene.notified == [RuleChanged(1, revision) for revision in (1, 2, 3, 4, 5)]
    assert scene.service.verify_audit().whole


def test_amounts_keep_their_digits(scene: Scene) -> None:
    scene.service.create(ANN, RuleInput(text=json.dumps(RULE).replace('"limit": 20', '"limit": 20.10')))
    detail = scene.service.rule(1)
    assert detail.row.document["limit"] == Decimal("20.10")
    assert str(detail.row.document["limit"]) == "20.10"
    assert "limit: 20.10" in detail.yaml
    assert detail.text == "1,,(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(20.10),(20)"
    assert "a total amount of more than 20.10 EUR within 20 minutes" in detail.says


def test_the_texts_of_a_draft_have_no_state_and_those_of_a_rule_in_the_log_have_it(scene: Scene) -> None:
    scene.service.create(ANN, rule_input())
    draft = scene.service.rule(1)
    assert "ruleState" not in draft.yaml
    assert draft.text is not None and draft.text.startswith("1,,(payeeId&beneficiaryId)")
    assert scene.service.edit(ANN, 1, 1, RuleInput(text=draft.text)).row.state is StateName.DRAFT
    checked = scene.service.validate(RuleInput(text=draft.text), 1)
    assert (checked.valid, checked.text) == (True, draft.text)
    scene.service.change_state(ANN, 1, scene.service.rule(1).row.revision, SHADOW)
    shadow = scene.service.rule(1)
    assert "ruleState: SHADOW" in shadow.yaml
    assert shadow.text is not None and shadow.text.startswith("1,(shadow),(payeeId&beneficiaryId)")


def test_a_change_of_an_outdated_revision_is_refused(scene: Scene) -> None:
    in_state(scene, SHADOW)
    scene.service.edit(ABE, 1, 2, rule_input(limit=30))
    with pytest.raises(Conflict, match="'abe' has changed") as stale:
        scene.service.edit(ANN, 1, 2, rule_input(limit=40))
    assert stale.value.revision == 3
    for change in (scene.service.change_state, scene.service.rollback):
        with pytest.raises(Conflict):
            change(PAT, 1, 2, DELETE if change == scene.service.change_state else 1)  # type: ignore[arg-type]
    assert scene.service.rule(1).row.document["limit"] == 30


def test_every_fault_of_a_rule_is_reported_by_field(scene: Scene) -> None:
    with pytest.raises(Invalid) as invalid:
        scene.service.create(ANN, rule_input(limit="much", groupingKeyNames=["nobody"], windowMinutes=0, colour="red"))
    assert {reason.field for reason in invalid.value.reasons} == {
        "limit", "groupingKeyNames", "windowMinutes", "colour",
    }  # fmt: skip
    assert scene.service.rules().items == ()
    assert scene.service.audit_rows().items == ()


def test_every_fault_of_when_baseline_and_weight_is_reported_by_field(scene: Scene) -> None:
    judged = scene.service.validate(
        rule_input(
            when="nowhere = 1",
            filter="payeeId in list('mules')",
            weight=2_000,
            baseline={"windowMinutes": 1, "windowSeconds": 1, "minCount": 0, "colour": 1, "deviations": True},
        )
    )
    assert not judged.valid
    assert {reason.field for reason in judged.reasons} == {
        "when", "filter", "weight", "baseline", "baseline.windowSeconds", "baseline.minCount", "baseline.colour",
        "baseline.aggregatorFunctionType",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (RuleInput(), "record"),
        (RuleInput(document=RULE, text="1"), "record"),
        (RuleInput(text='{"limit": 1, "limit": 2}'), "limit"),
        (RuleInput(text="[" * 30_000), "record"),
        (RuleInput(text='{"name":' * 5_000), "record"),
        (RuleInput(text="x" * 40_000), "record"),
        (RuleInput(yaml="a: &a [1]\nb: *a"), "record"),
        (RuleInput(yaml="- {}\n- {}"), "record"),
        (RuleInput(document={**RULE, "limit": 20.5}), "limit"),
        (RuleInput(document={**RULE, "limit": float("nan")}), "limit"),
        (RuleInput(document={**RULE, "name": object()}), "record"),
        (RuleInput(document={**RULE, "name": "\ud800"}), "record"),
        (RuleInput(document={**RULE, "disabled": True}), "disabled"),
        (RuleInput(document={**RULE, "ruleId": 2**60}), "ruleId"),
        (RuleInput(document={**RULE, "ruleId": "one"}), "ruleId"),
        (RuleInput(document={**RULE, "description": "x" * 33_000}), "record"),
        (RuleInput(document={str(n): n for n in range(100)}), "record"),
    ],
)
def test_an_invalid_rule_is_refused(scene: Scene, bad: RuleInput, field: str) -> None:
    with pytest.raises(Invalid) as invalid:
        scene.service.create(ANN, bad)
    assert field in {reason.field for reason in invalid.value.reasons}
    assert not scene.service.validate(bad).valid


def test_a_rule_can_be_given_as_document_text_or_yaml(scene: Scene) -> None:
    line = "7,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(20),(20)"
    made = [
        scene.service.create(ANN, form)
        for form in (RuleInput(document=RULE), RuleInput(text=line), RuleInput(yaml=json.dumps(RULE)))
    ]
    assert [each.row.rule_id for each in made] == [1, 7, 8]
    assert {each.row.state for each in made} == {StateName.DRAFT}
    assert len({each.says for each in made}) == 1


def test_a_rule_without_grouping_says_that_it_is_over_all_transactions(scene: Scene) -> None:
    made = scene.service.create(ANN, rule_input(groupingKeyNames=[]))
    assert (made.row.document["groupingKeyNames"], made.says) == (
        [],
        "Alert when all payments together have a total amount of more than 20 EUR within 20 minutes.",
    )
    (change,) = scene.service.validate(rule_input(groupingKeyNames=["payeeId"]), rule_id=made.row.rule_id).changes
    assert (change.field, change.before, change.after) == ("groupingKeyNames", [], ["payeeId"])
    assert not scene.service.validate(rule_input(groupingKeyNames=None)).valid


def test_an_edit_keeps_the_state_and_says_so(scene: Scene) -> None:
    in_state(scene, SHADOW)
    with pytest.raises(Invalid, match="ruleState"):
        scene.service.edit(ANN, 1, 2, rule_input(ruleState="ACTIVE"))
    with pytest.raises(Invalid, match="ruleId"):
        scene.service.edit(ANN, 1, 2, rule_input(ruleId=2))
    detail = scene.service.edit(ANN, 1, 2, rule_input(ruleState="SHADOW", ruleId=1, limit=30))
    assert (detail.row.state, detail.row.revision) == (SHADOW, 3)


def test_an_edit_that_changes_nothing_is_none(scene: Scene) -> None:
    in_state(scene, SHADOW)
    assert scene.service.edit(ANN, 1, 2, rule_input()).row.revision == 2
    assert len(sent(scene)) == 1


def test_a_deleted_rules_id_can_be_used_again(scene: Scene) -> None:
    in_state(scene, SHADOW, DELETE)
    with pytest.raises(RequestRefused, match="deleted"):
        scene.service.edit(ADA, 1, 3, rule_input(limit=30))
    assert scene.service.create(ANN, rule_input(ruleId=1)).row.revision == 4
    with pytest.raises(Conflict):
        scene.service.create(ANN, rule_input(ruleId=1))
    assert scene.service.create(ANN, rule_input()).row.rule_id == 2


def test_an_analyst_asks_and_an_approver_decides(scene: Scene) -> None:
    in_state(scene, SHADOW)
    asked = scene.service.change_state(ANN, 1, 2, ACTIVE, "please")
    assert asked.row.state is SHADOW
    assert asked.row.pending is not None
    assert (asked.row.pending.requested_by, asked.row.pending.target) == ("ann", ACTIVE)
    with pytest.raises(RequestRefused, match="open approval"):
        scene.service.change_state(ABE, 1, 2, ACTIVE)
    with pytest.raises(RequestRefused, match="approver"):
        scene.service.decide(ABE, asked.row.pending.id, approve=True)
    (listed,) = scene.service.approvals().items
    assert (listed.id, listed.says) == (asked.row.pending.id, scene.service.rule(1).says)
    assert listed.says
    decided = scene.service.decide(PAT, asked.row.pending.id, approve=True, comment="fine")
    assert decided.decision is DecisionName.APPROVED
    assert scene.service.rule(1).row.state is ACTIVE
    assert scene.service.approvals().items == ()
    with pytest.raises(Conflict, match="already been approved by 'pat'"):
        scene.service.decide(PIA, decided.id, approve=False)


def test_with_four_eyes_requesters_and_authors_do_not_approve(scene: Scene) -> None:
    in_state(scene, SHADOW)
    service = scene.another(four_eyes=True)
    by_pat = service.edit(PAT, 1, 2, rule_input(limit=99))
    asked = service.change_state(PIA, 1, by_pat.row.revision, ACTIVE, comment=REASON)
    assert asked.row.pending is not None
    assert (asked.row.pending.author, asked.row.pending.requested_by) == (PAT.user, PIA.user)
    for who in (PIA, PAT):
        with pytest.raises(RequestRefused, match="second person"):
            service.decide(who, asked.row.pending.id, approve=True)
    service.decide(ADA, asked.row.pending.id, approve=True)
    assert service.rule(1).row.state is ACTIVE
    assert (
        service.edit(PAT, 1, service.rule(1).row.revision, rule_input(limit=1), comment=REASON).row.pending is not None
    )
    assert service.rule(1).row.document["limit"] == 99
    assert service.change_state(PAT, 1, service.rule(1).row.revision, PAUSE).row.state is PAUSE


def test_a_request_lapses_when_the_rule_changes(scene: Scene) -> None:
    in_state(scene, SHADOW)
    asked = scene.service.change_state(ANN, 1, 2, ACTIVE, comment=REASON).row.pending
    assert asked is not None
    scene.service.edit(ABE, 1, 2, rule_input(limit=1_000_000))
    with pytest.raises(Conflict, match="withdrawn"):
        scene.service.decide(PAT, asked.id, approve=True)
    assert scene.service.rule(1).row.state is SHADOW
    assert scene.service.approvals(open_only=False).items[0].decision is DecisionName.WITHDRAWN


def test_an_approved_edit_is_made_as_requested(scene: Scene) -> None:
    in_state(scene, SHADOW, ACTIVE)
    asked = scene.service.edit(ANN, 1, 3, rule_input(limit=77), comment=REASON).row.pending
    assert asked is not None
    assert asked.document["limit"] == 77
    scene.service.decide(PAT, asked.id, approve=True)
    detail = scene.service.rule(1)
    assert (detail.row.document["limit"], detail.author, detail.row.updated_by) == (77, "ann", "pat")
    again = scene.service.rollback(ANN, 1, detail.row.revision, 3, comment=REASON).row.pending
    assert again is not None
    assert scene.service.decide(ANN, again.id, approve=False).decision is DecisionName.WITHDRAWN
    assert scene.service.rule(1).row.document["limit"] == 77


def test_a_rollback_is_a_new_revision_with_an_old_document(scene: Scene) -> None:
    in_state(scene, SHADOW, ACTIVE)
    scene.service.edit(PAT, 1, 3, rule_input(limit=30, name="Larger"))
    back = scene.service.rollback(PAT, 1, 4, 3, "too many alerts")
    assert (back.row.revision, back.row.state, back.row.document["limit"]) == (5, ACTIVE, 20)
    assert back.author == "ann"
    assert scene.service.diff(1, 3, 5) == []
    assert {(each.field, each.before, each.after) for each in scene.service.diff(1, 3, 4)} == {
        ("limit", 20, 30), ("name", None, "Larger"),
    }  # fmt: skip
    with pytest.raises(NotFound, match="no revision 99"):
        scene.service.rollback(PAT, 1, 5, 99)


def test_force_is_for_approvers(scene: Scene) -> None:
    with pytest.raises(RequestRefused, match="force"):
        scene.service.create(ANN, rule_input(force=True))
    scene.service.create(PAT, rule_input(force=True))
    assert scene.service.edit(ANN, 1, 1, rule_input(force=True, limit=30)).row.revision == 2


def test_validating_saves_nothing_and_says_what_would_change(scene: Scene) -> None:
    in_state(scene, SHADOW)
    judged = scene.service.validate(rule_input(limit=25), 1)
    assert judged.valid
    assert [(each.field, each.before, each.after) for each in judged.changes] == [("limit", 20, 25)]
    assert judged.yaml is not None
    assert "limit: 25" in judged.yaml
    assert scene.service.validate(rule_input(ruleId=1)).changes == []
    assert not scene.service.validate(rule_input(ruleState="ACTIVE"), 1).valid
    assert scene.service.rule(1).row.revision == 2


def test_controls_are_typed_by_an_admin(scene: Scene) -> None:
    in_state(scene, SHADOW)
    in_state(scene)
    with pytest.raises(RequestRefused, match="admin"):
        scene.service.control(PAT, "CLEAR_STATE_ALL", "CLEAR_STATE_ALL")
    for confirm in ("", "clear_state_all", "DELETE_RULES_ALL"):
        with pytest.raises(Invalid, match="confirm"):
            scene.service.control(ADA, "CLEAR_STATE_ALL", confirm)
    with pytest.raises(Invalid, match="control"):
        scene.service.control(ADA, "DROP", "DROP")
    scene.service.control(ADA, "EXPORT_RULES_CURRENT")
    scene.service.control(ADA, "DELETE_RULES_ALL", "DELETE_RULES_ALL", "a drill")
    assert [record.get("controlType") for record in sent(scene)] == [None, "EXPORT_RULES_CURRENT", "DELETE_RULES_ALL"]
    assert scene.service.rule(1).row.state is DELETE
    assert scene.service.rule(2).row.state is StateName.DRAFT


def test_rules_are_found_and_listed_in_pages(scene: Scene) -> None:
    for name in ("Mules", "Mules 100%", "Cards", "Structuring"):
        scene.service.create(ANN, rule_input(name=name, owner="team-a" if name == "Cards" else None))
    first = scene.service.rules(limit=3)
    assert [row.rule_id for row in first.items] == [1, 2, 3]
    assert [row.rule_id for row in scene.service.rules(limit=3, cursor=first.next).items] == [4]
    for query, ids in {"mules": [1, 2], "100%": [2], "%": [2], "TEAM-A": [3], "4": [4], "' or 1=1": []}.items():
        assert [row.rule_id for row in scene.service.rules(query=query).items] == ids, query
    for bad in ({"limit": 0}, {"limit": 1_000_000}, {"cursor": "x"}, {"query": "x" * 300}):
        with pytest.raises(Invalid):
            scene.service.rules(**bad)


@pytest.mark.parametrize("form", RuleFormat)
def test_an_export_imports_as_it_was(scene: Scene, form: RuleFormat) -> None:
    for limit in (10, 20, Decimal("30.50")):
        in_state(scene, SHADOW, limit=limit)
    text = scene.service.export(form)
    done = scene.service.import_rules(ANN, text)
    assert done.applied
    assert {item.effect for item in done.items} == {"unchanged"}
    changed = scene.service.import_rules(ANN, text.replace("30.50", "31.50"), form, dry_run=True)
    assert [item.effect for item in changed.items] == ["unchanged", "unchanged", "changed"]
    assert scene.service.rule(3).row.document["limit"] == Decimal("30.50")


def test_when_and_baseline_are_compared_exported_and_imported(scene: Scene) -> None:
    past = {"windowMinutes": 1_440, "minCount": 3}
    same = {"weight": 60, "warmUp": True}
    in_state(scene, SHADOW, when="paymentAmount > 500", baseline=past, **same)
    scene.service.edit(PAT, 1, 2, rule_input(when="paymentAmount > 900", baseline={**past, "minCount": 5}, **same))
    assert {(each.field, str(each.before), str(each.after)) for each in scene.service.diff(1, 2, 3)} == {
        ("when", "paymentAmount > 500", "paymentAmount > 900"),
        ("baseline", str(past), str({**past, "minCount": 5})),
    }
    for form in (RuleFormat.JSON, RuleFormat.YAML):
        text = scene.service.export(form)
        (item,) = scene.service.import_rules(ANN, text).items
        assert item.effect == "unchanged"
        (changed,) = scene.service.import_rules(ANN, text.replace("1440", "720"), form, dry_run=True).items
        assert changed.effect == "changed"
    with pytest.raises(Invalid, match="when, baseline, weight, warmUp, which cannot be expressed in one line"):
        scene.service.export(RuleFormat.TEXT)


def test_the_flink_demos_rules_are_imported_under_their_ids(scene: Scene) -> None:
    """Its web application writes ids and windows as text."""
    text = "[" + ",".join(rule.record.decode() for rule in DEFAULT_RULES) + "]"
    assert [item.effect for item in scene.service.import_rules(ANN, text).items] == ["added"] * 4
    assert scene.service.rule(1).row.document["windowMinutes"] == 43_200
    assert [item.effect for item in scene.service.import_rules(ANN, text).items] == ["unchanged"] * 4


def test_an_import_is_all_or_nothing(scene: Scene) -> None:
    in_state(scene, SHADOW, ACTIVE)
    new = {**RULE, "ruleId": 9, "ruleState": "ACTIVE"}
    known = {**RULE, "ruleId": 1, "limit": 50}
    end = {"ruleId": 1, "ruleState": "DELETE"}
    done = scene.service.import_rules(ANN, json.dumps([new, known]), comment=REASON)
    assert [(item.rule_id, item.effect) for item in done.items] == [(9, "added"), (1, "requested")]
    assert scene.service.rule(9).row.state is StateName.DRAFT
    for bad in ({**RULE, "ruleId": 10, "limit": "x"}, end, {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}):
        before = len(scene.service.audit_rows().items)
        refused = scene.service.import_rules(ANN, json.dumps([{**RULE, "ruleId": 20}, bad]))
        assert [item.effect for item in refused.items] == ["added", "rejected"], bad
        assert not refused.applied
        assert refused.items[1].reasons
        assert len(scene.service.audit_rows().items) == before
        with pytest.raises(NotFound):
            scene.service.rule(20)
    assert scene.service.import_rules(ADA, json.dumps([end])).applied
    assert scene.service.rule(1).row.state is DELETE
    (without,) = scene.service.import_rules(ANN, json.dumps([{**RULE, "limit": "x"}])).items
    assert [reason.field for reason in without.reasons] == ["ruleId", "limit"]
    assert "the editor chooses a free id" in without.reasons[0].message
    twice = scene.service.import_rules(ANN, json.dumps([new, new]))
    assert [item.effect for item in twice.items] == ["unchanged", "rejected"]
    for bad_file in ("", "[]", "{" * 100, "x" * 2_000_000, "- 1"):
        with pytest.raises(Invalid):
            scene.service.import_rules(ANN, bad_file)


def test_a_dry_run_foresees_each_effect_and_waits_for_no_writer(scene: Scene) -> None:
    in_state(scene, SHADOW)
    in_state(scene, SHADOW, ACTIVE)
    in_state(scene, SHADOW, ACTIVE)
    scene.service.edit(ANN, 3, 3, rule_input(limit=77), comment=REASON)
    changed = [{**RULE, "ruleId": rule_id, "limit": 50} for rule_id in (1, 2, 3, 4)]
    same = [{**RULE, "ruleId": rule_id} for rule_id in (1, 2, 3)]
    ends = [{"ruleId": rule_id, "ruleState": "DELETE"} for rule_id in (1, 9)]
    forced = [{**RULE, "ruleId": 5, "force": True}]
    bad = [{**RULE, "ruleId": 6, "limit": "x"}]
    bounded = scene.another(bounds=Bounds(rules=4))
    files = [changed, same, ends, forced, bad, [*changed[:2], *changed[:1]], [*ends[:1], *changed[3:], *forced]]
    for service, records, who in itertools.product((scene.service, bounded), files, (ANN, ADA)):
        text = json.dumps(records)
        with scene.database.writing():
            foreseen = service.import_rules(who, text, dry_run=True)
        assert not foreseen.applied
        copy = Database.open(copied_store(scene))
        real = Scene(copy, service.store.settings).service.import_rules(who, text)
        copy.close()
        assert foreseen.items == real.items, (records, who)


def test_an_import_parses_a_rule_again_that_another_user_has_changed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_state(scene, SHADOW, name="Mules", description="old")
    line = "1,(shadow),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(33),(20)"
    other = scene.another()
    original = imports.apply_rules

    def edit_in_between(*args: Any, saves: bool, **named: Any) -> ImportResult:
        done = original(*args, saves=saves, **named)
        if not saves:
            other.edit(ABE, 1, 2, rule_input(name="Mules", description="new"))
        return done

    monkeypatch.setattr(imports, "apply_rules", edit_in_between)
    assert scene.service.import_rules(ANN, line).applied
    found = scene.service.rule(1).row
    assert (found.description, found.document["limit"], found.revision) == ("new", 33, 4)


def test_each_imported_rule_has_its_audit_row_and_record(scene: Scene) -> None:
    many = [{**RULE, "ruleId": rule_id} for rule_id in range(1, 301)]
    assert scene.service.import_rules(ADA, json.dumps(many)).applied
    for rule_id in range(1, 301, 2):
        scene.service.change_state(ADA, rule_id, 1, ACTIVE)
    ends = [{"ruleId": rule_id, "ruleState": "DELETE"} for rule_id in (11, 13)]
    changes = [{**rule, "limit": 50} for rule in many if rule["ruleId"] not in (11, 13)]
    assert scene.service.import_rules(ADA, json.dumps([*changes, *ends])).applied
    with scene.database.reading() as session:
        rows = session.scalars(select(OutboxRow).order_by(OutboxRow.seq)).all()
        audited = {f"{each.seq}:{each.hash}": each for each in session.scalars(select(AuditEntry))}
    assert [row.seq for row in rows] == list(range(1, 301))
    assert [row.rule_id for row in rows[150:]] == [*(n for n in range(1, 301, 2) if n not in (11, 13)), 11, 13]
    for row in rows:
        after = json.loads(audited[row.audit].after)
        assert (audited[row.audit].rule_id, after["revision"]) == (row.rule_id, row.revision)
    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, 300 + 150 + 300)
    assert [each.revision for each in scene.service.revisions(1).items] == [3, 2, 1]


def test_an_import_may_not_bring_more_rules_than_are_allowed(scene: Scene) -> None:
    bounded = scene.another(bounds=Bounds(rules=3))
    four = [{**RULE, "ruleId": rule_id} for rule_id in range(1, 5)]
    refused = bounded.import_rules(ADA, json.dumps(four))
    assert [item.effect for item in refused.items] == ["added", "added", "added", "rejected"]
    assert bounded.rules().items == ()
    assert bounded.import_rules(ADA, json.dumps(four[:3])).applied
    end = {"ruleId": 3, "ruleState": "DELETE"}
    assert bounded.import_rules(ADA, json.dumps([end, four[3]])).applied, "one goes and another comes"


def test_a_rule_and_key_have_one_snooze(scene: Scene) -> None:
    scene.service.create(ANN, rule_input(ruleId=1))
    until_ms = scene.clock.now_ms + 60_000
    first = scene.service.snooze(ANN, 1, {"payeeId": 7}, until_ms, "known")
    assert scene.service.snooze(ANN, 1, {"payeeId": 7}, until_ms, "known") == first
    rows = scene.service.audit_rows().items
    assert [each.action for each in rows].count("snooze") == 1, "a repeated request changes nothing"
    longer = scene.service.snooze(ABE, 1, {"payeeId": 7}, until_ms + 1, "still known")
    assert (longer.id, longer.who, longer.until_ms) == (first.id, "abe", until_ms + 1)
    whole = scene.service.snooze(ANN, 1, None, until_ms, "")
    assert scene.service.snoozes() == (longer, whole)
    scene.service.unsnooze(ANN, first.id)
    assert scene.service.snoozes() == (whole,)


def test_a_new_rule_with_the_number_of_a_deleted_one_inherits_no_snooze_and_no_mark(
    scene: Scene, log: MemoryLog
) -> None:
    scene.service.create(ANN, rule_input(ruleId=1))
    scene.service.change_state(ANN, 1, 1, StateName.SHADOW)
    log.mirror_outbox()
    scene.service.snooze(ANN, 1, None, scene.clock.now_ms + 60_000, "")
    add_payment(scene, "a1", 0)
    scene.service.mark(ANN, "a1", 1, 0, "FRAUD")
    assert scene.service.labelled() == {1: (1, 0)}
    scene.service.change_state(ADA, 1, 2, StateName.DELETE)
    log.mirror_outbox()
    assert scene.service.labelled() == {1: (1, 0)}, "the past of a deleted rule"
    assert scene.service.snoozes() == ()
    with pytest.raises(RequestRefused, match="deleted"):
        scene.service.snooze(ANN, 1, None, scene.clock.now_ms + 60_000, "")
    detail = scene.service.create(ANN, rule_input(ruleId=1))
    scene.service.change_state(ANN, 1, detail.row.revision, StateName.SHADOW)
    log.mirror_outbox()
    add_payment(scene, "a2", log.end)
    scene.service.mark(ANN, "a2", 1, log.end, "NOT_FRAUD")
    assert scene.service.labelled() == {1: (0, 1)}


def add_payment(scene: Scene, alert_id: str, rule_version: int) -> None:
    """The payment of an alert of rule 1, which is now."""
    row = {"alert_id": alert_id, "transaction_id": alert_id, "rule_id": 1, "rule_version": rule_version}
    of_alert = {"append_ms": scene.clock.now_ms, "amount": None, "shadow": False, "in_effect": True}
    with scene.database.writing() as session:
        add_payments(session, [row | of_alert])


def test_marks_and_snoozes(scene: Scene) -> None:
    in_state(scene, SHADOW)
    scene.service.mark(ANN, "a-1", 1, 5, "FRAUD")
    scene.service.mark(ABE, "a-1", 1, 5, "NOT_FRAUD")
    scene.service.mark(ABE, "a-2", 1, 5, "FRAUD")
    assert scene.service.marks(["a-1", "a-3"])["a-1"].verdict == "NOT_FRAUD"
    assert [(each.fraud, each.not_fraud) for each in scene.service.labels.counts()] == [(1, 1), (0, 0), (0, 0)]
    scene.service.unmark(ANN, "a-1")
    with pytest.raises(NotFound):
        scene.service.unmark(ANN, "a-1")
    now_ms = scene.clock()
    snoozed = scene.service.snooze(ANN, 1, {"payeeId": 7}, now_ms + 60_000, "known")
    assert scene.service.snoozes() == (snoozed,)
    for until_ms in (now_ms, now_ms + 40 * 86_400_000):
        with pytest.raises(Invalid, match="until"):
            scene.service.snooze(ANN, 1, None, until_ms, "known")
    scene.clock.now_ms += 60_000
    assert scene.service.snoozes() == ()
    with pytest.raises(NotFound):
        scene.service.unsnooze(ANN, snoozed.id)


def test_roles_come_from_the_settings_until_the_table_says_otherwise(scene: Scene) -> None:
    service = scene.another(bindings={"ada": Role.ADMIN, "vic": Role.VIEWER})
    assert [service.role_of(user) for user in ("ada", "vic", "nobody", "x\ny")] == [Role.ADMIN, Role.VIEWER, None, None]
    for reserved in ("log:eve", "system:cdc"):
        with pytest.raises(Invalid, match="log: or system:"):
            service.bind(ADA, reserved, Role.ADMIN)
    service.bind(ADA, "vic", Role.ANALYST)
    service.bind(ADA, "eve", Role.ADMIN)
    service.unbind(ADA, "ada")
    assert [service.role_of(user) for user in ("ada", "vic", "eve")] == [None, Role.ANALYST, Role.ADMIN]
    with pytest.raises(RequestRefused, match="last admin"):
        service.unbind(Actor("eve", Role.ADMIN), "eve")
    with pytest.raises(RequestRefused, match="last admin"):
        service.bind(Actor("eve", Role.ADMIN), "eve", Role.VIEWER)
    with pytest.raises(RequestRefused, match="admin"):
        service.bind(PAT, "pat", Role.ADMIN)
    assert [(each.user, each.role.value) for each in service.bindings()] == [("eve", "admin"), ("vic", "analyst")]


NO_VIEWERS_WORK = {
    "create": lambda service, who: service.create(who, rule_input()),
    "edit": lambda service, who: service.edit(who, 1, 2, rule_input(limit=1)),
    "change state": lambda service, who: service.change_state(who, 1, 2, ACTIVE),
    "roll back": lambda service, who: service.rollback(who, 1, 2, 1),
    "control": lambda service, who: service.control(who, "EXPORT_RULES_CURRENT"),
    "import": lambda service, who: service.import_rules(who, "[]"),
    "mark": lambda service, who: service.mark(who, "a", 1, 1, "FRAUD"),
    "unmark": lambda service, who: service.unmark(who, "a"),
    "snooze": lambda service, who: service.snooze(who, 1, None, 1, "x"),
    "unsnooze": lambda service, who: service.unsnooze(who, 1),
    "bind": lambda service, who: service.bind(who, "x", Role.ADMIN),
    "unbind": lambda service, who: service.unbind(who, "x"),
}


@pytest.mark.parametrize("deed", NO_VIEWERS_WORK)
def test_a_viewer_changes_nothing(scene: Scene, deed: str) -> None:
    in_state(scene, SHADOW)
    rows = len(scene.service.audit_rows().items)
    with pytest.raises(RequestRefused) as refused:
        NO_VIEWERS_WORK[deed](scene.service, VIC)
    assert refused.value.forbidden
    assert len(scene.service.audit_rows().items) == rows


@pytest.mark.parametrize(
    "user", ["", "x" * 300, "eve\nada deleted everything", "eve\radmin", "e\u2028a", "e\x00", "\ud800"]
)
def test_a_name_cannot_pass_for_another_line(scene: Scene, user: str) -> None:
    with pytest.raises(Invalid, match="user"):
        scene.service.create(Actor(user, Role.ADMIN), rule_input())
    with pytest.raises(Invalid, match="user"):
        scene.service.bind(ADA, user, Role.VIEWER)


def test_remarks_are_bounded(scene: Scene) -> None:
    for comment in ("x" * 2_001, "\x00", "\ud800"):
        with pytest.raises(Invalid, match="comment"):
            scene.service.create(ANN, rule_input(), comment)
    scene.service.create(
        ANN, rule_input(name="<script>\r\nalert(1)</script>"), "line\r\nforged: ada deleted everything"
    )
    (row,) = scene.service.audit_rows().items
    assert row.who == "ann"
    assert scene.service.verify_audit() == scene.service.verify_audit()
    assert scene.service.verify_audit().rows == 1


def test_more_rules_or_waiting_changes_than_allowed_are_refused(scene: Scene) -> None:
    service = scene.another(bounds=Bounds(rules=2, outbox=2))
    for _ in range(2):
        service.create(ANN, rule_input())
    with pytest.raises(RequestRefused, match="at most 2"):
        service.create(ANN, rule_input())
    service.change_state(ANN, 1, 1, SHADOW)
    service.edit(ANN, 1, 2, rule_input(limit=1))
    service.edit(ANN, 1, 3, rule_input(limit=2))
    with pytest.raises(Unavailable, match="Kafka"):
        service.edit(ANN, 1, 4, rule_input(limit=3))
    assert service.outbox().pending == 3


def test_a_failed_change_leaves_no_trace(scene: Scene) -> None:
    in_state(scene, SHADOW)
    before = (scene.service.rule(1), scene.service.verify_audit(), scene.service.outbox())
    with pytest.raises(Conflict):
        scene.service.edit(ANN, 1, 1, rule_input(limit=1))
    with pytest.raises(RequestRefused):
        scene.service.change_state(PAT, 1, 2, PAUSE)
    assert (scene.service.rule(1), scene.service.verify_audit(), scene.service.outbox()) == before


@pytest.mark.parametrize("number", [-1, 0, 2**63, 10**40])
def test_ids_of_any_size_are_only_not_found(scene: Scene, number: int) -> None:
    with pytest.raises(NotFound):
        scene.service.rule(number)
    with pytest.raises(NotFound):
        scene.service.decide(PAT, number, approve=True)
    with pytest.raises(NotFound):
        scene.service.unsnooze(ANN, number)
    assert scene.service.audit_rows(AuditFilter(rule_id=number)).items == ()
