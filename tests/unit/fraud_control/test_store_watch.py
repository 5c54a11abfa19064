"""The store's alarms: one at the start of a fault, one at its end."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

from fraud_control.domain.errors import Unavailable
from fraud_control.domain.item import ItemName
from fraud_control.domain.read_models import AuditVerdict, OutboxState
from fraud_control.service.notifications.outbox import FailingReceiver
from fraud_control.store.leases import Leadership
from fraud_control.sync.drift import DriftReport, ItemDifference
from fraud_control.sync.unapproved import UnapprovedItem
from fraud_control.watch.store_watch import Checks, StoreWatch
from tests.support.control_plane.alarm_memory import AlarmMemory
from tests.support.control_plane.scene import Clock


@dataclass
class World:
    """The state of a store as text."""

    clock: Clock = field(default_factory=Clock)
    waits_since_ms: int | None = None
    drifted: tuple[int, ...] = ()
    broken_at: int | None = None
    unapproved: tuple[UnapprovedItem, ...] = ()
    failing: tuple[FailingReceiver, ...] = ()
    away: bool = False
    alarms: AlarmMemory = field(default_factory=AlarmMemory)

    def __post_init__(self) -> None:
        checks = Checks(self.outbox, self.drift, self.audit, lambda: self.unapproved, lambda: self.failing)
        self.watch = StoreWatch(
            checks,
            "detector",
            self.alarms,
            self.clock,
            self.clock,
            lambda: nullcontext(Leadership("watch", led=True)),
        )

    def after(self, seconds: int) -> list[tuple[str, bool]]:
        """The alarms of the next seconds, with one check per second."""
        before = len(self.alarms.news)
        for _ in range(seconds):
            self.clock.now_ms += 1_000
            self.watch.step()
        return self.alarms.briefly(before)

    def outbox(self) -> OutboxState:
        if self.away:
            raise Unavailable("away")
        return OutboxState(0 if self.waits_since_ms is None else 3, self.waits_since_ms)

    def drift(self) -> DriftReport:
        return DriftReport(
            tuple(ItemDifference(ItemName.of_rule(rule_id), None, None) for rule_id in self.drifted),
            True,
            9,
            9,
            0,
            None,
        )

    def audit(self) -> AuditVerdict:
        return AuditVerdict(whole=self.broken_at is None, rows=7, broken_at=self.broken_at, head="")


def test_a_healthy_store_raises_no_alarm() -> None:
    assert World().after(200) == []


def test_changes_that_wait_too_long_raise_one_alarm_that_is_resolved() -> None:
    world = World()
    world.waits_since_ms = world.clock()
    assert world.after(29) == []
    assert world.after(60) == [("OUTBOX_STUCK", False)]
    world.away = True
    assert world.after(20) == []
    world.away, world.waits_since_ms = False, None
    assert world.after(20) == [("OUTBOX_STUCK", True)]


def test_a_rule_that_differs_twice_in_a_row_raises_an_alarm() -> None:
    world = World()
    world.drifted = (1,)
    assert world.after(30) == []
    world.drifted = (2,)
    assert world.after(60) == []
    assert world.after(120) == [("DRIFT", False)]
    world.drifted = ()
    assert world.after(120) == [("DRIFT", True)]


def test_each_further_rule_without_an_approval_raises_the_alarm_again() -> None:
    world = World()
    world.unapproved = (UnapprovedItem(ItemName.of_rule(1), "alice", 7),)
    assert world.after(60) == [("UNAPPROVED_RULE", False)]
    world.unapproved += (UnapprovedItem(ItemName.of_rule(2), "seed", 8),)
    assert world.after(60) == [("UNAPPROVED_RULE", False)]
    world.unapproved = world.unapproved[:1]
    assert world.after(60) == []
    world.unapproved = ()
    assert world.after(60) == [("UNAPPROVED_RULE", True)]


def test_each_further_failing_receiver_raises_the_alarm_again() -> None:
    world = World()
    world.failing = (FailingReceiver("desk", "the receiver answered 503"),)
    assert world.after(60) == [("RECEIVER_FAILING", False)]
    world.failing += (FailingReceiver("chat", "no answer within 10 s"),)
    assert world.after(60) == [("RECEIVER_FAILING", False)]
    world.failing = ()
    assert world.after(60) == [("RECEIVER_FAILING", True)]


def test_a_broken_chain_raises_an_alarm_within_an_hour() -> None:
    world = World()
    world.after(1)
    world.broken_at = 5
    assert world.after(3_700) == [("AUDIT_BROKEN", False)]
