"""Notifications arrive at least once, also if the receiver or the process that sends them dies."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from fraud_control.domain.notification_models import DeliveryState
from fraud_ops.notifications import ReceiverKind
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.scene import ANN, Scene
from tests.support.places import ROOT
from tests.support.ports import free_ports
from tests.support.receivers.servers import HttpReceiver
from tests.support.waiting import until

pytestmark = pytest.mark.integration

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@contextmanager
def notifier(scene: Scene, url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that sends, with its connection in the environment. The end of the block kills it."""
    connection = json.dumps({"conn_type": "http", "host": url, "password": SECRET})
    own = {
        "AIRFLOW_CONN_FRAUD_NOTIFY_DESK": connection,
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("plugins", "spark_jobs")),
    }
    program = ROOT / "tests/support/receivers/notifier_process.py"
    process = subprocess.Popen([sys.executable, str(program), scene.settings.database], env={**os.environ, **own})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_notification_survives_the_death_of_its_sender_and_of_its_receiver(scene: Scene, tmp_path: Path) -> None:
    subscriptions = scene.another(receivers={"desk": ReceiverKind.WEBHOOK}).subscriptions
    scene.clock.now_ms = now_ms()
    subscriptions.test(ANN, "desk")
    (port,) = free_ports(1)
    with notifier(scene, f"http://127.0.0.1:{port}/slow", tmp_path):
        until(lambda: subscriptions.deliveries().items[0].fault, "the attempt fails without a receiver")
        with HttpReceiver(tmp_path, port) as receiver:
            until(receiver.requests, "the next attempt reaches the receiver")
            (waiting,) = subscriptions.deliveries().items
            assert waiting.state is DeliveryState.WAITING, "the receiver has not answered yet"
    # Both are dead: the sender does not know whether the receiver has accepted the notification.
    with HttpReceiver(tmp_path, port) as receiver, notifier(scene, f"http://127.0.0.1:{port}/ok", tmp_path):
        delivered = DeliveryState.DELIVERED
        until(lambda: subscriptions.deliveries().items[0].state is delivered, "the delivery")
        requests = receiver.requests()
    assert [request["path"] for request in requests] == ["/slow", "/ok"]
    assert len({request["headers"]["webhook-id"] for request in requests}) == 1
    for request in requests:
        assert Webhook(SECRET).verify(request["body"], request["headers"])["type"] == "test"
