"""Readers that make no progress on their topic, and the alarm about them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fraud_control.service.alarm_log import AlarmDesk
from fraud_control.sync.reader_state import ReaderPosition, ReaderProgress
from fraud_control.watch.alarm_reports import AlarmReports
from fraud_control.watch.reader_watch import ALARM, ReaderWatch
from fraud_ops.alarms import REPEAT_MS, Alarm
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.kafka.unread import Unread, read_unread
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from tests.support.control_plane.alarm_memory import AlarmMemory
from tests.support.control_plane.scene import Clock, Scene
from tests.support.kafka.own_topics import OwnTopics


def stuck_after(observations: list[tuple[int, int | None]], every_s: int = 30) -> list[bool]:
    """Whether a reader is stuck at each observation of its position and its first unread record's append time."""
    progress = ReaderProgress()
    return [
        progress.state(
            ReaderPosition("mirror", "rules", position, None, True), Unread(9, since_ms), number * every_s * 1_000
        ).stuck
        for number, (position, since_ms) in enumerate(observations)
    ]


@pytest.mark.parametrize(
    ("observations", "stuck"),
    [
        pytest.param([(9, None)] * 4, [False] * 4, id="a quiet topic"),
        pytest.param([(7, None)] * 4, [False] * 4, id="only transaction markers"),
        pytest.param([(1, 5), (2, 6), (3, 7), (4, 8)], [False] * 4, id="far behind, and moving"),
        pytest.param([(3, 5)] * 4, [False, False, True, True], id="a position without progress"),
        pytest.param([(3, 5), (3, 5), (4, 6), (4, 6), (4, 6)], [False, False, False, False, True], id="a slow reader"),
        pytest.param(
            [(3, None), (3, None), (3, None), (3, 5), (3, 5)], [False] * 5, id="new records after a quiet time"
        ),
    ],
)
def test_a_reader_is_stuck_when_it_makes_no_progress_before_unread_records(
    observations: list[tuple[int, int | None]], stuck: list[bool]
) -> None:
    assert stuck_after(observations) == stuck


@dataclass
class World:
    """Two readers: one with its position in the store, one with its position in this process."""

    leads: bool = True
    away: bool = False
    clock: Clock = field(default_factory=Clock)
    positions: dict[str, int] = field(default_factory=lambda: {"mirror": 3, "feed": 3})
    memory: AlarmMemory = field(default_factory=AlarmMemory)
    standing: AlarmReports | None = None
    fault: str | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        self.watch = ReaderWatch(
            self.readings, self.unread, "detector", self.standing or self.memory, self.clock, lambda: self.leads
        )

    def readings(self) -> list[ReaderPosition]:
        return [ReaderPosition(name, name, at, self.fault, name == "mirror") for name, at in self.positions.items()]

    def unread(self, topic: str, position: int) -> Unread:
        if self.away:
            raise BrokerUnavailable("away")
        if topic == self.missing:
            raise BrokerUnavailable(f"{topic} is missing")
        return Unread(9, 1_600_000_000_000 if position < 9 else None)

    def after(self, seconds: int) -> list[tuple[str, bool]]:
        """The alarms raised in that time, with an observation every ten seconds."""
        before = len(self.memory.news)
        for _ in range(0, seconds, 10):
            self.clock.now_ms += 10_000
            self.watch.observe()
        return [(alarm.said.split()[0], alarm.resolved) for alarm in self.memory.news[before:]]


def test_a_stuck_reader_raises_one_alarm_with_place_and_time_and_resolves_it() -> None:
    world = World()
    world.positions["feed"] = 9
    assert world.after(60) == []
    assert world.after(600) == [("mirror", False)]
    (alarm,) = world.memory.news
    assert alarm.name == ALARM
    assert alarm.said == (
        "mirror is at offset 3 of mirror, which ends at 9; its first unread record is from 2020-09-13 12:26:40 UTC"
    )
    state = world.watch.states[0]
    assert (state.behind, state.since_ms, state.stuck) == (6, 1_600_000_000_000, True)
    world.positions["mirror"] = 9
    assert world.after(20) == [("mirror", True)]
    assert world.watch.states[0].behind == 0


def test_a_reader_that_fails_is_stuck_also_without_unread_records() -> None:
    world = World(fault="RuleLogForeign: the topic was recreated", positions={"mirror": 9})
    assert world.after(60) == []
    assert world.after(600) == [("mirror", False)]
    assert world.memory.news[0].said.endswith("the last error is: RuleLogForeign: the topic was recreated")
    world.fault = None
    assert world.after(20) == [("mirror", True)]


def test_a_topic_that_cannot_be_read_is_a_fault_of_its_reader_alone() -> None:
    world = World(positions={"mirror": 9, "feed": 9})
    world.away = True
    with pytest.raises(BrokerUnavailable):
        world.after(10)
    world.away, world.missing = False, "mirror"
    assert world.after(120) == [("mirror", False)]
    assert world.memory.news[0].said.endswith("the last error is: mirror is missing")
    world.missing = None
    assert world.after(20) == [("mirror", True)]


def test_one_process_raises_the_alarm_about_a_shared_position() -> None:
    assert World(leads=False).after(120) == [("feed", False)]
    assert sorted(World(leads=True).after(120)) == [("feed", False), ("mirror", False)]


def test_a_reader_of_another_process_does_not_end_the_alarm_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = World(leads=False)
    monkeypatch.setattr("os.getpid", lambda: -1)
    well = World(leads=False, positions={"feed": 9}, memory=stuck.memory)
    assert stuck.after(120) == [("feed", False)]
    assert well.after(60) == []
    stuck.positions["feed"] = 9
    assert stuck.after(20) == [("feed", True)]


def test_the_leader_ends_the_alarms_of_a_process_that_has_ended(scene: Scene) -> None:
    desk = AlarmDesk(scene.database, tuple, pytest.fail, scene.clock)
    desk.report(Alarm(ALARM, "detector", "feed is stuck", part="feed of alerts in gone:1"))
    world = World(clock=scene.clock, positions={"feed": 9}, standing=desk)
    world.after(60)
    assert desk.open_parts(ALARM), "the process could still be alive"
    scene.clock.now_ms += 2 * REPEAT_MS
    world.watch.observe()
    assert not desk.open_parts(ALARM)


def test_transaction_markers_do_not_count_as_unread_records(topics: OwnTopics) -> None:
    topic = topics.names.rules
    assert read_unread(topics.kafka, topic, 0) == Unread(0, None)
    writer = BatchWriter(topics.kafka, f"{topics.prefix}writer")
    writer.open()
    writer.append([OutRecord(topic, b"{}", b"1")])
    await_settled(topics.kafka, [topic])
    assert read_unread(topics.kafka, topic, 1) == Unread(2, None)
    (offset,) = append_records(topics.kafka, topic, [(b"1", b"{}")])
    found = read_unread(topics.kafka, topic, 1)
    assert (offset, found.end) == (2, 3)
    assert found.since_ms is not None
