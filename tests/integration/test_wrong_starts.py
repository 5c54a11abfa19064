"""Starts that cannot work, with an agent and the real detector: each has a verdict, and changes nothing.

All tests share one installation, in order. Its detector has worked, lost its broker and was drained. It works again at
the end.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from fraud_ops.hooks.observer import DetectorObserver
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.verdict import Health, Limits, Verdict
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.deploy.attempt import AttemptPhase
from fraud_rules.deploy.intent import Rebuild
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import read_topic, topic_ends
from fraud_rules.kafka.declared import load_topics
from fraud_rules.kafka.writer import last_record
from fraud_rules.logs.detector_status import BatchProgress, decode_progress
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.kafka.timed_topics import date_by_producer
from tests.support.ports import free_ports
from tests.support.processes.fraud_command import environment
from tests.support.processes.running_agent import Operations
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LONG = pytest.mark.long
"""For faults with a test without an agent, in test_lost_offsets or test_append_times, or in test_checkpoint or
test_start_options of unit/stream."""

Harm = Callable[[bytes], bytes | None]


class World:
    """An installation with one detector."""

    def __init__(self, home: Path, project: Project, broker: Broker) -> None:
        prefix = f"w{uuid.uuid4().hex[:8]}-"
        names = TopicNames(**{field.name: prefix + str(field.default) for field in dataclasses.fields(TopicNames)})
        self.broker = broker
        self.topics = OwnTopics(broker.bootstrap, prefix, names, load_topics(project.config / "topics.yaml", prefix))
        topic_admin.apply(broker.kafka, self.topics.declared)
        self.ops = Operations(home, project, self.topics)
        self._settings = DetectorSettings.load(project.config / "detector.yaml", environment(self.topics))
        self._watch = DetectorObserver(broker.kafka, self._settings)

    def verdict(self) -> Verdict:
        return assess_detector(self._watch.observe(), Limits(), now_ms())

    def await_health(self, wanted: Health) -> Verdict:
        def reached() -> Verdict | None:
            verdict = self.verdict()
            return verdict if verdict.health is wanted else None

        return until(reached, f"the verdict is {wanted}")

    def run(self) -> None:
        self.ops.decide(self.ops.release())
        self.await_health(Health.HEALTHY)

    def outlive_a_broker_outage(self) -> None:
        self.broker.kill()
        self.await_health(Health.BROKER_DOWN)
        self.broker.start()

    def drain(self) -> None:
        self.ops.decide(None)
        self.await_health(Health.STOPPED)

    def refused(self, **options: str) -> Verdict:
        """Append an intent that the agent must refuse. Return the verdict."""
        self.ops.await_phase(self.ops.decide(self.ops.release(**options)), AttemptPhase.REFUSED)
        return self.verdict()

    def kept(self) -> object:
        """What must not change: the ends of the output topics, of the marker and of the state."""
        names = self.topics.names
        return [
            topic_ends(self.broker.kafka, name)
            for name in (names.alerts, names.detector_marker, names.detector_progress, names.detector_state)
        ]

    def marker(self) -> bytes:
        """The record of the newest marker."""
        detector = self._settings.detector.encode()
        text = last_record(self.broker.kafka, self.topics.names.detector_marker, detector)
        assert text is not None
        return text

    def write_marker(self, marker: bytes | None) -> None:
        """Write another record in place of the newest marker; None deletes it."""
        detector = self._settings.detector.encode()
        produce(self.topics.bootstrap, self.topics.names.detector_marker, [marker], key=detector)


@pytest.fixture(scope="module")
def world(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("wrong")
    broker = Broker(home / "broker", *free_ports(2), project)
    broker.start()
    world = World(home, project, broker)
    try:
        world.ops.agent()
        world.run()
        world.outlive_a_broker_outage()
        world.drain()
        yield world
    finally:
        world.ops.end()
        broker.kill()


@LONG
def test_a_missing_master_is_refused(world: World) -> None:
    before = world.kept()
    verdict = world.refused(master="spark://127.0.0.1:9")
    assert (verdict.health, verdict.error) == (Health.REFUSED, "MasterUnavailable"), verdict
    assert world.kept() == before


@pytest.mark.long
def test_a_topic_with_producer_timestamps_is_refused(world: World) -> None:
    name, before = world.topics.names.transactions, world.kept()
    date_by_producer(world.topics, name)
    verdict = world.refused()
    assert (verdict.health, verdict.error) == (Health.TOPIC_UNSUITABLE, "TopicUnsuitable"), verdict
    assert f"{name} has message.timestamp.type=CreateTime" in str(verdict)
    assert world.kept() == before
    topic_admin.apply(world.broker.kafka, world.topics.declared)


def with_members(**changed: object) -> Harm:
    """The marker has other members."""
    return lambda marker: json.dumps({**json.loads(marker), **changed}).encode()


def of_topics(marker: bytes) -> bytes:
    """The marker has the offsets of other topics."""
    topics = {f"old-{name}": identity for name, identity in json.loads(marker)["topics"].items()}
    return with_members(topics=topics)(marker)


def of_another_cluster(marker: bytes) -> bytes:
    """The marker has the offsets of topics with the same names, which have other ids in another cluster."""
    return with_members(topics={name: f"other-{name}" for name in json.loads(marker)["topics"]})(marker)


def with_fields(marker: bytes) -> bytes:
    """The marker has another field."""
    return with_members(fields={**json.loads(marker)["fields"], "branch": ["long", False, 0]})(marker)


@pytest.mark.parametrize(
    ("harm", "expected", "error"),
    [
        pytest.param(of_topics, Health.CHECKPOINT_FOREIGN, "CheckpointForeign", id="of other topics", marks=LONG),
        pytest.param(of_another_cluster, Health.CHECKPOINT_FOREIGN, "CheckpointForeign", id="of another cluster"),
        pytest.param(with_fields, Health.CHECKPOINT_FOREIGN, "CheckpointForeign", id="of another schema", marks=LONG),
        pytest.param(
            with_members(format=2),
            Health.CHECKPOINT_FOREIGN,
            "CheckpointForeign",
            id="of a later version",
            marks=LONG,
        ),
        pytest.param(lambda marker: b"{", Health.CHECKPOINT_DAMAGED, "CheckpointDamaged", id="unreadable", marks=LONG),
        pytest.param(lambda marker: None, Health.CHECKPOINT_DAMAGED, "CheckpointDamaged", id="missing", marks=LONG),
        pytest.param(
            with_members(batchId=0), Health.CHECKPOINT_DAMAGED, "CheckpointDamaged", id="an older copy", marks=LONG
        ),
    ],
)
def test_a_wrong_checkpoint_is_refused(harm: Harm, expected: Health, error: str, world: World) -> None:
    right = world.marker()
    world.write_marker(harm(right))
    before = world.kept()
    try:
        verdict = world.refused()
        assert (verdict.health, verdict.error) == (expected, error), verdict
        assert world.kept() == before
    finally:
        world.write_marker(right)


def transactions(count: int) -> list[bytes]:
    record = {"transactionId": 0, "eventTime": 0, "payeeId": 1, "beneficiaryId": 2, "paymentType": "CSH"}
    now = now_ms()
    return [
        json.dumps({**record, "transactionId": i, "eventTime": now, "paymentAmount": 1}).encode() for i in range(count)
    ]


def lose_unread_records(world: World) -> str:
    """Retention removes some of the records that came while the detector was stopped."""
    name = world.topics.names.transactions
    begin = topic_ends(world.broker.kafka, name)[0]
    produce(world.topics.bootstrap, name, transactions(50), partition=0)
    admin = AdminClient({"bootstrap.servers": world.topics.bootstrap})
    for done in admin.delete_records([TopicPartition(name, 0, begin + 20)]).values():
        done.result()
    return f"{name}-0 from {begin} to {begin + 20}: 20 records"


def recreate_the_topic(world: World) -> str:
    name = world.topics.names.transactions
    declared = [topic for topic in world.topics.declared if topic.name == name]
    topic_admin.delete(world.broker.kafka, declared)
    topic_admin.apply(world.broker.kafka, declared)
    produce(world.topics.bootstrap, name, transactions(10), partition=0)
    return "the topic was created again and begins at 0"


@pytest.mark.parametrize("lose", [lose_unread_records, pytest.param(recreate_the_topic, marks=LONG)])
def test_unread_lost_records_are_refused_until_accepted(lose: Callable[[World], str], world: World) -> None:
    """The accepted start continues from the right checkpoint, after a broker outage and after wrong checkpoints."""
    names = world.topics.names
    loss, before = lose(world), world.kept()
    verdict = world.refused()
    assert (verdict.health, verdict.error) == (Health.OFFSETS_LOST, "OffsetsLost"), verdict
    assert loss in str(verdict)
    assert world.kept() == before

    record = world.ops.decide(world.ops.release(), accept_loss=True)
    world.await_health(Health.HEALTHY)
    ends = topic_ends(world.broker.kafka, names.transactions)
    until(lambda: progress_of(world)[-1].ends_of(names.transactions) == ends, "the rest is read")
    attempt_id = record.intent.attempt_id
    lost = [each for batch in progress_of(world) if batch.attempt == attempt_id for each in batch.lost]
    assert loss in str(lost[0])
    assert len(lost) == len({(each.topic, each.partition) for each in lost}), "each loss is reported once"
    log = world.ops.home.attempt(attempt_id).log.read_text()
    assert loss in log
    world.drain()


def progress_of(world: World) -> list[BatchProgress]:
    records = read_topic(world.broker.kafka, world.topics.names.detector_progress)[0]
    return [decode_progress(record.value) for record in records if record.value is not None]


@LONG
def test_a_rebuild_through_the_agent_replaces_a_lost_marker(world: World) -> None:
    names = world.topics.names
    known = json.loads(world.marker())
    world.write_marker(None)
    alerts = topic_ends(world.broker.kafka, names.alerts)
    verdict = world.refused()
    assert (verdict.health, verdict.error) == (Health.CHECKPOINT_DAMAGED, "CheckpointDamaged"), verdict

    record = world.ops.decide(world.ops.release(), rebuild=Rebuild(partial=True))

    world.await_health(Health.HEALTHY)
    marker = json.loads(world.marker())
    assert (marker["queryId"], marker["rebuild"]) == (known["queryId"], record.intent.attempt_id)
    assert marker["batchId"] > known["batchId"]
    assert topic_ends(world.broker.kafka, names.alerts) == alerts
    world.drain()
