"""The check of a checkpoint from outside: the marker, the topics that it names, and the findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fraud_ops.verdicts.checkpoint import (
    DRILL_OVERDUE,
    HISTORY_AT_RISK,
    CheckpointFacts,
    Finding,
    Grade,
    LastDrill,
    TopicFacts,
    findings,
    overall,
    table,
    unreachable,
)
from fraud_ops.verdicts.verdict import Health
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.reader import topic_ids
from fraud_rules.logs.detector_status import TrafficCounts
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import Pin
from fraud_rules_airflow.hooks.checkpoint import CheckpointHook
from tests.support.kafka.open_transaction import open_transaction
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.kafka.records import produce, read_all
from tests.support.kafka.state_damage import recreate_state, remove_records
from tests.support.kafka.timed_topics import set_topic
from tests.support.places import has_file_store
from tests.support.waiting import until

TOPIC_ROLES = ("detector_marker", "detector_progress", "detector_state", "rules", "transactions")

QUERY = "00000000-0000-4000-8000-000000000001"
KEY = b"detector"
OPEN_MS = 30_000
FACTS = CheckpointFacts(
    batch_id=7,
    progress_batch_id=7,
    age_ms=1_000,
    next_offsets={"transactions": {0: 50, 1: 60}},
    size_bytes=2**20,
)
TOPICS = TopicFacts({"transactions": {0: 55, 1: 60}})
DRILL = LastDrill(batch_id=5, marker_ms=0, took_ms=1_500, digest="c0de" * 8, orphans=2, live_bytes=2**20)
HOUR_MS = 3_600_000
FINDINGS: dict[str, tuple[dict[str, Any], dict[str, Any], Grade, Health]] = {
    "sound": ({}, {}, Grade.OK, Health.HEALTHY),
    "before the first start": (
        {"batch_id": None, "progress_batch_id": None, "age_ms": None, "next_offsets": {}}, {}, Grade.OK, Health.HEALTHY,
    ),
    "an old marker": ({"age_ms": 61_000}, {}, Grade.WARN, Health.HEALTHY),
    "a fault": ({"fault": "the marker is an older copy"}, {}, Grade.BAD, Health.CHECKPOINT_DAMAGED),
    "wrong settings": ({"fault": "key groups", "foreign": True}, {}, Grade.BAD, Health.CHECKPOINT_FOREIGN),
    "a transaction that hides records": ({"stuck": ["a transaction"]}, {}, Grade.BAD, Health.HUNG_PRODUCER),
    "a fault that a transaction may cause": (
        {"stuck": ["a transaction"], "fault": "the marker is an older copy"}, {}, Grade.BAD, Health.HUNG_PRODUCER,
    ),
    "a large state": ({"size_bytes": 60 * 2**30}, {}, Grade.WARN, Health.HEALTHY),
    "a state of unknown size": ({"size_bytes": None}, {}, Grade.OK, Health.HEALTHY),
    "a topic without compaction": ({"unsuitable": ["cleanup.policy=delete"]}, {}, Grade.BAD, Health.TOPIC_UNSUITABLE),
    "too few replicas": ({"short_of_replicas": ["detector-marker-0"]}, {}, Grade.BAD, Health.BROKER_DOWN),
    "far behind": ({}, {"ends": {"transactions": {0: 200_000, 1: 60}}}, Grade.WARN, Health.HEALTHY),
    "records are gone": ({"lost": ["transactions-0: offsets 50 to 60"]}, {}, Grade.BAD, Health.OFFSETS_LOST),
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
}  # fmt: skip


@pytest.mark.parametrize(("harm", "topics", "grade", "health"), FINDINGS.values(), ids=FINDINGS.keys())
def test_findings(harm: dict[str, Any], topics: dict[str, Any], grade: Grade, health: Health) -> None:
    traffic = TrafficCounts(0, rows=1_000, late=0, quarantined=0)
    found = findings(replace(FACTS, **harm), replace(TOPICS, **topics), traffic, drill=DRILL)
    assert overall(found) == (grade, health), table(found)


def test_without_a_broker_the_verdict_is_its_own() -> None:
    assert overall(unreachable("no Kafka answers")) == (Grade.BAD, Health.BROKER_DOWN)


def marker_of(topics: OwnTopics, batch_id: int = 7, **members: Any) -> Marker:
    """A marker that fits these topics, and reads them from their beginning."""
    names, settings = topics.names, DetectorSettings("detector", topics=topics.names)
    inputs = [names.transactions, names.rules]
    known: dict[str, Any] = {
        "end_offsets": {name: {"0": 0} for name in inputs},
        "topics": topic_ids(topics.kafka, inputs),
        "state": new_position(topics.kafka, settings),
    }
    return Marker(QUERY, batch_id, pin=Pin(batch_id, 0), **(known | members))


def write_marker(topics: OwnTopics, marker: Marker) -> None:
    produce(topics.bootstrap, topics.names.detector_marker, [marker.encode()], key=KEY)
    await_settled(topics.kafka, [topics.names.detector_marker])


def write_progress(topics: OwnTopics, batch_id: int, query_id: str = QUERY) -> None:
    record = {"queryId": query_id, "batchId": batch_id, "endOffsets": {}, "rulesEnd": 0}
    produce(topics.bootstrap, topics.names.detector_progress, [msgspec.json.encode(record)], key=KEY)
    await_settled(topics.kafka, [topics.names.detector_progress])


def write_checkpoint(topics: OwnTopics) -> None:
    """A topic of the state with two records in each partition, and the marker and the progress of batch 7."""
    (declared,) = (topic for topic in topics.declared if topic.name == topics.names.detector_state)
    for partition in range(declared.partitions):
        produce(topics.bootstrap, topics.names.detector_state, [b"a", b"b"], partition, b"other/0/head")
    write_progress(topics, 7)
    write_marker(topics, marker_of(topics))


def facts_of(topics: OwnTopics, now_ms: int = 0, **settings: Any) -> CheckpointFacts:
    hook = CheckpointHook(topics.kafka, replace(DetectorSettings("detector", topics=topics.names), **settings))
    return hook.facts(now_ms, open_ms=OPEN_MS)


def verdict_of(facts: CheckpointFacts) -> tuple[Health, str]:
    found = findings(facts, TopicFacts(), None)
    return overall(found)[1], table(found)


def test_a_sound_checkpoint_has_the_facts_of_the_marker(topics: OwnTopics) -> None:
    write_checkpoint(topics)
    (record,) = read_all(topics.bootstrap, topics.names.detector_marker)
    facts = facts_of(topics, record.timestamp()[1] + 5_000)
    assert (facts.fault, facts.batch_id, facts.progress_batch_id, facts.age_ms) == (None, 7, 7, 5_000)
    assert facts.next_offsets[topics.names.transactions] == {0: 0}
    assert not (facts.stuck or facts.lost or facts.unsuitable or facts.short_of_replicas)
    if has_file_store():
        assert facts.size_bytes is not None
        assert facts.size_bytes > len(b"other/0/head")


def test_a_detector_without_a_batch_has_no_finding(topics: OwnTopics) -> None:
    facts = facts_of(topics)
    assert (facts.fault, facts.batch_id) == (None, None)
    assert "none yet: the first start writes it" in verdict_of(facts)[1]


def test_a_missing_marker_is_damage_once_a_batch_is_written(topics: OwnTopics) -> None:
    """A start would take the detector for a new one, and write all alerts again."""
    write_progress(topics, 7)
    health, said = verdict_of(facts_of(topics))
    assert health is Health.CHECKPOINT_DAMAGED
    assert "has no marker of detector, but" in said


@pytest.mark.parametrize(("batch_id", "query_id"), [(8, QUERY), (7, "another")])
def test_a_marker_that_is_older_than_the_progress_is_damage(topics: OwnTopics, batch_id: int, query_id: str) -> None:
    write_progress(topics, batch_id, query_id)
    write_marker(topics, marker_of(topics))
    health, said = verdict_of(facts_of(topics))
    assert health is Health.CHECKPOINT_DAMAGED
    assert "the marker is an older copy" in said


def test_a_deleted_topic_of_markers_is_damage(topics: OwnTopics) -> None:
    write_checkpoint(topics)
    delete_topic(topics, topics.names.detector_marker)

    def verdict() -> tuple[Health, str] | None:
        health, said = verdict_of(facts_of(topics))
        return (health, said) if "was deleted" in said else None

    health, said = until(verdict, "the check finds that the topic was deleted")
    assert health is Health.CHECKPOINT_DAMAGED
    assert topics.names.detector_marker in said


def test_a_marker_of_a_later_version_is_foreign(topics: OwnTopics) -> None:
    produce(topics.bootstrap, topics.names.detector_marker, [b'{"epoch": 1}'], key=KEY)
    await_settled(topics.kafka, [topics.names.detector_marker])
    health, said = verdict_of(facts_of(topics))
    assert health is Health.CHECKPOINT_FOREIGN
    assert "not readable by this version" in said


def test_another_number_of_key_groups_is_foreign(topics: OwnTopics) -> None:
    write_checkpoint(topics)
    health, said = verdict_of(facts_of(topics, key_groups=8))
    assert health is Health.CHECKPOINT_FOREIGN
    assert "the state of 2 key groups, but the settings say 8" in said


def test_another_rule_log_is_foreign(topics: OwnTopics) -> None:
    marker = marker_of(topics)
    write_marker(topics, msgspec.structs.replace(marker, topics={**marker.topics, topics.names.rules: "another"}))
    health, said = verdict_of(facts_of(topics))
    assert health is Health.CHECKPOINT_FOREIGN
    assert f"an earlier topic {topics.names.rules}" in said


def test_a_state_of_an_earlier_version_is_damage(topics: OwnTopics) -> None:
    write_marker(topics, marker_of(topics, state=None))
    health, said = verdict_of(facts_of(topics))
    assert health is Health.CHECKPOINT_DAMAGED
    assert "rebuild the state" in said


def test_inputs_that_kafka_no_longer_has_are_lost_offsets(topics: OwnTopics) -> None:
    name = topics.names.transactions
    produce(topics.bootstrap, name, [b"{}"] * 3, partition=0)
    remove_records(topics, name, 2)
    write_marker(topics, marker_of(topics))
    assert verdict_of(facts_of(topics))[0] is Health.OFFSETS_LOST
    marker = marker_of(topics)
    write_marker(topics, msgspec.structs.replace(marker, topics={**marker.topics, name: "another"}))
    facts = facts_of(topics)
    assert verdict_of(facts)[0] is Health.OFFSETS_LOST
    assert "created again" in facts.lost[0]


def test_a_transaction_that_hides_the_newest_marker_is_named(topics: OwnTopics) -> None:
    """The progress then names a later batch than the marker that can be read. Only the transaction is a fault."""
    write_checkpoint(topics)
    with open_transaction(topics, topics.names.detector_marker):
        produce(topics.bootstrap, topics.names.detector_marker, [marker_of(topics, 8).encode()], key=KEY)
        write_progress(topics, 8)
        began_ms = read_all(topics.bootstrap, topics.names.detector_progress)[-1].timestamp()[1]
        health, said = verdict_of(facts_of(topics, began_ms + OPEN_MS + 1_000))
        assert health is Health.HUNG_PRODUCER
        assert "(other-" in said
        assert f"hides the records of {topics.names.detector_marker}-0" in said
    await_settled(topics.kafka, [topics.names.detector_marker])
    facts = facts_of(topics, began_ms + OPEN_MS + 1_000)
    assert (facts.fault, facts.stuck, facts.batch_id) == (None, [], 8)


def delete_topic(topics: OwnTopics, name: str) -> None:
    delete_topics(topics.kafka, [each for each in topics.declared if each.name == name])


def stop_compaction(topics: OwnTopics) -> None:
    set_topic(topics.bootstrap, topics.names.detector_state, "cleanup.policy", "delete")


@pytest.mark.parametrize(
    ("harm", "health", "said"),
    [
        (recreate_state, Health.CHECKPOINT_DAMAGED, "was created again"),
        (stop_compaction, Health.TOPIC_UNSUITABLE, "cleanup.policy=delete"),
    ],
)
def test_harm_to_the_topic_of_the_state_is_found(
    topics: OwnTopics, harm: Callable[[OwnTopics], None], health: Health, said: str
) -> None:
    """test_state_topic has all harms that the check finds."""
    write_checkpoint(topics)
    assert verdict_of(facts_of(topics))[0] is Health.HEALTHY
    harm(topics)

    def verdict() -> Health | None:
        found, text = verdict_of(facts_of(topics))
        return found if said in text else None

    assert until(verdict, f"the check finds that the topic {said}") is health


def test_too_few_replicas_are_found(topics: OwnTopics) -> None:
    write_checkpoint(topics)
    set_topic(topics.bootstrap, topics.names.detector_marker, "min.insync.replicas", "2")
    name = f"{topics.names.detector_marker}-0"
    found = until(lambda: facts_of(topics).short_of_replicas, "the setting is in force")
    assert found == [f"{name} has 1 of 1 replicas in sync, and needs 2"]


def test_the_oldest_unread_record_is_read_from_kafka(topics: OwnTopics) -> None:
    """Half of the seven days that transactions are kept, before retention removes one that was not read."""
    name = topics.names.transactions
    produce(topics.bootstrap, name, [b"{}"] * 3, partition=0)
    produce(topics.bootstrap, name, [b"{}"] * 2, partition=1)
    facts = replace(FACTS, next_offsets={name: {0: 1, 1: 2}, topics.names.rules: {0: 0}})
    appended_ms = read_all(topics.bootstrap, name)[1].timestamp()[1]
    half_ms = 302_400_000
    hook = CheckpointHook(topics.kafka, DetectorSettings("detector", topics=topics.names))

    def found(now_ms: int) -> tuple[TopicFacts, Finding]:
        seen = hook.topics(facts, now_ms)
        return seen, next(each for each in findings(facts, seen, None) if each.check == "input offsets")

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
        return overall(findings(FACTS, TOPICS, traffic, drill=DRILL))[0]

    assert [grade(50, 0), grade(51, 0), grade(0, 52), grade(0, 53)] == [Grade.OK, Grade.WARN, Grade.OK, Grade.WARN]


def test_growth_is_against_the_check_before() -> None:
    """A small state may grow as it likes."""
    mib = 2**20
    grown, drill = replace(FACTS, size_bytes=500 * mib), replace(DRILL, live_bytes=400 * mib)
    found = [
        overall(findings(grown, TOPICS, None, before_mib and before_mib * mib, drill))[0]
        for before_mib in (None, 99, 100, 249, 250)
    ]
    assert found == [Grade.OK, Grade.OK, Grade.WARN, Grade.WARN, Grade.OK]


def test_a_small_live_share_of_a_large_state_log_is_a_warning() -> None:
    """The log cleaner of Kafka is behind or has ended. A small log is not compacted yet."""

    def finding(size_mib: int) -> Finding:
        facts, drill = replace(FACTS, size_bytes=size_mib * 2**20), replace(DRILL, live_bytes=50 * 2**20)
        return named("live share", facts, drill)

    assert [finding(mib).grade for mib in (149, 151)] == [Grade.OK, Grade.WARN]
    assert finding(151).value == "50.0 MiB of 151.0 MiB, 2 orphans"
    assert named("live share", FACTS, replace(DRILL, live_bytes=0)).grade is Grade.OK


def test_a_drill_that_is_older_than_its_schedule_allows_raises_an_alarm() -> None:
    facts = [replace(FACTS, now_ms=26 * HOUR_MS + late_ms) for late_ms in (0, 1)]
    found = [named("restore drill", each, DRILL) for each in facts]
    assert [(each.grade, each.alarm) for each in found] == [(Grade.OK, None), (Grade.WARN, DRILL_OVERDUE)]
    assert found[0].value == "batch 5 26.0 hours ago, in 1.5 s, digest c0dec0dec0dec0de"


def test_a_detector_without_a_drill_is_a_warning_once_it_has_a_batch() -> None:
    found = [named("restore drill", replace(FACTS, batch_id=batch_id), None) for batch_id in (None, 7)]
    assert [each.grade for each in found] == [Grade.OK, Grade.WARN]


def named(check: str, facts: CheckpointFacts, drill: LastDrill | None) -> Finding:
    found = findings(facts, TOPICS, None, drill=drill)
    return next(each for each in found if each.check == check)
