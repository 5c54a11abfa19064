"""Standing alarms: the store decides what is news, and the outbox delivers it."""

from __future__ import annotations

import pytest

from fraud_ops.alarms import Alarm, RaisedAlarm, encode_alarm
from fraud_ops.control_plane.domain.rule_input import RuleReader
from fraud_ops.control_plane.service.alarm_log import REPEAT_MS, AlarmDesk, recent_alarms
from fraud_ops.control_plane.service.store_access import StoreAccess
from fraud_ops.control_plane.sync.alarm_intake import apply_record
from fraud_ops.control_plane.sync.notifier import Notifier
from fraud_rules.kafka.reader import Record
from tests.support.control_plane.scene import LIMITS, SCHEMA, Scene
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
        self.notifier = Notifier(scene.database, {}, lambda receiver, message: None, scene.clock, self.send)

    def send(self, name: str, alarm: Alarm) -> str | None:
        if name in self.down:
            return "did not accept the alarm (ConnectError)"
        self.accepted.append((name, alarm.name, alarm.resolved))
        return None

    def deliver(self) -> list[tuple[str, str, bool]]:
        """Run the notifier until nothing is due, and return what has been accepted since the last call."""
        self.notifier.step()
        until(lambda: all(each.done() for each in self.notifier._running.values()), "the attempts", 30)
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
    for _ in range(3):
        desk_of(scene).report(ENDED)
    assert channels.deliver() == sorted([*both(resolved=False), *both(resolved=True)])
    assert recent_alarms(scene.database)[0].cleared_ms == scene.clock()


def test_a_webhook_that_is_down_for_a_minute_loses_no_alarm(scene: Scene) -> None:
    channels = Channels(scene)
    channels.down = {"fraud_webhook"}
    desk_of(scene).report(STUCK)
    assert channels.deliver() == [("fraud_smtp", "OUTBOX_STUCK", False)]
    channels.down = set()
    scene.clock.now_ms += 60_000
    assert channels.deliver() == [("fraud_webhook", "OUTBOX_STUCK", False)]


def test_an_alarm_of_a_task_goes_again_to_the_connection_that_did_not_accept_it(scene: Scene) -> None:
    channels = Channels(scene)
    store = StoreAccess(scene.database, scene.settings, RuleReader(SCHEMA, LIMITS), scene.clock)
    value = encode_alarm(RaisedAlarm(Alarm("DEAD", "detector", "no batch"), ("fraud_smtp",)))
    for append_ms in (scene.clock.now_ms - 86_400_000, scene.clock.now_ms):
        with store.unit_of_work() as work:
            apply_record(lambda: RECEIVERS, work, Record(append_ms, append_ms, b"DEAD", value))
    assert channels.deliver() == [("fraud_webhook", "DEAD", False)], "only of the new record"
