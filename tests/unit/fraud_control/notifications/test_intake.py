"""The outbox of notifications gets each event that a subscription selects, and summaries instead of floods."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.notification_models import SubscribedEvent, Subscription, Terms
from fraud_control.domain.roles import Role
from fraud_control.feed.events import FeedAlert
from fraud_control.feed.place import FeedSource
from fraud_control.service.notifications.digest import add_digests, read_digests
from fraud_control.service.notifications.intake import AlertNotifications, notify_approvals
from fraud_control.service.notifications.outbox import SendAttempt, prune, record_attempt
from fraud_control.store.notification_models import DeliveryRow
from fraud_ops.notifications import ReceiverKind
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import ABE, ADA, ANN, PAT, REASON, Scene, rule_input

ALERT, APPROVAL, DIGEST, *_ = SubscribedEvent
RULE = {"ruleId": 1, "name": "Rapid", "severity": "HIGH", "owner": "cards", "limit": 20, "limitOperatorType": ">"}
DAY_MS = 86_400_000
PER_MINUTE = 3


@pytest.fixture
def desk(scene: Scene) -> Scene:
    """A scene with the receiver `desk` at 12:00 UTC."""
    scene.clock.now_ms = 1_767_268_800_000 - 1_767_268_800_000 % DAY_MS + DAY_MS // 2
    scene.settings = replace(scene.settings, receivers={"desk": ReceiverKind.WEBHOOK})
    scene.service = scene.another()
    return scene


def subscribe(scene: Scene, *events: SubscribedEvent, **terms: Any) -> Subscription:
    return scene.service.subscriptions.create(ANN, Terms("Team", "desk", events or (ALERT,), **terms))


def fired(scene: Scene, number: int, rule: dict[str, Any] | None = None, **members: Any) -> FeedAlert:
    """An alert that arrives now."""
    document = RULE if rule is None else rule
    found = alert(number, document.get("ruleId", 1), violatedRule=document, **members)
    return replace(found, append_ms=scene.clock.now_ms)


def arrive(scene: Scene, alerts: Sequence[FeedAlert]) -> None:
    with scene.database.writing() as session:
        AlertNotifications(PER_MINUTE).add(session, alerts, scene.clock.now_ms)


def outbox(scene: Scene) -> Sequence[DeliveryRow]:
    with scene.database.reading() as session:
        return session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)).all()


def test_an_alert_has_its_rule_its_value_and_a_page(desk: Scene) -> None:
    subscribe(desk)
    arrive(desk, [fired(desk, 5)])
    (row,) = outbox(desk)
    assert row.title == "[fraud] HIGH: Rapid (rule 1), payeeId 2"
    assert row.text.splitlines()[0] == "payeeId 2: 21.5 (limit > 20)"
    data = json.loads(row.data)
    assert row.path == f"/fraud/control/alerts?ruleId=1&text=5&alert={data['alertId']}"
    assert data["triggeringValue"] == "21.5"
    assert row.due_ms == desk.clock.now_ms


def test_a_rule_with_conditions_only_shows_how_many_of_them_hold(desk: Scene) -> None:
    subscribe(desk)
    rule = {"ruleId": 1, "name": "Two signals", "conditions": [{"ruleId": 2}, {"ruleId": 3}, {"ruleId": 4}]}
    arrive(desk, [fired(desk, 5, rule, triggeringValue="2")])
    (row,) = outbox(desk)
    assert row.text.splitlines()[0] == "payeeId 2: 2 of 3 conditions hold"


def test_the_numbers_of_a_text_have_grouped_digits(desk: Scene) -> None:
    subscribe(desk)
    arrive(desk, [fired(desk, 5, {**RULE, "limit": 20000}, triggeringValue="27114.6")])
    (row,) = outbox(desk)
    assert row.text.splitlines()[0] == "payeeId 2: 27,114.6 (limit > 20,000)"
    assert json.loads(row.data)["triggeringValue"] == "27114.6"


@pytest.mark.parametrize(
    ("terms", "is_selected"),
    [
        ({"severities": ("high",)}, True),
        ({"severities": ("critical", "low")}, False),
        ({"severities": ("other",)}, False),
        ({"rule_ids": (1, 7)}, True),
        ({"rule_ids": (7,)}, False),
        ({"owners": ("cards",)}, True),
        ({"owners": ("accounts",)}, False),
        ({"severities": ("high",), "owners": ("accounts",)}, False),
    ],
)
def test_filters_all_apply(desk: Scene, terms: dict[str, Any], *, is_selected: bool) -> None:
    subscribe(desk, **terms)
    arrive(desk, [fired(desk, 5)])
    assert len(outbox(desk)) == int(is_selected)


def test_shadow_alerts_snoozed_alerts_and_older_alerts_send_nothing(desk: Scene) -> None:
    desk.service.create(ANN, rule_input(ruleId=1))
    old = fired(desk, 1)
    desk.clock.now_ms += 1
    subscribe(desk)
    desk.service.snooze(ANN, 1, {"payeeId": 2}, desk.clock.now_ms + 60_000, "")
    shadow = replace(fired(desk, 3), source=FeedSource.SHADOW)
    arrive(desk, [old, shadow, fired(desk, 4, shadow=True), fired(desk, 5)])
    assert outbox(desk) == []
    arrive(desk, [fired(desk, 6)])  # another key
    assert len(outbox(desk)) == 1


def test_a_flood_becomes_one_summary_per_minute(desk: Scene) -> None:
    subscribe(desk)
    other = {**RULE, "ruleId": 2, "name": "Mules"}
    arrive(desk, [fired(desk, n) for n in range(2)])
    arrive(desk, [fired(desk, n) for n in range(2, 6)])
    arrive(desk, [fired(desk, 6, other)])
    *single, summary = outbox(desk)
    assert [each.type for each in single] == ["alert"] * PER_MINUTE
    assert (summary.type, summary.title) == ("summary", "[fraud] 4 more alerts")
    assert summary.due_ms == desk.clock.now_ms + 60_000
    counts = {each["ruleId"]: each["count"] for each in json.loads(summary.data)["rules"]}
    assert counts == {1: 3, 2: 1}
    desk.clock.now_ms += 60_000
    arrive(desk, [fired(desk, n) for n in range(10, 14)])
    assert [each.type for each in outbox(desk)[4:]] == ["alert"] * PER_MINUTE + ["summary"]


def test_quiet_hours_end_with_one_summary(desk: Scene) -> None:
    subscribe(desk, quiet_from="11:30", quiet_until="14:00", time_zone="Europe/London")
    for number in range(5):
        arrive(desk, [fired(desk, number)])
        desk.clock.now_ms += 60_000
    (row,) = outbox(desk)
    assert row.title == "[fraud] 5 more alerts"
    assert row.due_ms % DAY_MS == 14 * 3_600_000


def test_a_rule_that_is_no_object_and_a_title_with_line_breaks_do_no_harm(desk: Scene) -> None:
    subscribe(desk)
    forged = {**RULE, "name": "Rapid\r\nBcc: eve@example\u2028x" + "y" * 500}
    arrive(desk, [replace(alert(1, violatedRule=[1]), append_ms=desk.clock.now_ms), fired(desk, 2, forged)])
    plain, cut = outbox(desk)
    assert plain.title == "[fraud] ALERT: rule 1, payeeId 1"
    assert len(cut.title) <= 200
    assert cut.title.isprintable()


def test_a_request_for_approval_is_notified_once(desk: Scene) -> None:
    service = desk.service = desk.another(four_eyes=True)
    subscribe(desk, APPROVAL, owners=("cards",))
    service.create(ANN, rule_input(ruleId=1, name="Rapid", owner="cards"))
    service.create(ANN, rule_input(ruleId=2, owner="accounts"))
    for rule_id in (1, 2):
        shadow = service.change_state(ANN, rule_id, 1, StateName.SHADOW)
        service.change_state(ANN, rule_id, shadow.row.revision, StateName.ACTIVE, "please")
    for _ in range(2):
        with desk.database.writing() as session:
            notify_approvals(session, desk.clock.now_ms)
    (row,) = outbox(desk)
    assert row.title == "[fraud] Approval requested: Rapid (rule 1)"
    assert "ann requests" in row.text
    assert row.text.endswith("please")
    assert json.loads(row.data)["ruleId"] == 1


def test_a_snooze_of_an_active_rule_is_announced_to_the_approvers(desk: Scene) -> None:
    subscribe(desk, APPROVAL, owners=("cards",))
    desk.service.create(ANN, rule_input(ruleId=1, name="Rapid", owner="cards"))
    shadow = desk.service.change_state(ANN, 1, 1, StateName.SHADOW)
    until_ms = desk.clock.now_ms + 60_000
    desk.service.snooze(ANN, 1, {"payeeId": 7}, until_ms, "known")
    assert outbox(desk) == [], "a shadow rule holds no payments"
    desk.service.change_state(PAT, 1, shadow.row.revision, StateName.ACTIVE)
    for _ in range(2):
        desk.service.snooze(ANN, 1, {"payeeId": 8}, until_ms, "a test customer")
    (row,) = outbox(desk)
    assert (row.type, row.title) == ("snooze", "[fraud] Snoozed: Rapid (rule 1)")
    assert row.text.splitlines() == ["ann snoozes payeeId •••• until 2026-01-01 12:01:00 UTC", "a test customer"]


def test_a_decided_request_is_not_notified(desk: Scene) -> None:
    service = desk.service = desk.another(four_eyes=True)
    subscribe(desk, APPROVAL)
    service.create(ANN, rule_input(ruleId=1))
    shadow = service.change_state(ANN, 1, 1, StateName.SHADOW)
    pending = service.change_state(ANN, 1, shadow.row.revision, StateName.ACTIVE, comment=REASON).row.pending
    assert pending is not None
    service.decide(PAT, pending.id, approve=False)
    with desk.database.writing() as session:
        notify_approvals(session, desk.clock.now_ms)
    assert outbox(desk) == []


def test_the_digest_comes_once_a_day_and_once_after_an_outage(desk: Scene) -> None:
    subscribe(desk, DIGEST, digest_at="13:00", time_zone="UTC", severities=("high",))
    alerts = [fired(desk, n) for n in range(4)] + [fired(desk, 9, {**RULE, "ruleId": 3, "severity": "low"})]
    desk.index(*alerts)
    desk.service.mark(ANN, alerts[0].facts.alert_id, 1, 3, "FRAUD")
    for hours in (0.5, 0.5, 0.1, 72, 0.1):
        desk.clock.now_ms += int(hours * 3_600_000)
        with desk.database.writing() as session:
            add_digests(session, read_digests(session, desk.clock.now_ms), desk.clock.now_ms)
    first, second = outbox(desk)
    assert first.title == "[fraud] Daily digest: 4 alerts"
    assert "4 alerts, 3 unreviewed; 0 open approvals" in first.text
    assert second.title == "[fraud] Daily digest: 0 alerts"


def test_a_failed_attempt_is_repeated_after_growing_pauses_and_fails_after_a_day(desk: Scene) -> None:
    subscribe(desk)
    arrive(desk, [fired(desk, 5)])
    pauses = []
    (row,) = outbox(desk)
    while row.state == "WAITING":
        desk.clock.now_ms = row.due_ms
        with desk.database.writing() as session:
            record_attempt(session, SendAttempt(row.id, "the receiver answered 500"), desk.clock.now_ms)
        (row,) = outbox(desk)
        pauses.append((row.due_ms - desk.clock.now_ms) // 1_000)
    assert pauses[:9] == [5, 10, 20, 40, 80, 160, 320, 640, 900]
    assert row.state == "FAILED"
    assert row.ended_ms is not None
    assert DAY_MS <= row.ended_ms - row.created_ms < DAY_MS + 900_000
    with desk.database.writing() as session:
        assert prune(session, desk.clock.now_ms + 31 * DAY_MS) == 1


def test_a_repeated_attempt_waits_for_the_end_of_quiet_hours(desk: Scene) -> None:
    subscribe(desk, quiet_from="12:01", quiet_until="13:00")
    arrive(desk, [fired(desk, 5)])
    (row,) = outbox(desk)
    with desk.database.writing() as session:
        record_attempt(session, SendAttempt(row.id, "the receiver answered 500"), desk.clock.now_ms + 58_000)
    (row,) = outbox(desk)
    assert row.due_ms % DAY_MS == 13 * 3_600_000


def test_a_hand_over_reaches_the_user_who_gets_the_case(desk: Scene) -> None:
    for user in (ANN, ABE):
        desk.service.subscriptions.create(user, Terms("My cases", "desk", (SubscribedEvent.HANDOVER,)))
    desk.service.bind(ADA, "ada", Role.ADMIN)
    desk.service.bind(ADA, "abe", Role.ANALYST)
    desk.service.bind(ADA, "ann", Role.ANALYST)
    desk.index(fired(desk, 5, key={"payeeId": 47110815}))
    desk.service.cases.assign(ANN, 1, 1, "abe", "call at nine")
    desk.service.cases.assign(ANN, 1, 2, "ann")
    (row,) = outbox(desk)
    assert row.title == "[fraud] HIGH: case 1, payeeId ••••0815"
    assert row.text == "ann hands the case over to abe\ncall at nine"
    assert row.path == "/fraud/control/cases/1"
