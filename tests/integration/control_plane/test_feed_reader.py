"""The feed of a process that starts while the detector works."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.follower import FeedReader
from fraud_control.feed.memory import FeedMemory
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from tests.support.control_plane.alerts import alert_json
from tests.support.kafka.own_topics import OwnTopics
from tests.support.waiting import until

_PATIENCE_S = 60.0


def test_the_initial_records_are_read_although_a_topic_never_rests(topics: OwnTopics, project: Project) -> None:
    """The other topics end with the marker of a transaction, which is no record."""
    memory = FeedMemory()
    detector = DetectorSettings.load(project.config / "detector.yaml", {})
    follower = FeedReader(topics.kafka, replace(detector, topics=topics.names), memory, lambda events: None, Snoozing)
    writer, stopped = BatchWriter(topics.kafka, f"{topics.prefix}writer"), threading.Event()
    writer.open()
    writer.write([OutRecord(topics.names.shadow_alerts, alert_json(1, 1, shadow=True), b"k")])
    await_settled(topics.kafka, [topics.names.shadow_alerts])

    def write() -> None:
        for number in itertools.takewhile(lambda _: not stopped.is_set(), itertools.count(2)):
            writer.write([OutRecord(topics.names.alerts, alert_json(number, 1, shadow=False), b"k")])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            follower.start()
            until(lambda: follower.caught_up, "the feed has read its topics", _PATIENCE_S)
        finally:
            stopped.set()
            follower.stop()
        writing.result()
    assert follower.positions()[topics.names.shadow_alerts] == 2
    assert any(alert.facts.shadow for alert in memory.alerts())
