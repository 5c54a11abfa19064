"""The alarms of the watches over a real store: a restart neither repeats an alarm nor forgets its end."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from sqlalchemy import select

from fraud_control.domain.read_models import AuditVerdict, OutboxState
from fraud_control.feed.memory import FeedMemory
from fraud_control.service.alarm_log import AlarmDesk
from fraud_control.settings import Flood
from fraud_control.store.leases import Leadership
from fraud_control.store.notification_models import DeliveryRow
from fraud_control.sync.drift import DriftReport
from fraud_control.watch.flood_guard import FloodGuard
from fraud_control.watch.store_watch import Checks, StoreWatch
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import Scene


def desk_of(scene: Scene) -> AlarmDesk:
    return AlarmDesk(scene.database, lambda: ["fraud_webhook"], pytest.fail, scene.clock)


def delivered(scene: Scene) -> list[str]:
    """The titles of the messages since the last call, which their receiver then has accepted."""
    with scene.database.writing() as session:
        rows = session.scalars(select(DeliveryRow).where(DeliveryRow.state == "WAITING").order_by(DeliveryRow.id)).all()
        for row in rows:
            row.state = "DELIVERED"
        return [row.title for row in rows]


def test_the_store_watch(scene: Scene) -> None:
    oldest_ms: int | None = scene.clock.now_ms - 60_000

    def restarted() -> StoreWatch:
        checks = Checks(
            lambda: OutboxState(0 if oldest_ms is None else 3, oldest_ms),
            lambda: DriftReport((), True, 9, 9, 0, None),
            lambda: AuditVerdict(whole=True, rows=7, broken_at=None, head=""),
            lambda: (),
            lambda: (),
        )
        lead = lambda: nullcontext(Leadership("watch", led=True))  # noqa: E731
        return StoreWatch(checks, "detector", desk_of(scene), scene.clock, scene.clock, lead)

    for _ in range(3):
        restarted().step()
    assert delivered(scene) == ["[fraud] OUTBOX_STUCK (detector)"]
    oldest_ms = None
    for _ in range(3):
        restarted().step()
    assert delivered(scene) == ["[fraud] resolved: OUTBOX_STUCK (detector)"]


def test_the_flood_guard(scene: Scene) -> None:
    memory = FeedMemory()

    def restarted() -> FloodGuard:
        lead = lambda: scene.database.leadership("flood")  # noqa: E731
        return FloodGuard(memory, scene.store, Flood(10), "detector", desk_of(scene), scene.clock, lead)

    for number in range(30):
        memory.add(replace(alert(number, 5), append_ms=scene.clock.now_ms))
    for _ in range(3):
        restarted().check()
    assert delivered(scene) == ["[fraud] ALERT_FLOOD (detector)"]
    memory = FeedMemory()
    guard = restarted()
    guard._take_over()
    guard.check()
    assert delivered(scene) == [], "the rates of the new process do not cover a minute yet"
    scene.clock.now_ms += 180_000
    guard.check()
    assert delivered(scene) == ["[fraud] resolved: ALERT_FLOOD (detector)"]
