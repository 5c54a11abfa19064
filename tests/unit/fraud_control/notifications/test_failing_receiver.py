"""A real receiver that refuses notifications raises an alarm, and resolves it by accepting them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from fraud_control.domain.notification_models import Delivery, DeliveryState
from fraud_control.domain.read_models import AuditVerdict, OutboxState
from fraud_control.service.notifications.subscriptions import SubscriptionService
from fraud_control.store.leases import Leadership
from fraud_control.sync.drift import DriftReport
from fraud_control.sync.notifier import Notifier
from fraud_control.watch.store_watch import Checks, StoreWatch
from fraud_ops.delivery.connections import connection_in_environment
from fraud_ops.delivery.notifications import NotificationSender
from fraud_ops.notifications import ReceiverKind
from tests.support.control_plane.alarm_memory import AlarmMemory
from tests.support.control_plane.scene import ANN, Scene
from tests.support.receivers.servers import HttpReceiver
from tests.support.waiting import until

RECEIVERS = {"desk": ReceiverKind.WEBHOOK}
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
DAY_MS = 86_400_000


class Desk:
    """The receiver `desk` of a store, its sender, and the alarms about it."""

    def __init__(self, scene: Scene, answer: Callable[[str], None]) -> None:
        self.scene = scene
        self.answer = answer
        self.subscriptions: SubscriptionService = scene.another(receivers=RECEIVERS).subscriptions
        self.notifier = Notifier(
            scene.database, RECEIVERS, NotificationSender(connection_in_environment, "").send, scene.clock
        )
        self.raised = AlarmMemory()
        checks = Checks(
            lambda: OutboxState(0, None),
            lambda: DriftReport((), True, 9, 9, 0, None),
            lambda: AuditVerdict(whole=True, rows=0, broken_at=None, head=""),
            tuple,
            self.subscriptions.failing,
        )
        self.watch = StoreWatch(
            checks,
            "detector",
            self.raised,
            scene.clock,
            scene.clock,
            lambda: nullcontext(Leadership("watch", led=True)),
        )

    def newest(self) -> Delivery:
        return self.subscriptions.deliveries().items[0]

    def attempt(self) -> None:
        """Let the next attempt of the newest delivery be due, and wait for its end."""
        before = self.newest()
        self.scene.clock.now_ms = max(self.scene.clock.now_ms, before.due_ms)

        def ended() -> bool:
            self.notifier.step()
            return self.newest().attempts > before.attempts

        until(ended, "the attempt")

    def alarms(self) -> list[tuple[str, bool]]:
        """The alarms after the next checks."""
        before = len(self.raised.news)
        self.scene.clock.now_ms += 60_000
        self.watch.step()
        return self.raised.briefly(before)


@pytest.fixture
def desk(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HttpReceiver(tmp_path) as server:

        def answer(path: str) -> None:
            connection = {"conn_type": "http", "host": server.url + path, "password": SECRET}
            monkeypatch.setenv("AIRFLOW_CONN_FRAUD_NOTIFY_DESK", json.dumps(connection))

        answer("/status/503")
        found = Desk(scene, answer)
        yield found
        found.notifier.stop()


def test_a_receiver_that_refuses_raises_an_alarm_until_it_accepts(desk: Desk) -> None:
    desk.subscriptions.test(ANN, "desk")
    for _ in range(3):
        desk.attempt()
    assert desk.alarms() == [], "a short outage raises no alarm"
    desk.attempt()
    assert desk.alarms() == [("RECEIVER_FAILING", False)]
    assert desk.raised.news[-1].said == "receivers do not accept notifications: desk (the receiver answered 503)"
    assert "127.0.0.1" not in desk.raised.news[-1].said
    desk.answer("/ok")
    desk.attempt()
    assert desk.alarms() == [("RECEIVER_FAILING", True)]


def test_a_delivery_that_was_given_up_keeps_the_alarm_until_a_later_one_arrives(desk: Desk) -> None:
    desk.subscriptions.test(ANN, "desk")
    desk.scene.clock.now_ms += DAY_MS
    desk.attempt()
    assert desk.newest().state is DeliveryState.FAILED
    assert desk.alarms() == [("RECEIVER_FAILING", False)]
    assert desk.alarms() == []
    desk.answer("/ok")
    desk.subscriptions.test(ANN, "desk")
    desk.attempt()
    assert desk.alarms() == [("RECEIVER_FAILING", True)]
