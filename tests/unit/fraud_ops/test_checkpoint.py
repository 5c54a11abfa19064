"""The check of a checkpoint and of the state from outside: Spark's files, the topic of the state, and the findings."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from fraud_ops.hooks.checkpoint import CheckpointHook
from fraud_ops.verdicts.checkpoint import (
    HISTORY_AT_RISK,
    CheckpointFacts,
    CheckpointLimits,
    Finding,
    Grade,
    StateFacts,
    TopicFacts,
    findings,
    overall,
    table,
)
from fraud_ops.verdicts.verdict import Health
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.suitable import settings_of_topic
from fraud_rules.logs.detector_status import TrafficCounts
from fraud_rules.stream.driver.marker import Marker
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import Pin
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.kafka.timed_topics import set_topic
from tests.support.waiting import until

QUERY = "00000000-0000-4000-8000-000000000001"
FACTS = CheckpointFacts(
    "/checkpoint",
    planned=8,
    committed=7,
    commit_age_ms=1_000,
    checked_files=3,
    size_bytes=2**20,
    files=9,
    free_bytes=2**40,
    next_offsets={"transactions": {0: 50, 1: 60}},
)
TOPICS = TopicFacts({"transactions": {0: 0, 1: 0}}, {"transactions": {0: 55, 1: 60}})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkpoint after three batches, the third planned only."""
    root = tmp_path / "checkpoint"
    put(root / "detector.json", json.dumps({"detector": "detector", "format": 1}).encode())
    put(root / "metadata", json.dumps({"id": QUERY}).encode())
    for batch in range(3):
        end = json.dumps({"transactions": {"0": 10 * batch}})
        put(root / "offsets" / str(batch), f"v1\n{{}}\n{end}".encode(), hadoop=True)
        pin = json.dumps({"batchId": batch, "rulesEnd": 0})
        put(root / "pins" / str(batch), pin.encode())
    for batch in range(2):
        put(root / "commits" / str(batch), b'v2\n{"nextBatchWatermarkMs":0}', hadoop=True)
    return root


def put(path: Path, content: bytes, *, hadoop: bool = False) -> None:
    """A file, and its checksum as Hadoop writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if hadoop:
        sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
        beside = path.with_name(f".{path.name}.crc")
        beside.write_bytes(b"crc\x00" + struct.pack(f">i{len(sums)}I", 512, *sums))


def facts(root: Path) -> CheckpointFacts:
    return CheckpointHook(str(root)).facts("detector")


def test_an_intact_checkpoint_has_no_finding(root: Path) -> None:
    seen = facts(root)
    assert seen.fault is None
    assert (seen.planned, seen.committed) == (2, 1)
    assert seen.next_offsets == {"transactions": {0: 10}}
    assert seen.checked_files == 5
    assert not seen.damaged
    assert seen.size_bytes > 300


def test_a_check_changes_no_file(root: Path) -> None:
    def files() -> dict[str, tuple[int, bytes]]:
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}

    before = files()
    facts(root)
    assert files() == before


@pytest.mark.parametrize(
    ("harm", "health", "said"),
    [
        ("detector.json", Health.CHECKPOINT_FOREIGN, "has no detector.json"),
        ("metadata", Health.CHECKPOINT_DAMAGED, "metadata is missing"),
        ("offsets/1", Health.CHECKPOINT_DAMAGED, "has gaps"),
        ("commits/0", None, ""),
        ("pins/1", Health.CHECKPOINT_DAMAGED, "lacks pins"),
    ],
)
def test_a_missing_file_is_found(root: Path, harm: str, health: Health | None, said: str) -> None:
    (root / harm).unlink()
    found = findings(facts(root), TopicFacts(), None, CheckpointLimits())
    grade, verdict = overall(found)
    assert (grade is Grade.BAD) is (health is not None)
    assert health in (None, verdict)
    assert said in table(found)


def test_a_changed_byte_is_found(root: Path) -> None:
    path = root / "offsets" / "1"
    content = bytearray(path.read_bytes())
    content[1] ^= 3  # v1 becomes v2, which is read without complaint
    path.write_bytes(bytes(content))
    assert list(facts(root).damaged) == ["offsets/1"]


@pytest.mark.parametrize("checksum", [b"", b"crc", b"crc\x00\x00\x00", b"crc\x00\x00\x00\x00\x00", b"no checksum"])
def test_a_damaged_checksum_is_found(root: Path, checksum: bytes) -> None:
    (root / "offsets" / ".1.crc").write_bytes(checksum)
    assert list(facts(root).damaged) == ["offsets/1"]


def test_an_unfinished_file_of_a_killed_detector_is_no_damage(root: Path) -> None:
    put(root / "offsets" / ".3.7f.tmp", b"half a fi", hadoop=True)
    (root / "offsets" / ".3.7f.tmp").write_bytes(b"half")
    assert not facts(root).damaged


def test_a_foreign_checkpoint_is_found(root: Path) -> None:
    seen = CheckpointHook(str(root)).facts("other")
    assert seen.foreign
    found = findings(seen, TopicFacts(), None, CheckpointLimits(), starting=True)
    assert overall(found) == (Grade.BAD, Health.CHECKPOINT_FOREIGN)


def test_a_missing_checkpoint_is_a_fault_except_at_a_start(root: Path) -> None:
    shutil.rmtree(root)
    seen = facts(root)
    found = findings(seen, TopicFacts(), None, CheckpointLimits(), starting=True)
    assert overall(found) == (Grade.OK, Health.HEALTHY)
    assert "not there yet" in table(found)
    found = findings(seen, TopicFacts(), None, CheckpointLimits(), starting=False)
    assert overall(found) == (Grade.BAD, Health.CHECKPOINT_FOREIGN)


FINDINGS = {
    "sound": ({}, {}, Grade.OK, Health.HEALTHY),
    "an old commit": ({"commit_age_ms": 61_000}, {}, Grade.WARN, Health.HEALTHY),
    "large": ({"size_bytes": 60 * 2**30}, {}, Grade.WARN, Health.HEALTHY),
    "little space": ({"free_bytes": 2 * 2**30}, {}, Grade.WARN, Health.HEALTHY),
    "no space": ({"free_bytes": 2**20}, {}, Grade.BAD, Health.DISK_FULL),
    "far behind": ({}, {"ends": {"transactions": {0: 200_000, 1: 60}}}, Grade.WARN, Health.HEALTHY),
    "retention has taken what is needed": (
        {}, {"starts": {"transactions": {0: 51, 1: 0}}}, Grade.BAD, Health.CHECKPOINT_DAMAGED,
    ),
    "the topic was made again": (
        {}, {"ends": {"transactions": {0: 3, 1: 60}}}, Grade.BAD, Health.CHECKPOINT_DAMAGED,
    ),
    "unread records, half way to their removal": (
        {}, {"unread_ages_ms": {"transactions": {1: 302_400_001}}, "retentions_ms": {"transactions": 604_800_000}},
        Grade.WARN, Health.HEALTHY,
    ),
    "unread records, not half way yet": (
        {}, {"unread_ages_ms": {"transactions": {1: 302_400_000}}, "retentions_ms": {"transactions": 604_800_000}},
        Grade.OK, Health.HEALTHY,
    ),
    "unread records that are kept for ever": (
        {}, {"unread_ages_ms": {"rules": {0: 10**12}}, "retentions_ms": {"rules": None}}, Grade.OK, Health.HEALTHY,
    ),
    "no broker": ({}, {"fault": "no Kafka answers"}, Grade.BAD, Health.BROKER_DOWN),
    "no broker, and a checksum is wrong": (
        {"damaged": ["offsets/1"]}, {"fault": "no Kafka answers"}, Grade.BAD, Health.CHECKPOINT_DAMAGED,
    ),
    "a checksum is wrong": ({"damaged": ["offsets/1"]}, {}, Grade.BAD, Health.CHECKPOINT_DAMAGED),
}  # fmt: skip


@pytest.mark.parametrize(("harm", "topics", "grade", "health"), FINDINGS.values(), ids=FINDINGS.keys())
def test_findings(harm: dict[str, object], topics: dict[str, object], grade: Grade, health: Health) -> None:
    changed = replace(FACTS, **harm)  # type: ignore[arg-type]
    traffic = TrafficCounts(0, rows=1_000, late=0, quarantined=0)
    found = findings(changed, replace(TOPICS, **topics), traffic, CheckpointLimits())  # type: ignore[arg-type]
    assert overall(found) == (grade, health), table(found)


@pytest.mark.parametrize(
    ("state", "grade", "health"),
    [
        (StateFacts(), Grade.OK, Health.HEALTHY),
        (StateFacts(batch_id=7), Grade.OK, Health.HEALTHY),
        (StateFacts(fault="was deleted"), Grade.BAD, Health.CHECKPOINT_DAMAGED),
        (StateFacts(fault="other key groups", foreign=True), Grade.BAD, Health.CHECKPOINT_FOREIGN),
        (StateFacts(batch_id=7, unsuitable=["cleanup.policy=delete"]), Grade.BAD, Health.TOPIC_UNSUITABLE),
    ],
)
def test_findings_about_the_state(state: StateFacts, grade: Grade, health: Health) -> None:
    found = findings(FACTS, TOPICS, None, CheckpointLimits(), state=state)
    assert overall(found) == (grade, health), table(found)


def write_state(topics: OwnTopics) -> DetectorSettings:
    """A topic with two records in each partition, and the marker of batch 7 with that state."""
    settings, names = DetectorSettings("detector", topics=topics.names), topics.names
    for partition in range(8):
        produce(topics.bootstrap, names.detector_state, [b"a", b"b"], partition, b"other/0/head")
    marker = Marker(QUERY, 7, {}, Pin(7, 0), state=new_position(topics.kafka, settings))
    produce(topics.bootstrap, names.detector_marker, [marker.encode()], key=b"detector")
    await_settled(topics.kafka, [names.detector_marker])
    return settings


def delete_topic(topics: OwnTopics) -> None:
    topic_admin.delete(topics.kafka, [each for each in topics.declared if each.name == topics.names.detector_state])


def recreate_topic(topics: OwnTopics) -> None:
    delete_topic(topics)
    topic_admin.apply(topics.kafka, topics.declared)


def truncate_topic(topics: OwnTopics) -> None:
    """The broker deletes records of a compacted topic only with another cleanup policy."""
    name, admin = topics.names.detector_state, AdminClient({"bootstrap.servers": topics.bootstrap})
    set_topic(topics.bootstrap, name, "cleanup.policy", "compact,delete")
    until(lambda: settings_of_topic(topics.kafka, name)["cleanup.policy"] != "compact", "the policy is changed")
    for done in admin.delete_records([TopicPartition(name, 3, 1)]).values():
        done.result()
    set_topic(topics.bootstrap, name, "cleanup.policy", "compact")


def add_a_partition(topics: OwnTopics) -> None:
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    for done in admin.create_partitions([NewPartitions(topics.names.detector_state, 9)]).values():
        done.result()


def stop_compaction(topics: OwnTopics) -> None:
    set_topic(topics.bootstrap, topics.names.detector_state, "cleanup.policy", "delete")


def limit_records(topics: OwnTopics) -> None:
    set_topic(topics.bootstrap, topics.names.detector_state, "max.message.bytes", "1048576")


@pytest.mark.parametrize(
    ("harm", "health", "said"),
    [
        (delete_topic, Health.CHECKPOINT_DAMAGED, "was deleted"),
        (recreate_topic, Health.CHECKPOINT_DAMAGED, "was created again"),
        (truncate_topic, Health.CHECKPOINT_DAMAGED, "-3 was truncated"),
        (add_a_partition, Health.CHECKPOINT_DAMAGED, "has 9 partitions"),
        (stop_compaction, Health.TOPIC_UNSUITABLE, "cleanup.policy=delete"),
        (limit_records, Health.TOPIC_UNSUITABLE, "max.message.bytes=1048576"),
    ],
)
def test_harm_to_the_topic_of_the_state_is_found(
    root: Path, topics: OwnTopics, harm: Callable[[OwnTopics], None], health: Health, said: str
) -> None:
    settings, hook = write_state(topics), CheckpointHook(str(root))
    intact = findings(FACTS, TOPICS, None, CheckpointLimits(), state=hook.state(topics.kafka, settings))
    assert "| state topic | holds the state of batch 7 | OK |" in table(intact)
    harm(topics)

    def verdict() -> Health | None:
        found = findings(FACTS, TOPICS, None, CheckpointLimits(), state=hook.state(topics.kafka, settings))
        grade, health = overall(found)
        return health if grade is Grade.BAD and said in table(found) else None

    assert until(verdict, f"the check finds that the topic {said}") is health


def test_another_number_of_key_groups_is_foreign(root: Path, topics: OwnTopics) -> None:
    settings = replace(write_state(topics), key_groups=4)
    state = CheckpointHook(str(root)).state(topics.kafka, settings)
    assert state.foreign
    assert "the state of 8 key groups, but the settings say 4" in str(state.fault)


def test_a_state_of_an_earlier_version_is_found(root: Path, topics: OwnTopics) -> None:
    settings, marker = DetectorSettings("detector", topics=topics.names), Marker(QUERY, 7, {}, Pin(7, 0))
    produce(topics.bootstrap, topics.names.detector_marker, [marker.encode()], key=b"detector")
    await_settled(topics.kafka, [topics.names.detector_marker])
    state = CheckpointHook(str(root)).state(topics.kafka, settings)
    assert "rebuild the state" in str(state.fault)


def test_a_detector_without_state_has_no_finding(root: Path, topics: OwnTopics) -> None:
    settings = DetectorSettings("detector", topics=topics.names)
    assert CheckpointHook(str(root)).state(topics.kafka, settings) == StateFacts()


def test_the_oldest_unread_record_is_read_from_kafka(root: Path, topics: OwnTopics) -> None:
    """Half of the seven days that transactions are kept, before retention removes one that was not read."""
    name = topics.names.transactions
    produce(topics.bootstrap, name, [b"{}"] * 3, partition=0)
    produce(topics.bootstrap, name, [b"{}"] * 2, partition=1)
    facts = replace(FACTS, next_offsets={name: {0: 1, 1: 2}, topics.names.rules: {0: 0}})
    appended_ms = read_all(topics.bootstrap, name)[1].timestamp()[1]
    half_ms = 302_400_000

    def found(now_ms: int) -> tuple[TopicFacts, Finding]:
        seen = CheckpointHook(str(root)).topics(topics.kafka, facts, now_ms)
        return seen, next(
            each for each in findings(facts, seen, None, CheckpointLimits()) if each.check == "source offsets"
        )

    seen, before = found(appended_ms + half_ms)
    assert seen.unread_ages_ms == {name: {0: half_ms}, topics.names.rules: {}}
    assert seen.retentions_ms == {name: 2 * half_ms, topics.names.rules: None}
    assert (before.grade, before.alarm) == (Grade.OK, None)
    _, after = found(appended_ms + half_ms + 1)
    assert (after.grade, after.alarm) == (Grade.WARN, HISTORY_AT_RISK)
    assert after.value == f"{name}-0: the oldest unread record is 3.5 days old; retention is 7.0 days"


def test_many_late_or_quarantined_records_are_a_warning() -> None:
    def grade(late: int, quarantined: int) -> Grade:
        traffic = TrafficCounts(0, rows=1_000, late=late, quarantined=quarantined)
        return overall(findings(FACTS, TOPICS, traffic, CheckpointLimits()))[0]

    assert [grade(50, 0), grade(51, 0), grade(0, 52), grade(0, 53)] == [Grade.OK, Grade.WARN, Grade.OK, Grade.WARN]


def test_growth_is_against_the_check_before() -> None:
    grades = [
        overall(findings(FACTS, TOPICS, None, CheckpointLimits(), size_before))[0]
        for size_before in (None, 2**20, 2**20 + 1, 4 * 2**20)
    ]
    assert grades == [Grade.OK] * 4
    grown = replace(FACTS, size_bytes=5 * 2**20)
    assert overall(findings(grown, TOPICS, None, CheckpointLimits(), 2 * 2**20))[0] is Grade.WARN
