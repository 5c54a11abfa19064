"""The check of a checkpoint from outside: Spark's files, and the findings."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import crc32c
import pytest

from fraud_ops.hooks.checkpoint import CheckpointHook
from fraud_ops.verdicts.checkpoint import (
    HISTORY_AT_RISK,
    CheckpointFacts,
    CheckpointLimits,
    Finding,
    Grade,
    TopicFacts,
    findings,
    overall,
    table,
)
from fraud_ops.verdicts.verdict import Health
from fraud_rules.logs.detector_status import TrafficCounts
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all

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
    """A checkpoint after three batches, the third planned only, with one state partition."""
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
        name = f"{batch + 1}_{QUERY}.changelog"
        put(root / "state" / "0" / "0" / name, f"changes of batch {batch}".encode() * 100, spark=True)
    return root


def put(path: Path, content: bytes, *, hadoop: bool = False, spark: bool = False) -> None:
    """A file, and its checksum as Hadoop or as Spark writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if hadoop:
        sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
        beside = path.with_name(f".{path.name}.crc")
        beside.write_bytes(b"crc\x00" + struct.pack(f">i{len(sums)}I", 512, *sums))
    if spark:
        (value,) = struct.unpack(">i", struct.pack(">I", crc32c.crc32c(content)))
        document = {"algorithm": "CRC32C", "value": value, "mainFileSize": len(content)}
        path.with_name(f"{path.name}.crc").write_text(json.dumps(document))


def facts(root: Path) -> CheckpointFacts:
    return CheckpointHook(str(root)).facts("detector")


def test_an_intact_checkpoint_has_no_finding(root: Path) -> None:
    seen = facts(root)
    assert seen.fault is None
    assert (seen.planned, seen.committed) == (2, 1)
    assert seen.next_offsets == {"transactions": {0: 10}}
    assert seen.checked_files == 7
    assert not seen.damaged
    assert not seen.behind
    assert seen.size_bytes > 3_000


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
        (f"state/0/0/2_{QUERY}.changelog", Health.CHECKPOINT_DAMAGED, "ends at version 1, not 2"),
    ],
)
def test_a_missing_file_is_found(root: Path, harm: str, health: Health | None, said: str) -> None:
    (root / harm).unlink()
    found = findings(facts(root), TopicFacts(), None, CheckpointLimits())
    grade, verdict = overall(found)
    assert (grade is Grade.BAD) is (health is not None)
    assert health in (None, verdict)
    assert said in table(found)


@pytest.mark.parametrize("name", ["offsets/1", f"state/0/0/2_{QUERY}.changelog"])
def test_a_changed_byte_is_found(root: Path, name: str) -> None:
    path = root / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1 if name.startswith("state") else 0
    content[1] ^= 3 if name.startswith("offsets") else 0  # v1 becomes v2, which is read without complaint
    path.write_bytes(bytes(content))
    assert list(facts(root).damaged) == [name]


def test_an_unfinished_file_of_a_killed_detector_is_no_damage(root: Path) -> None:
    put(root / "state" / "0" / "0" / f".3_{QUERY}.changelog.7f.tmp", b"half a fi", spark=True)
    (root / "state" / "0" / "0" / f".3_{QUERY}.changelog.7f.tmp").write_bytes(b"half")
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
