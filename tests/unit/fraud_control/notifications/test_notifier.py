"""The notifier sends each delivery until its receiver accepts it, from one process at a time, to all receivers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fraud_control.domain.notification_models import Delivery, DeliveryState
from fraud_control.service.notifications.subscriptions import SubscriptionService
from fraud_control.sync.notifier import Notifier, Send
from fraud_ops.notifications import Message, Receiver, ReceiverKind
from tests.support.control_plane.scene import ANN, Scene
from tests.support.waiting import until

RECEIVERS = {"desk": ReceiverKind.WEBHOOK, "chat": ReceiverKind.SLACK}


@pytest.fixture
def subscriptions(scene: Scene) -> SubscriptionService:
    return scene.another(receivers=RECEIVERS).subscriptions


@contextmanager
def notifying(scene: Scene, send: Send) -> Iterator[Notifier]:
    notifier = Notifier(scene.database, RECEIVERS, send, scene.clock)
    notifier.start()
    try:
        yield notifier
    finally:
        notifier.stop()


def is_delivered(subscriptions: SubscriptionService, delivery: Delivery) -> bool:
    (found,) = [each for each in subscriptions.deliveries().items if each.id == delivery.id]
    return found.state is DeliveryState.DELIVERED


def await_delivery(subscriptions: SubscriptionService, delivery: Delivery) -> None:
    until(lambda: is_delivered(subscriptions, delivery), f"delivery {delivery.id}")


def test_a_hanging_receiver_delays_no_other(scene: Scene, subscriptions: SubscriptionService) -> None:
    released = threading.Event()

    def send(receiver: Receiver, message: Message) -> str | None:
        if receiver.name == "desk":
            released.wait(180)
        return None

    hanging = [subscriptions.test(ANN, "desk") for _ in range(3)]
    with notifying(scene, send):
        await_delivery(subscriptions, subscriptions.test(ANN, "chat"))
        assert not is_delivered(subscriptions, hanging[0])
        released.set()
        for each in hanging:
            await_delivery(subscriptions, each)


def test_a_failed_delivery_is_repeated_with_the_same_id_when_it_is_due(
    scene: Scene, subscriptions: SubscriptionService
) -> None:
    sent: list[str] = []

    def send(receiver: Receiver, message: Message) -> str | None:
        sent.append(message.message_id)
        return "the receiver answered 503" if len(sent) == 1 else None

    delivery = subscriptions.test(ANN, "desk")
    with notifying(scene, send) as notifier:
        until(lambda: subscriptions.deliveries().items[0].attempts == 1, "an attempt")
        (waiting,) = subscriptions.deliveries().items
        assert (waiting.state, waiting.fault) == (DeliveryState.WAITING, "the receiver answered 503")
        assert len(sent) == 1
        scene.clock.now_ms = waiting.due_ms
        await_delivery(subscriptions, delivery)
        assert notifier.fault is None
    assert len(sent) == 2
    assert len(set(sent)) == 1


def test_one_process_sends_and_another_takes_over(scene: Scene, subscriptions: SubscriptionService) -> None:
    senders: list[str] = []

    def sender(name: str) -> Send:
        def send(receiver: Receiver, message: Message) -> str | None:
            senders.append(name)
            return None

        return send

    with notifying(scene, sender("first")):
        await_delivery(subscriptions, subscriptions.test(ANN, "desk"))
        with notifying(scene, sender("second")) as second:
            await_delivery(subscriptions, subscriptions.test(ANN, "desk"))
            assert second.fault is None
            assert senders == ["first", "first"]
    with notifying(scene, sender("second")):
        await_delivery(subscriptions, subscriptions.test(ANN, "desk"))
    assert senders == ["first", "first", "second"]


def test_a_receiver_that_left_the_settings_is_named(scene: Scene, subscriptions: SubscriptionService) -> None:
    subscriptions.test(ANN, "desk")
    notifier = Notifier(scene.database, {}, lambda receiver, message: None, scene.clock)
    notifier.start()
    fault = "the settings no longer have this receiver"
    until(lambda: subscriptions.deliveries().items[0].fault == fault, "the fault")
    notifier.stop()
