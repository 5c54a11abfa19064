"""Standing alarms: the store decides what is news, and the outbox delivers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from fraud_control.service.alarm_log import OLD_MS, AlarmDesk, recent_alarms
from fraud_control.sync.notifier import Notifier
from fraud_control.sync.topic_intakes import apply_alarm
from fraud_ops.alarms import REPEAT_MS, Alarm, RaisedAlarm, encode_alarm
from fraud_ops.delivery.alarms import AlarmSender
from fraud_ops.delivery.connections import connection_in_environment
from fraud_rules.kafka.reader import Record
from tests.support.control_plane.scene import Scene
from tests.support.receivers.servers import HttpReceiver
from tests.support.waiting import until

STUCK = Alarm("OUTBOX_STUCK", "detector", "3 changes wait")
ENDED = Alarm("OUTBOX_STUCK", "detector", "0 changes wait", resolved=True)
RECEIVERS = ("fraud_smtp", "fraud_webhook")


class Channels:
    """The connections: `down` names those that accept nothing."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.down: set[str] = set()
        self.accepted: list[tuple[str, str, bool]] = []
        self.said: list[str] = []
        self.notifier = Notifier(scene.database, {}, lambda receiver, message: None, scene.clock, self.send)

    def send(self, name: str, alarm: Alarm) -> str | None:
        if name in self.down:
            return "did not accept the alarm (ConnectError)"
        self.accepted.append((name, alarm.name, alarm.resolved))
        self.said.append(alarm.said)
        return None

    def deliver(self) -> list[tuple[str, str, bool]]:
        """Run the notifier until nothing is due, and return what has been accepted since the last call."""
        self.notifier.step()
        until(lambda: all(each.done() for each in self.notifier._running.values()), "the attempts")
        self.notifier.step()
        accepted, self.accepted = self.accepted, []
        return sorted(accepted)


def desk_of(scene: Scene) -> AlarmDesk:
    """The desk of a process. Another one over the same store stands for a restart."""
    return AlarmDesk(scene.database, lambda: RECEIVERS, pytest.fail, scene.clock)


def both(*, resolved: bool) -> list[tuple[str, str, bool]]:
    return [(name, "OUTBOX_STUCK", resolved) for name in RECEIVERS]


def test_an_alarm_is_sent_once_and_repeated_slowly_also_after_a_restart(scene: Scene) -> None:
    channels = Channels(scene)
    for _ in range(5):
        desk_of(scene).report(STUCK)
    assert channels.deliver() == both(resolved=False)
    scene.clock.now_ms += REPEAT_MS - 1
    desk_of(scene).report(STUCK)
    assert channels.deliver() == []
    scene.clock.now_ms += 1
    desk_of(scene).report(STUCK)
    assert channels.deliver() == both(resolved=False)
    assert [each.count for each in recent_alarms(scene.database)] == [2]


def test_the_process_after_a_restart_reports_the_end(scene: Scene) -> None:
    channels = Channels(scene)
    desk_of(scene).report(ENDED)
    assert channels.deliver() == [], "nothing stands"
    desk_of(scene).report(STUCK)
    assert channels.deliver() == both(resolved=False)
    for _ in range(3):
        desk_of(scene).report(ENDED)
    assert channels.deliver() == both(resolved=True)
    assert recent_alarms(scene.database)[0].cleared_ms == scene.clock()


def test_a_webhook_that_refuses_for_a_while_gets_the_alarm_later(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(receiver: HttpReceiver, path: str) -> None:
        connection = {"conn_type": "http", "host": f"{receiver.url}{path}"}
        monkeypatch.setenv("AIRFLOW_CONN_FRAUD_WEBHOOK", json.dumps(connection))

    sender = AlarmSender(connection_in_environment, "", lambda: "[]")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    channels = Channels(scene)
    channels.notifier = Notifier(scene.database, {}, lambda receiver, message: None, scene.clock, sender.deliver)
    with HttpReceiver(tmp_path) as receiver:
        answer(receiver, "/status/503")
        AlarmDesk(scene.database, sender.receivers, pytest.fail, scene.clock).report(STUCK)
        channels.deliver()
        answer(receiver, "/ok")
        scene.clock.now_ms += 4_000
        channels.deliver()
        assert [each["path"] for each in receiver.requests()] == ["/status/503"], "the pause is not over"
        scene.clock.now_ms += 1_000
        channels.deliver()
        channels.deliver()
        assert [each["path"] for each in receiver.requests()] == ["/status/503", "/ok"]
        assert json.loads(receiver.requests()[1]["body"])["name"] == "OUTBOX_STUCK"


def test_a_receiver_that_comes_back_gets_only_the_newest_message_of_an_alarm(scene: Scene) -> None:
    channels = Channels(scene)
    channels.down = {"fraud_webhook"}
    desk_of(scene).report(STUCK)
    channels.deliver()
    scene.clock.now_ms += REPEAT_MS
    desk_of(scene).report(STUCK)
    channels.deliver()
    desk_of(scene).report(ENDED)
    channels.down, channels.said = set(), []
    assert channels.deliver() == [("fraud_smtp", "OUTBOX_STUCK", True)], "the pause of the webhook goes on"
    scene.clock.now_ms += 60_000
    assert channels.deliver() == [("fraud_webhook", "OUTBOX_STUCK", True)]
    assert channels.said[0] == "0 changes wait"
    assert channels.said[1].startswith("0 changes wait; raised at ") and channels.said[1].endswith(": 3 changes wait")


def test_alarms_of_a_store_that_does_not_answer_are_sent_directly_once_and_end_once(scene: Scene) -> None:
    channels, direct = Channels(scene), list[Alarm]()

    def send(alarm: Alarm) -> list[str]:
        direct.append(alarm)
        return ["fraud_smtp"]

    desk = AlarmDesk(scene.database, lambda: RECEIVERS, send, scene.clock)
    with failing(scene):
        for _ in range(3):
            desk.report(STUCK)
    assert direct == [STUCK]
    desk.report(STUCK)
    assert channels.deliver() == [("fraud_webhook", "OUTBOX_STUCK", False)], "the mail was sent directly"
    with failing(scene):
        desk.report(replace(STUCK, part="other"))
    desk.report(replace(ENDED, part="other"))
    assert channels.deliver() == [("fraud_smtp", "OUTBOX_STUCK", True)], "the store never knew the other alarm"


@contextmanager
def failing(scene: Scene) -> Iterator[None]:
    """The store fails: its table is missing."""
    rename = "ALTER TABLE {} RENAME TO {}"
    with scene.database.writing() as session:
        session.execute(text(rename.format("alarms", "away")))
    try:
        yield
    finally:
        with scene.database.writing() as session:
            session.execute(text(rename.format("away", "alarms")))


class Topic:
    """The topic `alarms`, as the intake gets its records."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.store = scene.store

    def append(self, alarm: Alarm, *told: str, age_ms: int = 0) -> None:
        at_ms = self.scene.clock.now_ms - age_ms
        record = Record(at_ms, at_ms, alarm.name.encode(), encode_alarm(RaisedAlarm(alarm, told)))
        with self.store.unit_of_work() as work:
            apply_alarm(lambda: RECEIVERS, work, record)


UNSUPERVISED = Alarm("UNSUPERVISED", "detector", "the last observation is 5 min ago", part="supervision")


def test_an_alarm_of_each_run_is_sent_once_then_hourly_and_ends_once(scene: Scene) -> None:
    channels, topic = Channels(scene), Topic(scene)
    messages = []
    for _ in range(90):
        topic.append(UNSUPERVISED)
        messages += channels.deliver()
        scene.clock.now_ms += 120_000
    assert messages == 3 * [(name, "UNSUPERVISED", False) for name in RECEIVERS]
    for _ in range(3):
        topic.append(replace(UNSUPERVISED, resolved=True))
    assert channels.deliver() == [(name, "UNSUPERVISED", True) for name in RECEIVERS]
    assert [each.count for each in recent_alarms(scene.database)] == [90]


def test_an_alarm_that_a_task_has_sent_itself_goes_only_to_the_other_receivers(scene: Scene) -> None:
    channels, topic = Channels(scene), Topic(scene)
    topic.append(UNSUPERVISED, "fraud_smtp", age_ms=OLD_MS)
    assert channels.deliver() == [], "too old"
    topic.append(UNSUPERVISED, "fraud_smtp")
    assert channels.deliver() == [("fraud_webhook", "UNSUPERVISED", False)]
    topic.append(replace(UNSUPERVISED, resolved=True), "fraud_smtp")
    assert channels.deliver() == [(name, "UNSUPERVISED", True) for name in RECEIVERS]


def test_the_end_of_an_alarm_that_only_the_receivers_know_reaches_them(scene: Scene) -> None:
    channels, topic = Channels(scene), Topic(scene)
    topic.append(replace(UNSUPERVISED, resolved=True), "fraud_smtp")
    assert channels.deliver() == [("fraud_smtp", "UNSUPERVISED", True)]


def test_the_end_of_a_verdict_reports_the_end_of_each_verdict(scene: Scene) -> None:
    channels, topic = Channels(scene), Topic(scene)
    topic.append(Alarm("DEAD", "detector", "no batch"))
    topic.append(Alarm("CRASH_LOOP", "detector", "three starts failed"))
    channels.deliver()
    topic.append(Alarm("DEAD", "detector", "", resolved=True))
    assert {(name, resolved) for _, name, resolved in channels.deliver()} == {("DEAD", True), ("CRASH_LOOP", True)}
