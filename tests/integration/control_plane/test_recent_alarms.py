"""Recent alarms: those of Airflow's tasks arrive by the topic, those of API servers directly, each in one row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from fraud_control.service.alarm_log import KEPT_MS, OLD_MS, recent_alarms, record_alarm
from fraud_control.store.alarm_models import AlarmRow
from fraud_control.store.models import PositionRow
from fraud_control.sync.background import Background
from fraud_control.sync.topic_consumer import TopicConsumer
from fraud_control.sync.topic_intakes import alarm_intake
from fraud_ops.alarms import Alarm, RaisedAlarm, decode_alarm, encode_alarm
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.record_writer import append_records
from tests.support.control_plane.hostile import HOSTILE
from tests.support.control_plane.scene import Scene
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.places import ROOT

pytestmark = pytest.mark.integration
TOPIC_ROLES = ("alarms",)

STALLED = Alarm("STALLED", "detector", "batch 7 ended 41 s ago", source="http://here/run")
FLOOD = Alarm("ALERT_FLOOD", "detector", "rule 3 floods", part="rule 3")
MINUTE_MS = 60_000


def save(scene: Scene, *alarms: Alarm, after_ms: int = 0) -> None:
    scene.clock.now_ms += after_ms
    with scene.database.writing() as session:
        for alarm in alarms:
            record_alarm(session, RaisedAlarm(alarm, ("fraud_webhook",)), scene.clock())


def end_of(alarm: Alarm) -> Alarm:
    return Alarm(alarm.name, alarm.detector, "it is over", resolved=True, part=alarm.part)


def listed(scene: Scene) -> list[tuple[str, str, int, bool]]:
    """Name, part, number of messages, and whether the alarm is cleared."""
    return [(row.name, row.part, row.count, row.cleared_ms is not None) for row in recent_alarms(scene.database)]


def test_messages_of_one_alarm_are_one_row_until_it_is_cleared(scene: Scene) -> None:
    save(scene, STALLED)
    save(scene, STALLED, after_ms=MINUTE_MS)
    (row,) = recent_alarms(scene.database)
    assert (row.count, row.last_ms - row.first_ms, row.receivers) == (2, MINUTE_MS, "fraud_webhook")
    save(scene, end_of(STALLED), after_ms=MINUTE_MS)
    save(scene, STALLED, after_ms=MINUTE_MS)
    assert listed(scene) == [("STALLED", "", 1, False), ("STALLED", "", 2, True)]


def test_the_end_of_a_verdict_clears_every_verdict_about_the_detector(scene: Scene) -> None:
    crash_loop = Alarm("CRASH_LOOP", "detector", "three starts failed")
    checkpoint = Alarm("CHECKPOINT_DAMAGED", "detector", "a file is missing", part="checkpoint")
    save(scene, STALLED, crash_loop, checkpoint, FLOOD)
    save(scene, end_of(Alarm("DEAD", "detector", "")), after_ms=MINUTE_MS)
    assert {name for name, _, _, cleared in listed(scene) if cleared} == {"STALLED", "CRASH_LOOP"}


def test_alarms_about_different_parts_are_cleared_one_by_one(scene: Scene) -> None:
    other = Alarm("ALERT_FLOOD", "detector", "rule 4 floods", part="rule 4")
    save(scene, FLOOD, other)
    save(scene, end_of(FLOOD), after_ms=MINUTE_MS)
    assert sorted(listed(scene)) == [("ALERT_FLOOD", "rule 3", 1, True), ("ALERT_FLOOD", "rule 4", 1, False)]


def test_an_alarm_that_comes_back_after_a_day_is_a_new_one_and_old_ones_leave(scene: Scene) -> None:
    save(scene, STALLED)
    save(scene, STALLED, after_ms=OLD_MS)
    assert len(listed(scene)) == 2
    save(scene, FLOOD, after_ms=KEPT_MS)
    assert listed(scene) == [("ALERT_FLOOD", "rule 3", 1, False), ("STALLED", "", 1, False)]
    save(scene, FLOOD, after_ms=1)
    assert listed(scene) == [("ALERT_FLOOD", "rule 3", 2, False)]


@pytest.fixture
def intake(scene: Scene, topics: OwnTopics) -> TopicConsumer:
    return alarm_intake(scene.store, topics.kafka, topics.names.alarms, tuple)


def append(topics: OwnTopics, *values: bytes) -> None:
    append_records(topics.kafka, topics.names.alarms, [(b"key", value) for value in values])


def test_an_alarm_of_a_dag_reaches_the_store_by_the_topic(
    scene: Scene, topics: OwnTopics, intake: TopicConsumer, tmp_path: Path
) -> None:
    """The failure callback of a task runs in a process that has connections, but no store."""
    program = (
        "from types import SimpleNamespace\n"
        "from fraud_rules_airflow.dags.options import DEFAULTS\n"
        "(callback,) = DEFAULTS.default_args()['on_failure_callback']\n"
        "ti = SimpleNamespace(dag_id='fraud_archive', task_id='archive', run_id='r1', log_url='http://here/log')\n"
        "callback.notify({'ti': ti, 'exception': ValueError('no space left')})\n"
    )
    own = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:////nowhere/there-is-no-database.db",
        "AIRFLOW_CONN_FRAUD_KAFKA": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": topics.kafka.bootstrap}}
        ),
        "FRAUD_TOPICS_ALARMS": topics.names.alarms,
        "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("plugins", "spark_jobs")),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    intake.catch_up()
    (row,) = recent_alarms(scene.database)
    assert (row.name, row.part, row.source) == ("TASK_FAILED", "fraud_archive.archive", "http://here/log")
    assert row.said == "fraud_archive.archive (r1) no space left"
    assert row.receivers == "", "no receiver is configured"


def test_a_process_without_connections_leaves_the_alarms_of_tasks_to_the_api_servers(
    scene: Scene, topics: OwnTopics
) -> None:
    """`fraud store publish` would apply the records, and no receiver would get the alarms."""
    detector = DetectorSettings(topics=topics.names)
    publishing = Background(scene.store, topics.kafka, detector)
    serving = Background(scene.store, topics.kafka, detector, alarm_receivers=tuple)
    assert "alarms" not in [each.name for each in publishing.readings()]
    assert "alarms" in [each.name for each in serving.readings()]


def test_unreadable_records_are_skipped(scene: Scene, topics: OwnTopics, intake: TopicConsumer) -> None:
    long_name = encode_alarm(RaisedAlarm(STALLED)).replace(b"STALLED", b"S" * 100)
    hostile = [each for each in HOSTILE.values() if each is not None]
    append(topics, *hostile, long_name, encode_alarm(RaisedAlarm(STALLED)))
    intake.catch_up()
    assert listed(scene) == [("STALLED", "", 1, False)]
    refused = [row for row in scene.service.audit_rows().items if row.action == "alarms.refused"]
    assert len(refused) == len(hostile) + 1


def test_a_topic_that_was_recreated_is_read_from_its_beginning(
    scene: Scene, topics: OwnTopics, intake: TopicConsumer
) -> None:
    append(topics, encode_alarm(RaisedAlarm(STALLED)), encode_alarm(RaisedAlarm(STALLED)))
    intake.catch_up()
    (declared,) = [each for each in topics.declared if each.name == topics.names.alarms]
    delete_topics(topics.kafka, [declared])
    topic_admin.apply(topics.kafka, [declared])
    append(topics, encode_alarm(RaisedAlarm(FLOOD)))
    intake.catch_up()
    assert ("ALERT_FLOOD", "rule 3", 1, False) in listed(scene)
    with scene.database.reading() as session:
        assert session.get_one(PositionRow, "alarms").offset == 1
        assert len(session.scalars(select(AlarmRow)).all()) == 2


def test_a_record_has_bounded_texts() -> None:
    long = Alarm("STALLED", "detector", "x" * 100_000, part="y" * 1_000, source="http://" + "z" * 9_000)
    found = decode_alarm(encode_alarm(RaisedAlarm(long, ("fraud_smtp",)))).alarm
    assert (len(found.said), len(found.part), len(found.source)) == (4_000, 256, 2_000)
