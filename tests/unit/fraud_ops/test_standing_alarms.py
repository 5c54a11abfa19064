"""Alarms of checks that run again and again, with and without Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fraud_ops.alarms import REPEAT_MS, Alarm, RaisedAlarm
from fraud_rules_airflow.operators.standing_alarms import ReportedAlarm, report_alarms

ALARM = Alarm("STALLED", "detector", "no batch", part="checkpoint")
FULL = Alarm("DISK_FULL", "detector", "full")


@dataclass
class Channel:
    """Kafka and the receivers."""

    kafka: bool = True
    receivers: tuple[str, ...] = ("fraud_webhook",)
    topic: list[RaisedAlarm] = field(default_factory=list)
    direct: list[Alarm] = field(default_factory=list)
    known: dict[str, ReportedAlarm] = field(default_factory=dict)

    def append(self, reports: Sequence[RaisedAlarm]) -> bool:
        if self.kafka:
            self.topic += reports
        return self.kafka

    def send(self, alarm: Alarm) -> Sequence[str]:
        self.direct.append(alarm)
        return self.receivers

    def run(self, *found: Alarm, at_ms: int = 0) -> list[tuple[str, bool, tuple[str, ...]]]:
        """Report what a run has found, and return the reports in the topic."""
        self.topic.clear()
        self.known = report_alarms(self, self.known, {each.name: each for each in found}, "over", at_ms)
        return [(each.alarm.name, each.alarm.resolved, each.receivers) for each in self.topic]


def test_each_run_reports_its_alarms_and_the_first_run_without_one_reports_the_end() -> None:
    channel = Channel()
    for _ in range(3):
        assert channel.run(ALARM) == [("STALLED", False, ())]
    assert channel.run(FULL) == [("STALLED", True, ()), ("DISK_FULL", False, ())]
    assert channel.run() == [("DISK_FULL", True, ())]
    assert channel.run() == []
    assert channel.direct == []


def test_without_kafka_an_alarm_is_sent_once_and_then_hourly() -> None:
    channel = Channel(kafka=False)
    for at_ms in range(0, 3 * REPEAT_MS, 120_000):
        channel.run(ALARM, at_ms=at_ms)
    assert len(channel.direct) == 3


def test_an_alarm_that_was_reported_before_kafka_failed_is_not_sent_again() -> None:
    channel = Channel()
    channel.run(ALARM)
    channel.kafka = False
    channel.run(ALARM, at_ms=1)
    assert channel.direct == []


def test_an_alarm_that_no_receiver_accepted_is_sent_again_by_the_next_run() -> None:
    channel = Channel(kafka=False, receivers=())
    channel.run(ALARM)
    channel.run(ALARM, at_ms=1)
    assert len(channel.direct) == 2


def test_an_end_waits_for_kafka_and_names_the_receivers_that_only_the_task_has_told() -> None:
    channel = Channel(kafka=False)
    channel.run(ALARM)
    channel.run()
    channel.kafka = True
    assert channel.run() == [("STALLED", True, ("fraud_webhook",))]
    assert channel.run() == []


def test_an_alarm_that_was_sent_directly_is_reported_with_its_receivers_when_kafka_answers() -> None:
    channel = Channel(kafka=False)
    channel.run(ALARM)
    channel.kafka = True
    assert channel.run(ALARM) == [("STALLED", False, ("fraud_webhook",))]
    assert channel.run() == [("STALLED", True, ())]
