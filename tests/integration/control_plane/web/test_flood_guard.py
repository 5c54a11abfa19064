"""A rule that floods: the flood guard raises one alarm, and moves the rule to SHADOW if configured."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleInput
from fraud_control.feed.memory import FeedMemory
from fraud_control.settings import Flood
from fraud_control.store.leases import Leadership
from fraud_control.watch.flood_guard import ALARM, FloodGuard
from fraud_ops.alarms import Alarm
from tests.support.control_plane.alarm_memory import AlarmMemory
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.desk import Desk
from tests.support.control_plane.scene import ADA, RULE, Scene
from tests.support.waiting import until


def active(service: Desk) -> int:
    row = service.create(ADA, RuleInput(document=RULE)).row
    row = service.change_state(ADA, row.rule_id, row.revision, StateName.ACTIVE).row
    assert row.state is StateName.ACTIVE
    return row.rule_id


def fire(memory: FeedMemory, rule_id: int, numbers: range, now_ms: int) -> None:
    for number in numbers:
        memory.add(replace(alert(number, rule_id), append_ms=now_ms))


def guard_of(scene: Scene, memory: FeedMemory, flood: Flood, alarms: AlarmMemory) -> FloodGuard:
    def lead() -> AbstractContextManager[Leadership]:
        return scene.database.leadership("flood")

    return FloodGuard(memory, scene.store, flood, "detector", alarms, scene.clock, lead, interval_s=0.01)


@pytest.mark.parametrize("to_shadow", [True, False])
def test_a_flood_raises_one_alarm_and_may_move_the_rule(scene: Scene, to_shadow: bool) -> None:
    rule_id, alarms, memory = active(scene.service), AlarmMemory(), FeedMemory()
    flood = Flood(alerts_per_minute=10, to_shadow=to_shadow)
    guard = guard_of(scene, memory, flood, alarms)
    fire(memory, rule_id, range(10), scene.clock.now_ms)
    guard.check()
    assert not alarms.news and not guard.flooding
    fire(memory, rule_id, range(10, 30), scene.clock.now_ms)
    guard.check()
    guard.check()
    assert alarms.briefly() == [(ALARM, False)]
    assert guard.flooding == {rule_id}
    row = scene.service.rule(rule_id).row
    assert row.state is (StateName.SHADOW if to_shadow else StateName.ACTIVE)
    assert (row.updated_by == "system:flood-guard") is to_shadow
    scene.clock.now_ms += 180_000
    guard.check()
    assert alarms.briefly() == [(ALARM, False), (ALARM, True)]
    assert scene.service.verify_audit().whole


def test_a_rule_that_is_not_in_the_store_floods_too(scene: Scene) -> None:
    alarms, memory = AlarmMemory(), FeedMemory()
    flood = Flood(alerts_per_minute=1, to_shadow=True)
    guard = guard_of(scene, memory, flood, alarms)
    fire(memory, 77, range(5), scene.clock.now_ms)
    guard.check()
    assert "rule 77" in alarms.news[0].said


def test_one_of_several_processes_acts_and_another_takes_over(scene: Scene) -> None:
    raised = [AlarmMemory(), AlarmMemory()]
    memory = FeedMemory()
    flood = Flood(alerts_per_minute=10)
    first, second = (guard_of(scene, memory, flood, alarms) for alarms in raised)
    first.start()
    fire(memory, 5, range(30), scene.clock.now_ms)
    until(lambda: raised[0].news, "the only process acts")
    second.start()
    until(lambda: second.flooding, "the other process knows the flooding rules")
    fire(memory, 6, range(30, 60), scene.clock.now_ms)
    until(lambda: 6 in first.flooding and 6 in second.flooding, "both processes see another flood")
    until(lambda: len(raised[0].news) == 2, "the same process acts")
    assert not raised[1].news
    first.stop()
    until(lambda: len(raised[1].news) == 2, "the process that takes over reports the floods")
    scene.clock.now_ms += 180_000
    until(lambda: len(raised[1].news) == 4, "the process that took over reports the ends")
    second.stop()
    assert [(each.resolved, "rule 5" in each.said) for each in raised[1].news] == [
        (False, True), (False, False), (True, True), (True, False),
    ]  # fmt: skip


def test_a_new_leader_ends_the_alarm_of_a_flood_that_has_ended(scene: Scene) -> None:
    alarms, memory = AlarmMemory(), FeedMemory()
    for rule_id in (5, 6):
        alarms.report(Alarm(ALARM, "detector", "flood", part=f"rule {rule_id}"))
    guard = guard_of(scene, memory, Flood(alerts_per_minute=10), alarms)
    guard.start()
    fire(memory, 5, range(30), scene.clock.now_ms)
    until(lambda: guard.flooding, "one of the floods continues")
    assert not any(each.resolved for each in alarms.news)
    scene.clock.now_ms += 180_000
    until(lambda: len(alarms.news) == 4, "both alarms end")
    guard.stop()
    assert {(each.part, each.resolved) for each in alarms.news[2:]} == {("rule 5", True), ("rule 6", True)}
