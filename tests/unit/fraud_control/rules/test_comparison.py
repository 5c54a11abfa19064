"""The alerts of two rules by payment: of both, of one only, with the verdicts of marks and labels."""

from __future__ import annotations

import pytest

from fraud_control.domain.errors import NotFound
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleComparison
from fraud_control.service.alerts.index import AlertIndex
from fraud_control.service.rules.comparison import compare
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import ADA, ANN, SCHEMA, Scene, rule_input


def compared(scene: Scene, rule_id: int = 2, other: int = 1) -> RuleComparison | None:
    with scene.database.reading() as session:
        return compare(session, rule_id, other, scene.clock.now_ms, 30)


def add(scene: Scene, number: int, rule_id: int, payment: int, *, shadow: bool = False) -> str:
    """Index an alert about a payment, `number` seconds after the scene's clock."""
    found = alert(
        scene.clock.now_ms // 1_000 + number, rule_id, shadow=shadow, triggeringEvent={"transactionId": payment}
    )
    with scene.database.writing() as session:
        AlertIndex(SCHEMA).add(session, [found])
    return found.facts.alert_id


def test_payments_count_once_with_the_verdict_of_any_of_their_alerts(scene: Scene) -> None:
    scene.service.create(ANN, rule_input(ruleId=1))
    scene.service.change_state(ADA, 1, 1, StateName.SHADOW)
    scene.service.change_state(ADA, 1, 2, StateName.ACTIVE)
    scene.service.create(ANN, rule_input(ruleId=2, limit=30))
    assert compared(scene) is None, "a draft does not alert"
    scene.service.change_state(ANN, 2, 1, StateName.SHADOW)
    fraud = add(scene, 1, 1, 7)
    add(scene, 2, 2, 7, shadow=True)
    add(scene, 3, 2, 7, shadow=True)
    clean = add(scene, 4, 1, 8)
    add(scene, 5, 1, 9)
    add(scene, 6, 2, 10, shadow=True)
    add(scene, 7, 3, 11)
    for alert_id, verdict in ((fraud, "FRAUD"), (clean, "NOT_FRAUD")):
        scene.service.mark(ANN, alert_id, 1, 3, verdict)
    found = compared(scene)
    assert found is not None
    assert found.both.model_dump() == {"payments": 1, "fraud": 1, "not_fraud": 0}
    assert found.only_this.model_dump() == {"payments": 1, "fraud": 0, "not_fraud": 0}
    assert found.only_other.model_dump() == {"payments": 2, "fraud": 0, "not_fraud": 1}


def test_alerts_of_earlier_content_do_not_count(scene: Scene) -> None:
    for rule_id in (1, 2):
        scene.service.create(ANN, rule_input(ruleId=rule_id))
        scene.service.change_state(ANN, rule_id, 1, StateName.SHADOW)
    add(scene, 1, 1, 7, shadow=True)
    scene.clock.now_ms += 60_000
    scene.service.edit(ANN, 2, 2, rule_input(ruleId=2, limit=30))
    add(scene, 1, 2, 8, shadow=True)
    found = compared(scene)
    assert found is not None and (found.only_other.payments, found.only_this.payments) == (0, 1)
    assert found.since_ms == scene.clock.now_ms
    with pytest.raises(NotFound):
        compared(scene, other=9)
