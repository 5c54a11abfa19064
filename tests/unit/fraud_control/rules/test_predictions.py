"""Predictions of requests for approval: the interval, and the comparison with the alerts after the approval."""

from __future__ import annotations

from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.notification_models import SubscribedEvent, Terms
from fraud_control.domain.prediction import predicted
from fraud_control.service.rules.outcomes import outcome_of, predicted_rules
from fraud_control.service.rules.predictions import prediction_of
from fraud_control.store.notification_models import DeliveryRow, SubscriptionRow
from fraud_control.watch.prediction_watch import ALARM, PredictionWatch
from fraud_ops.alarms import Alarm
from fraud_ops.notifications import ReceiverKind
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.desk import Desk
from tests.support.control_plane.scene import ABE, ADA, ANN, PAT, REASON, Scene, rule_input

DAY_MS = 86_400_000
MIDNIGHT_MS = 1_700_006_400_000


@pytest.mark.parametrize("mean", [0.5, 2.0, 20.0, 300.0])
@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_the_interval_holds_on_80_to_99_of_100_days_of_a_stable_stream(mean: float, spread: float) -> None:
    """Counts of alerts are whole numbers, so for few alerts no interval has exactly 90%."""
    days = np.random.default_rng(7)

    def counts(n: int) -> list[int]:
        means = mean * days.gamma(1 / spread, spread, n) if spread else np.full(n, mean)
        return [int(each) for each in days.poisson(means)]

    inside = total = 0
    for _ in range(200):
        prediction = predicted("", counts(7))
        assert prediction is not None
        inside += sum(prediction.covers(each) for each in counts(30))
        total += 30
    assert 0.80 <= inside / total <= (0.98 if mean >= 2 else 0.995)


def test_a_prediction_needs_three_whole_days() -> None:
    result: dict[str, Any] = {
        "days": ["2023-11-01", "2023-11-02", "2023-11-03", "2023-11-04"],
        "hours": [hour // 24 for hour in range(96)],
        "coverage": {"whole": ["2023-11-02", "2023-11-03", "2023-11-04"]},
    }
    found = prediction_of("report", result)
    assert found is not None and (found.counts, found.per_day) == ([24, 48, 72], 48.0)
    assert found.low < 24 < 72 < found.high
    assert prediction_of("report", {**result, "coverage": {"whole": ["2023-11-02", "2023-11-03"]}}) is None
    assert prediction_of("report", {**result, "coverage": {}}) is None, "a report of an earlier release"
    assert prediction_of("report", {**result, "hours": ["many"] * 96}) is None, "a file that another program changed"


class Alarms:
    """The alarms that stand, by part, and the last message of each."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.open: set[str] = set()

    def report(self, alarm: Alarm, *, again: bool = False) -> None:
        assert alarm.name == ALARM and not again
        self.said[alarm.part] = alarm.said
        (self.open.discard if alarm.resolved else self.open.add)(alarm.part)

    def open_parts(self, name: str, *, silent_ms: int = 0) -> frozenset[str]:
        return frozenset(self.open)


def add_alerts(scene: Scene, day: int, count: int, *, first: int, **members: Any) -> None:
    """Index alerts of a day after the approval, at noon."""
    at_s = (MIDNIGHT_MS + day * DAY_MS + DAY_MS // 2) // 1_000
    scene.index(*(alert(at_s + first + number, 1, **members) for number in range(count)))


@pytest.fixture
def desk(scene: Scene) -> Desk:
    """A rule that is approved at the beginning of a day. Its what-if fires 10 times a day."""
    scene.clock.now_ms = MIDNIGHT_MS
    scene.service.create(ANN, rule_input(ruleId=1, name="Mules"))
    desk = scene.another(four_eyes=True)
    desk.change_state(ANN, 1, 1, StateName.SHADOW)
    desk.change_state(ANN, 1, 2, StateName.ACTIVE, comment=REASON)
    return desk


def watch_of(scene: Scene, alarms: Alarms, counts: list[int]) -> PredictionWatch:
    days = [f"2023-11-{number:02}" for number in range(1, len(counts) + 1)]
    hours = [count if hour == 0 else 0 for count in counts for hour in range(24)]
    coverage = {"whole": days, "coveredMs": len(days) * DAY_MS}
    result = {"days": days, "hours": hours, "coverage": coverage, "limits": [(Decimal("20.5"), 5 * len(days))]}
    return PredictionWatch(scene.store, lambda document: ("report-1", result), "d", alarms, nullcontext)


def outcome(scene: Scene) -> Any:
    with scene.database.reading() as session:
        return outcome_of(session, 1, scene.clock.now_ms)


def test_a_day_outside_of_the_prediction_raises_an_alarm_until_a_day_is_inside(scene: Scene, desk: Desk) -> None:
    alarms = Alarms()
    watch = watch_of(scene, alarms, [9, 10, 11, 10, 9, 11, 10])
    watch.step()
    assert outcome(scene) is None, "the request is not approved"
    desk.decide(PAT, desk.approvals().items[0].id, "", approve=True)
    add_alerts(scene, 0, 40, first=0)
    scene.clock.now_ms = MIDNIGHT_MS + DAY_MS + 1
    watch.step()
    assert alarms.open == {"rule 1"}
    assert "rule 1 (Mules) raised 40 alerts on 2023-11-15; the prediction was 7 to 14." in alarms.said["rule 1"]
    assert "ann wrote the rule, and pat approved it" in alarms.said["rule 1"]
    add_alerts(scene, 1, 12, first=100)
    add_alerts(scene, 1, 3, first=200, shadow=True)
    scene.clock.now_ms = MIDNIGHT_MS + 2 * DAY_MS
    watch.step()
    assert alarms.open == set()
    found = outcome(scene)
    prediction = found.prediction
    assert (prediction.low, prediction.high, prediction.per_day, found.approved_by) == (7, 14, 10.0, "pat")
    assert [(each.limit, each.per_day, each.low, each.high) for each in prediction.limits] == [("20.5", 5.0, 3, 8)]
    assert (found.previous_revision, found.shadow_per_day) == (None, 0.0)
    shown = [(each.day, each.alerts, each.shadow, each.whole, each.off) for each in found.days]
    assert shown == [
        ("2023-11-15", 40, 0, True, True),
        ("2023-11-16", 12, 3, True, False),
        ("2023-11-17", 0, 0, False, False),
    ]
    assert (found.before.alerts, found.after.alerts, found.after.repeated_keys) == (0, 52, 3)


def test_the_comparison_ends_with_another_content_and_after_30_days(scene: Scene, desk: Desk) -> None:
    watch = watch_of(scene, Alarms(), [10, 10, 10])
    watch.step()
    desk.decide(PAT, desk.approvals().items[0].id, "", approve=True)
    scene.clock.now_ms += 40 * DAY_MS
    assert outcome(scene) is None
    scene.clock.now_ms -= 35 * DAY_MS
    with scene.database.reading() as session:
        assert [(each.alerts, each.off) for each in predicted_rules(session, scene.clock.now_ms)] == [(0, True)]
    revision = desk.rule(1).row.revision
    desk.edit(ANN, 1, revision, rule_input(ruleId=1, name="Mules", limit=99), comment=REASON)
    desk.decide(PAT, desk.approvals().items[0].id, "", approve=True)
    found = outcome(scene)
    assert found.prediction is None, "the newest approval has no prediction yet"
    assert found.previous_revision == revision, "the content that was active before"
    with scene.database.reading() as session:
        assert predicted_rules(session, scene.clock.now_ms) == []


def test_the_marks_before_and_after_the_approval_are_counted_apart(scene: Scene, desk: Desk) -> None:
    watch_of(scene, Alarms(), [10, 10, 10]).step()
    desk.decide(PAT, desk.approvals().items[0].id, "", approve=True)
    add_alerts(scene, -1, 2, first=0)
    add_alerts(scene, 0, 3, first=50, triggeringEvent={"transactionId": 1, "paymentAmount": 12.5})
    at_s = (MIDNIGHT_MS + DAY_MS // 2) // 1_000 + 50
    scene.clock.now_ms += DAY_MS
    desk.mark(ANN, f"{at_s:08x}-0000-5000-8000-000000000000", 1, 3, "FRAUD")
    found = outcome(scene)
    assert (found.before.alerts, found.before.fraud, found.after.fraud) == (2, 0, 1)
    assert found.after.amount == "37.50"


def test_a_change_without_an_approval_shows_before_and_after_too(scene: Scene) -> None:
    scene.clock.now_ms = MIDNIGHT_MS - 2 * DAY_MS
    scene.service.create(ANN, rule_input(ruleId=1))
    scene.service.change_state(ANN, 1, 1, StateName.SHADOW)
    assert outcome(scene) is None, "a shadow rule is not live"
    add_alerts(scene, -2, 6, first=0, shadow=True)
    scene.clock.now_ms = MIDNIGHT_MS
    live = scene.service.change_state(ADA, 1, 2, StateName.ACTIVE).row.revision
    found = outcome(scene)
    assert (found.approved_by, found.prediction, found.previous_revision, found.shadow_per_day) == (
        None,
        None,
        None,
        3.0,
    )
    add_alerts(scene, 0, 4, first=0)
    scene.clock.now_ms += DAY_MS
    scene.service.edit(ADA, 1, live, rule_input(ruleId=1, limit=99))
    add_alerts(scene, 1, 1, first=0)
    scene.clock.now_ms += DAY_MS
    found = outcome(scene)
    assert (found.before.alerts, found.after.alerts, found.previous_revision) == (4, 1, live)
    assert [(each.alerts, each.off) for each in found.days] == [(1, False), (0, False)]
    assert found.shadow_per_day is None, "the present content was no shadow rule"
    restored = scene.service.rollback(ADA, 1, live + 1, found.previous_revision)
    assert restored.row.document["limit"] != 99
    scene.clock.now_ms += 40 * DAY_MS
    assert outcome(scene) is None


def test_the_author_and_the_approver_are_notified_once_of_each_departure(scene: Scene, desk: Desk) -> None:
    desk = scene.another(four_eyes=True, receivers={"desk": ReceiverKind.MAIL})
    for user in (ANN, PAT, ABE):
        desk.subscriptions.create(user, Terms(user.user, "desk", (SubscribedEvent.PREDICTION,)))
    desk.subscriptions.create(PAT, Terms("alerts only", "desk", (SubscribedEvent.ALERT,)))
    watch = watch_of(scene, Alarms(), [10, 10, 10])
    watch.step()
    desk.decide(PAT, desk.approvals().items[0].id, "", approve=True)
    add_alerts(scene, 0, 40, first=0)

    def deliveries() -> list[str]:
        with scene.database.reading() as session:
            rows = session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)).all()
            found = [(row, session.get(SubscriptionRow, row.subscription_id)) for row in rows]
        assert all(row.type == "prediction" and row.path.endswith("/rules/1?tab=outcome") for row, _ in found)
        assert all("raised 40 alerts" in row.text for row, _ in found)
        return [owner.author for _, owner in found if owner is not None]

    watch.step()
    assert deliveries() == [], "no day is whole yet"
    scene.clock.now_ms += DAY_MS
    for _ in range(2):
        watch.step()
        assert deliveries() == ["ann", "pat"]
    add_alerts(scene, 1, 10, first=100)
    scene.clock.now_ms += DAY_MS
    watch.step()
    assert deliveries() == ["ann", "pat"], "the next day is inside"
