"""The figures beside a request for approval: shadow alerts since the rule has its document, and the saved what-if."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fraud_control.domain.errors import NotFound
from fraud_control.domain.lifecycle import StateName
from fraud_control.service.reading.approval_figures import present_figures, saved_what_if, shadow_figures
from fraud_rules.batch.whatif.place import FOLDER, report_name
from fraud_rules.codec.rules.codec import encode_document, parse_rule_record
from fraud_rules.model.rule import Rule
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import ABE, ADA, ANN, REASON, RULE, Scene, rule_input
from tests.support.rules import LIMITS, SCHEMA

DAY_MS = 86_400_000


def shadow_alert(scene: Scene, at_s: int, number: int, rule_id: int) -> str:
    """Index a shadow alert `at_s` seconds after the scene's clock, and return its id."""
    return scene.index(alert(scene.clock.now_ms // 1_000 + at_s + number, rule_id, shadow=True))


def test_shadow_alerts_count_since_the_rule_has_its_document(scene: Scene) -> None:
    detail = scene.service.create(ANN, rule_input(ruleId=1))
    detail = scene.service.change_state(ANN, 1, detail.row.revision, StateName.SHADOW)
    shadow_alert(scene, 10, 0, 1)
    scene.clock.now_ms += DAY_MS
    detail = scene.service.edit(ANN, 1, detail.row.revision, rule_input(ruleId=1, limit=30))
    since_ms = scene.clock.now_ms
    ids = [shadow_alert(scene, 10, number, 1) for number in range(4)]
    shadow_alert(scene, 20, 0, 2)
    for alert_id, verdict, who in zip(ids, ("FRAUD", "NOT_FRAUD", "FRAUD"), (ANN, ANN, ABE), strict=False):
        scene.service.mark(who, alert_id, 1, 3, "FRAUD" if verdict == "FRAUD" else "NOT_FRAUD")
    scene.clock.now_ms += DAY_MS
    scene.another(four_eyes=True).change_state(ANN, 1, detail.row.revision, StateName.ACTIVE, comment=REASON)
    request = scene.service.approvals().items[0]
    document, shadow, _ = scene.service.approval_figures(request.id)
    evaluated = parse_rule_record(encode_document({**document, "ruleState": "ACTIVE"}), SCHEMA, LIMITS)
    assert isinstance(evaluated, Rule)
    assert {**evaluated.document, "ruleState": None} == {**document, "ruleState": None}, "a saved what-if has it"
    assert shadow is not None and (shadow.since_ms, shadow.until_ms) == (since_ms, since_ms + DAY_MS)
    assert (shadow.alerts, shadow.fraud, shadow.not_fraud) == (4, 2, 1)
    assert shadow.by_requester == 2, "ann requests the approval, abe marked the third alert"
    with scene.database.reading() as session:
        pruned = shadow_figures(session, document, "ann", since_ms + 3 * DAY_MS, 1)
        other = shadow_figures(session, {**document, "limit": 31}, "ann", scene.clock.now_ms, 30)
    assert pruned is not None and (pruned.since_ms, pruned.alerts) == (since_ms + 2 * DAY_MS, 0), "the alert index"
    assert other is None, "another document has no shadow alerts"
    with pytest.raises(NotFound):
        scene.service.approval_figures(99)


def live_alert(scene: Scene, at_s: int, number: int, *, shadow: bool = False) -> None:
    scene.index(alert(scene.clock.now_ms // 1_000 + at_s + number, 1, shadow=shadow))


def test_the_present_rate_counts_since_the_rule_has_its_content(scene: Scene) -> None:
    scene.service.create(ANN, rule_input(ruleId=1))
    scene.service.change_state(ADA, 1, 1, StateName.ACTIVE)
    live_alert(scene, 10, 0)
    scene.clock.now_ms += DAY_MS
    scene.service.edit(ADA, 1, 2, rule_input(ruleId=1, limit=30))
    since_ms = scene.clock.now_ms
    for number in range(4):
        live_alert(scene, 10, number)
    live_alert(scene, 10, 4, shadow=True)
    scene.clock.now_ms += DAY_MS // 2
    scene.service.edit(ADA, 1, 3, rule_input(ruleId=1, limit=30, name="Mules"))
    scene.clock.now_ms += DAY_MS // 2
    asked = scene.another(four_eyes=True).edit(ANN, 1, 4, rule_input(ruleId=1, limit=3), comment=REASON).row.pending
    assert asked is not None
    _, shadow, present = scene.service.approval_figures(asked.id)
    assert shadow is None and present is not None
    assert (present.since_ms, present.alerts, present.alerts_per_day) == (since_ms, 4, 4), "a new name changes no alert"
    with scene.database.reading() as session:
        young = present_figures(session, 1, since_ms + 1_000, 30)
        old = present_figures(session, 1, since_ms + 20 * DAY_MS, 30)
        assert present_figures(session, 9, since_ms, 30) is None
    assert young is not None and young.alerts_per_day == 4 * 24, "an hour is the least time"
    assert old is not None and (old.since_ms, old.alerts) == (since_ms + 13 * DAY_MS, 0)


def test_a_rule_that_is_not_active_has_no_present_rate(scene: Scene) -> None:
    scene.service.create(ANN, rule_input(ruleId=1))
    scene.service.change_state(ANN, 1, 1, StateName.SHADOW)
    with scene.database.reading() as session:
        assert present_figures(session, 1, scene.clock.now_ms, 30) is None


def test_a_what_if_from_before_the_first_save_is_found(scene: Scene, tmp_path: Path) -> None:
    scene.service.create(ANN, rule_input(ruleId=1, limit=99))
    unsaved = rule_input()
    tried = scene.service.validate(unsaved).document
    assert tried is not None
    detail = scene.service.create(ANN, unsaved)
    rule_id = detail.row.rule_id
    assert rule_id == tried["ruleId"]
    folder = tmp_path / FOLDER / report_name(1_000, tried["ruleId"])
    folder.mkdir(parents=True)
    (folder / "result.json").write_bytes(
        b'{"rule": %b, "fires": 4}' % encode_document({**tried, "ruleState": "ACTIVE"})
    )
    detail = scene.service.change_state(ANN, rule_id, detail.row.revision, StateName.SHADOW)
    scene.another(four_eyes=True).change_state(ANN, rule_id, detail.row.revision, StateName.ACTIVE, comment=REASON)
    document, _, _ = scene.service.approval_figures(scene.service.approvals().items[0].id)
    found = saved_what_if(tmp_path, document)
    assert found is not None and found[1]["fires"] == 4


def test_the_newest_what_if_of_the_same_document_is_found(tmp_path: Path) -> None:
    document = {**RULE, "ruleId": 1}

    def save(at_ms: int, content: str) -> None:
        folder = tmp_path / FOLDER / report_name(at_ms, 1)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(content)

    save(1_000, json.dumps({"rule": {**document, "ruleState": "ACTIVE"}, "fires": 1}))
    save(2_000, json.dumps({"rule": {**document, "ruleState": "SHADOW", "limit": 20.0}, "fires": 2}))
    save(3_000, json.dumps({"rule": {**document, "limit": 21}, "fires": 3}))
    save(4_000, "{")
    (tmp_path / FOLDER / report_name(5_000, 1)).mkdir()
    assert saved_what_if(tmp_path, document) == (report_name(2_000, 1), {
        "rule": {**document, "ruleState": "SHADOW", "limit": 20}, "fires": 2,
    })  # fmt: skip
    assert saved_what_if(tmp_path, {**document, "limit": 22}) is None
    shown = {"name": "Mules", "description": "d", "severity": "high", "owner": "o", "weight": 5, "action": "RESTRICT"}
    renamed = saved_what_if(tmp_path, {**document, **shown})
    assert renamed is not None and renamed[1]["fires"] == 2, "the same alerts under another name"
    for members in ({"when": "payeeId > 1"}, {"cooldownSeconds": 60}, {"disabled": True}, {"windowMinutes": 5}):
        assert saved_what_if(tmp_path, {**document, **members}) is None, members
    assert saved_what_if(tmp_path / "no-archive", document) is None
