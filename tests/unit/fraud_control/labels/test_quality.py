"""The quality of rules by labels: of each rule, of the rules that alert for the same payments, and by noise."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_control.domain.label_models import LabelQuality
from fraud_control.service.labels.payments import KEPT_DAYS
from fraud_control.service.reading.quality import NoisyRule, label_quality
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import ANN, Scene

DAY_MS = 86_400_000


def add(scene: Scene, rule_id: int, payment: int, *, amount: str = "10.00", **members: Any) -> str:
    """Index an alert of a rule about a payment, appended now."""
    number = scene.clock.now_ms // 1_000 - (100 * payment + rule_id)
    event = {"transactionId": payment, "paymentAmount": amount}
    return scene.index(alert(number, rule_id, triggeringEvent=event, **members))


def load(scene: Scene, *lines: str) -> None:
    scene.clock.now_ms += 1_000
    content = "\n".join(["transaction,label,time,source", *lines]) + "\n"
    scene.service.labels.upload(ANN, "late.csv", "csv", content)


def quality(scene: Scene) -> LabelQuality:
    with scene.database.reading() as session:
        return label_quality(session, scene.clock.now_ms)


def counts(found: LabelQuality) -> dict[int, tuple[int, int, int]]:
    return {each.rule_id: (each.payments, each.fraud, each.not_fraud) for each in found.rules}


def test_rules_and_their_combinations_have_precision_recall_amount_and_the_unlabelled_share(scene: Scene) -> None:
    for payment in (1, 2, 3, 4):
        add(scene, 7, payment, amount=f"{payment}.25")
    for payment in (3, 4, 5):
        add(scene, 8, payment, amount=f"{payment}.25")
    add(scene, 9, 5, shadow=True)
    load(scene, "1,NOT_FRAUD,,", "3,FRAUD,,chargeback", "5,FRAUD,,", "99,FRAUD,,", "98,NOT_FRAUD,,")
    found = quality(scene)
    assert found.frauds == 3, "one of them has no alert"
    assert counts(found) == {7: (4, 1, 1), 8: (3, 2, 0), 9: (1, 1, 0)}
    (seven,) = [each for each in found.rules if each.rule_id == 7]
    assert (seven.unlabelled, seven.precision, seven.recall) == (0.5, 0.5, 0.3333)
    assert (seven.amount, seven.fraud_amount) == ("11.00", "3.25")
    by_rules = {tuple(each.rule_ids): (each.payments, each.fraud, each.unlabelled) for each in found.combinations}
    assert by_rules == {(7,): (2, 0, 0.5), (7, 8): (2, 1, 0.5), (8,): (1, 1, 0.0)}, "without shadow alerts"
    pair = next(each for each in found.combinations if each.rule_ids == [7, 8])
    assert (pair.precision, pair.recall, pair.amount, pair.fraud_amount) == (1.0, 0.3333, "7.50", "3.25")


def test_without_labels_all_are_unlabelled_and_nothing_has_a_precision(scene: Scene) -> None:
    add(scene, 7, 1)
    (found,) = quality(scene).rules
    assert (found.unlabelled, found.precision, found.recall, found.fraud_amount) == (1.0, None, None, None)
    assert quality(scene).frauds == 0


def test_a_chargeback_finds_alerts_that_left_the_alert_index_weeks_ago(scene: Scene) -> None:
    known = add(scene, 7, 1)
    scene.clock.now_ms += 60 * DAY_MS
    scene.prune(scene.clock.now_ms - 30 * DAY_MS)
    load(scene, "1,FRAUD,,chargeback")
    assert counts(quality(scene)) == {7: (1, 1, 0)}
    result = scene.service.labels.upload(ANN, "x.csv", "csv", f"alertId,label\n{known},NOT_FRAUD\n")
    assert result.not_fraud == 1, "also by the id of the alert"
    scene.clock.now_ms += KEPT_DAYS * DAY_MS
    scene.prune(scene.clock.now_ms)
    assert scene.service.labels.upload(ANN, "x.csv", "csv", f"alertId,label\n{known},FRAUD\n").fraud == 0


def test_marks_count_like_labels_and_the_newer_one_decides(scene: Scene) -> None:
    ids = [add(scene, 7, payment) for payment in (1, 2)]
    load(scene, "1,FRAUD,,")
    scene.clock.now_ms += 1_000
    for alert_id in ids:
        scene.service.mark(ANN, alert_id, 7, 3, "NOT_FRAUD")
    assert counts(quality(scene)) == {7: (2, 0, 2)}
    load(scene, "2,FRAUD,,")
    assert counts(quality(scene)) == {7: (2, 1, 1)}


def test_a_retracted_alert_does_not_count(scene: Scene) -> None:
    known = add(scene, 7, 1)
    add(scene, 7, 2)
    scene.correct(known, "RETRACTED")
    assert counts(quality(scene)) == {7: (1, 0, 0)}
    scene.correct(known, "ADDED")
    assert counts(quality(scene)) == {7: (2, 0, 0)}


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (NoisyRule(9, 0, 0, 10.0), 5.0),
        (NoisyRule(99, 9, 1, 10.0), 1.67),
        (NoisyRule(9, 0, 8, 10.0), 9.0),
        (NoisyRule(9, 0, 8, 1.0), 0.9),
        (NoisyRule(9, 3, 5, 0.0), 0.0),
    ],
)
def test_the_noise_of_a_rule_is_its_expected_false_alerts_a_day(noise: NoisyRule, expected: float) -> None:
    assert noise.false_alerts_per_day == expected


def test_rules_with_the_least_precision_for_their_noise_come_first(scene: Scene) -> None:
    for payment in range(1, 21):
        add(scene, 7, payment)
    for payment in range(1, 6):
        add(scene, 8, payment)
        add(scene, 9, payment, shadow=True)
    assert [each.rule_id for each in quality(scene).rules] == [7, 8, 9], "without labels, the most alerts"
    load(scene, *(f"{payment},FRAUD,," for payment in range(1, 21)))
    found = quality(scene).rules
    assert [(each.rule_id, each.alerts_per_day) for each in found] == [(7, 20.0), (8, 5.0), (9, 0.0)]
    assert [each.false_alerts_per_day for each in found] == [0.91, 0.71, 0.0]
    load(scene, *(f"{payment},NOT_FRAUD,," for payment in range(1, 6)))
    assert [each.rule_id for each in quality(scene).rules] == [7, 8, 9]
    load(scene, *(f"{payment},FRAUD,," for payment in range(1, 3)))
    scene.clock.now_ms += 7 * DAY_MS
    assert [each.false_alerts_per_day for each in quality(scene).rules] == [0.0, 0.0, 0.0], "silent for a week"
