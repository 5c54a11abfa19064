"""A rule that floods: people are told once, and it is moved to SHADOW where that is wished."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fraud_ops.alarms import Alarm
from fraud_ops.control_plane.desk import ControlDesk
from fraud_ops.control_plane.feed.memory import FeedMemory
from fraud_ops.control_plane.flood_guard import ALARM, FloodGuard
from fraud_ops.control_plane.lifecycle import State
from fraud_ops.control_plane.settings import Flood
from fraud_ops.control_plane.views import RuleGiven
from tests.control.desks import ADA, RULE, Scene
from tests.control.web.test_feed import alert


def active(desk: ControlDesk) -> int:
    row = desk.create(ADA, RuleGiven(document=RULE)).row
    row = desk.change_state(ADA, row.rule_id, row.revision, State.ACTIVE).row
    assert row.state is State.ACTIVE
    return row.rule_id


def fire(memory: FeedMemory, rule_id: int, numbers: range, now_ms: int) -> None:
    for number in numbers:
        memory.take(replace(alert(number, rule_id), append_ms=now_ms))


@pytest.mark.parametrize("to_shadow", [True, False])
def test_a_flood_raises_one_alarm_and_may_move_the_rule(scene: Scene, to_shadow: bool) -> None:
    rule_id, alarms, memory = active(scene.desk), list[Alarm](), FeedMemory()
    flood = Flood(alerts_per_minute=10, to_shadow=to_shadow)
    guard = FloodGuard(memory, scene.desk, flood, "detector", alarms.append, scene.clock)
    fire(memory, rule_id, range(10), scene.clock.now_ms)
    guard.look()
    assert not alarms and not guard.flooding
    fire(memory, rule_id, range(10, 30), scene.clock.now_ms)
    guard.look()
    guard.look()
    assert [(each.name, each.resolved) for each in alarms] == [(ALARM, False)]
    assert guard.flooding == {rule_id}
    row = scene.desk.rule(rule_id).row
    assert row.state is (State.SHADOW if to_shadow else State.ACTIVE)
    assert (row.updated_by == "flood-guard") is to_shadow
    scene.clock.now_ms += 180_000
    guard.look()
    assert [(each.name, each.resolved) for each in alarms] == [(ALARM, False), (ALARM, True)]
    assert scene.desk.verify_audit().whole


def test_a_rule_that_nobody_here_knows_floods_too(scene: Scene) -> None:
    alarms, memory = list[Alarm](), FeedMemory()
    flood = Flood(alerts_per_minute=1, to_shadow=True)
    guard = FloodGuard(memory, scene.desk, flood, "detector", alarms.append, scene.clock)
    fire(memory, 77, range(5), scene.clock.now_ms)
    guard.look()
    assert "rule 77" in alarms[0].said
