"""A rule table's topic that was recreated: the alarm about its reader, and the command that continues with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from fraud_control.service.alarm_log import AlarmDesk, recent_alarms
from fraud_control.sync.cdc import cdc_intake
from fraud_control.sync.reader_state import ReaderPosition
from fraud_control.sync.topic_consumer import TopicConsumer
from fraud_control.watch.reader_watch import ALARM, ReaderWatch
from fraud_rules.configuration.project import Project
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.kafka.unread import read_unread
from tests.support.control_plane.change_events import ROW, envelope
from tests.support.control_plane.processes import PublisherProcess
from tests.support.control_plane.scene import Scene
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.waiting import until

pytestmark = pytest.mark.integration
TOPIC_ROLES = ("rules_cdc",)


@contextmanager
def running(consumer: TopicConsumer) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=consumer.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        until(lambda: not thread.is_alive(), "the reader ends")


def append(topics: OwnTopics, *values: bytes) -> None:
    append_records(topics.kafka, topics.names.rules_cdc, [(b"5", value) for value in values])


def test_a_recreated_topic_of_the_rule_table_raises_an_alarm_until_it_is_read_again(
    scene: Scene, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    topic = topics.names.rules_cdc
    append(topics, envelope("r", ROW), envelope("u", {**ROW, "limit": "30"}, ROW))
    cdc_intake(scene.store, topics.kafka, topic).catch_up()
    command = PublisherProcess(project, topics, scene.settings.database, tmp_path / "log")
    refused = command.run("reread")
    assert (refused.exit_code, "was not recreated" in refused.err) == (36, True)
    recreate(topics, topic)
    append(topics, envelope("r", {**ROW, "limit": "40"}))
    consumer = cdc_intake(scene.store, topics.kafka, topic)
    desk = AlarmDesk(scene.database, tuple, pytest.fail, scene.clock)

    def reading() -> list[ReaderPosition]:
        return [ReaderPosition(consumer.name, topic, consumer.position(), consumer.failure, shared=True)]

    watch = ReaderWatch(reading, partial(read_unread, topics.kafka), "detector", desk, scene.clock, lambda: True)
    with running(consumer):
        until(lambda: consumer.failure is not None, "the reader refuses the topic")
        watch.observe()
        scene.clock.now_ms += 60_000
        watch.observe()
        assert desk.open_parts(ALARM) == {f"cdc of {topic}"}
        assert "see the runbook drift" in recent_alarms(scene.database)[0].said
        again = command.run("reread")
        assert (again.exit_code, again.out.split()[:6]) == (0, [topic, "is", "read", "from", "offset", "0"]), again
        until(lambda: consumer.failure is None and consumer.position() == 1, "the reader continues")
        watch.observe()
    assert not desk.open_parts(ALARM)
    assert [each.document["limit"] for each in scene.service.revisions(5).items] == ["40", "30", "20.50"]
    (row,) = [each for each in scene.service.audit_rows().items if each.action == "cdc.reread"]
    assert (row.who, row.subject, row.before) == ("system:cdc", f"topic {topic}", {"offset": 2})
    assert scene.service.verify_audit().whole


def recreate(topics: OwnTopics, name: str) -> None:
    declared = [each for each in topics.declared if each.name == name]
    delete_topics(topics.kafka, declared)
    topic_admin.apply(topics.kafka, declared)
