"""The alerts of two rules by payment: of both, of one only, with the verdicts of marks and labels."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_control.domain.errors import NotFound
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleComparison
from fraud_control.service.rules.comparison import compare
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.expressions.rollout import share_of
from fraud_rules.replay.replay import replay
from tests.support.conformance import load_schema
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import ADA, ANN, Scene, rule_input
from tests.support.records.payments import sample_payment
from tests.support.rules import sum_rule


def compared(scene: Scene, rule_id: int = 2, other: int = 1) -> RuleComparison | None:
    with scene.database.reading() as session:
        return compare(session, rule_id, other, scene.clock.now_ms, 30)


def add(scene: Scene, number: int, rule_id: int, payment: int, *, shadow: bool = False, **members: Any) -> str:
    """Index an alert about a payment, `number` seconds after the scene's clock."""
    event = {"transactionId": payment}
    at_s = scene.clock.now_ms // 1_000 + number
    return scene.index(alert(at_s, rule_id, shadow=shadow, triggeringEvent=event, **members))


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


def test_rules_in_a_rollout_are_compared_over_the_keys_that_both_evaluate(scene: Scene) -> None:
    rollouts = {1: 20, 2: 50}
    for rule_id, percent in rollouts.items():
        document = rule_input(ruleId=rule_id, groupingKeyNames=["payeeId"], rolloutPercent=percent)
        scene.service.create(ANN, document)
        scene.service.change_state(ANN, rule_id, 1, StateName.SHADOW)
    evaluated = {
        rule_id: [payee for payee in range(100) if share_of(rule_id, [str(payee)]) < percent]
        for rule_id, percent in rollouts.items()
    }
    for rule_id, payees in evaluated.items():
        for payee in payees:
            add(scene, 200 * payee + rule_id, rule_id, payee, shadow=True, key={"payeeId": payee})
    found = compared(scene)
    common = set(evaluated[1]) & set(evaluated[2])
    assert found is not None and 0 < len(common) < len(evaluated[1])
    assert (found.both.payments, found.only_this.payments, found.only_other.payments) == (len(common), 0, 0)


def test_a_promoted_rule_keeps_the_cool_downs_of_its_alerts() -> None:
    """The engine, with the content of rule 2 for rule 1: an edit, as the page sends it."""
    live = sum_rule(1, limit=100, windowMinutes=60, cooldownSeconds=600)
    challenger = sum_rule(2, limit=50, windowMinutes=30, cooldownSeconds=600, ruleState="SHADOW")
    promoted = {**challenger, "ruleId": 1, "ruleState": "ACTIVE"}
    start_ms, minute_ms = 1_700_000_000_000, 60_000

    def payment(number: int, minute: int) -> dict[str, Any]:
        at_ms = start_ms + minute * minute_ms
        return {"at": at_ms, "tx": sample_payment(number, at_ms, payeeId=7, paymentAmount="60.00")}

    steps = [
        {"at": start_ms, "rule": live},
        {"at": start_ms, "rule": challenger},
        payment(1, 1),
        payment(2, 2),  # 120: the live rule alerts
        {"at": start_ms + 3 * minute_ms, "rule": promoted},
        payment(3, 5),  # in the cool-down of the live rule's alert
        payment(4, 13),
    ]
    found = replay({"steps": steps, "keyGroups": 1}, load_schema("default"), DetectorSettings())
    alerts = [
        (each["ruleVersion"], each["transactionId"], each["suppressed"])
        for each in found["alerts"]
        if each["ruleId"] == 1
    ]
    assert alerts == [(0, 2, 0), (2, 4, 1)]
