"""Subscriptions: their validation, their permissions, and their rows in the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_control.domain.errors import Invalid, NotFound, RequestRefused
from fraud_control.domain.notification_models import DeliveryState, SubscribedEvent, Terms
from fraud_control.service.notifications.outbox import SendAttempt, record_attempt
from fraud_control.service.notifications.subscriptions import SubscriptionService
from fraud_control.settings import ControlPlaneSettings
from fraud_ops.notifications import ReceiverKind
from fraud_rules.errors import ConfigError
from tests.support.control_plane.scene import ABE, ADA, ANN, VIC, Scene

TERMS = Terms("Team", "desk", (SubscribedEvent.ALERT,))
DAY_MS = 86_400_000


@pytest.fixture
def subscriptions(scene: Scene) -> SubscriptionService:
    return scene.another(receivers={"desk": ReceiverKind.WEBHOOK}).subscriptions


@pytest.mark.parametrize(
    ("member", "terms"),
    [
        ("name", {"name": "two\nlines"}),
        ("receiver", {"receiver": "fraud_kafka"}),
        ("events", {"events": ()}),
        ("owners", {"owners": ("",)}),
        ("timeZone", {"time_zone": "Mars/Olympus"}),
        ("timeZone", {"time_zone": "../../etc/passwd"}),
        ("quietFrom", {"quiet_from": "22:00"}),
        ("quietFrom", {"quiet_from": "22:00", "quiet_until": "22:00"}),
        ("digestAt", {"events": (SubscribedEvent.DIGEST,), "digest_at": "24:00"}),
    ],
)
def test_invalid_terms_are_named(subscriptions: SubscriptionService, member: str, terms: dict[str, Any]) -> None:
    fields = {name: getattr(TERMS, name) for name in TERMS.__struct_fields__}
    with pytest.raises(Invalid) as caught:
        subscriptions.create(ANN, Terms(**(fields | terms)))
    assert [reason.field for reason in caught.value.reasons] == [member]


def test_only_the_author_and_admins_change_a_subscription(scene: Scene, subscriptions: SubscriptionService) -> None:
    with pytest.raises(RequestRefused):
        subscriptions.create(VIC, TERMS)
    created = subscriptions.create(ANN, TERMS)
    for change in (lambda: subscriptions.edit(ABE, created.id, TERMS), lambda: subscriptions.remove(ABE, created.id)):
        with pytest.raises(RequestRefused):
            change()
    edited = subscriptions.edit(ANN, created.id, replace_terms(rule_ids=(3,)))
    assert edited.rule_ids == [3]
    subscriptions.remove(ADA, created.id)
    assert subscriptions.all() == []
    rows = [(row.who, row.action, row.subject) for row in scene.service.audit_rows().items]
    actions = [("ada", "delete"), ("ann", "edit"), ("ann", "create")]
    assert rows == [(user, f"subscription.{action}", f"subscription {created.id}") for user, action in actions]
    with pytest.raises(NotFound):
        subscriptions.remove(ADA, created.id)


def replace_terms(**changes: Any) -> Terms:
    return Terms(**({name: getattr(TERMS, name) for name in TERMS.__struct_fields__} | changes))


def test_a_failed_delivery_is_retried_by_request(scene: Scene, subscriptions: SubscriptionService) -> None:
    with pytest.raises(RequestRefused):
        subscriptions.test(VIC, "desk")
    with pytest.raises(NotFound):
        subscriptions.test(ANN, "another")
    sent = subscriptions.test(ANN, "desk")
    scene.clock.now_ms += DAY_MS
    with scene.database.writing() as session:
        record_attempt(session, SendAttempt(sent.id, "the receiver answered 500"), scene.clock.now_ms)
    (failed,) = subscriptions.deliveries(states=frozenset({DeliveryState.FAILED})).items
    assert (failed.attempts, failed.fault) == (1, "the receiver answered 500")
    (receiver,) = subscriptions.receivers(lambda receiver: True)
    assert (receiver.waiting, receiver.failed, receiver.connection) == (0, 1, "fraud_notify_desk")
    assert subscriptions.retry_failed(ANN) == 1
    again = subscriptions.retry(ANN, sent.id)
    assert (again.state, again.due_ms) == (DeliveryState.WAITING, scene.clock.now_ms)
    with scene.database.writing() as session:
        record_attempt(session, SendAttempt(sent.id, None), scene.clock.now_ms)
    with pytest.raises(RequestRefused, match="has been delivered"):
        subscriptions.retry(ANN, sent.id)
    actions = [row.action for row in scene.service.audit_rows().items]
    assert actions == ["delivery.retry", "delivery.retry", "receiver.test"]


def test_deliveries_come_page_by_page(subscriptions: SubscriptionService) -> None:
    ids = [subscriptions.test(ANN, "desk").id for _ in range(5)]
    page = subscriptions.deliveries(limit=3)
    rest = subscriptions.deliveries(limit=3, before=int(page.next or 0))
    assert [each.id for each in (*page.items, *rest.items)] == ids[::-1]
    assert rest.next is None


def test_removing_a_subscription_keeps_deliveries_of_others(scene: Scene, subscriptions: SubscriptionService) -> None:
    created = subscriptions.create(ANN, TERMS)
    subscriptions.test(ANN, "desk")
    subscriptions.remove(ANN, created.id)
    assert len(subscriptions.deliveries().items) == 1


@pytest.mark.parametrize(
    ("receivers", "fault"),
    [
        ({"desk": "pager"}, "receivers.desk must be one of webhook, mail, slack"),
        ({"Desk!": "webhook"}, "lower-case letters"),
        (["desk"], "receivers must map"),
    ],
)
def test_wrong_receivers_in_the_settings_are_named(scene: Scene, receivers: object, fault: str) -> None:
    assert scene.database.file is not None
    with pytest.raises(ConfigError, match=fault):
        ControlPlaneSettings.parse({"receivers": receivers}, scene.database.file.parent, {})
