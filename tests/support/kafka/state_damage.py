"""Damages of topics, most of them of `detector-state`, on a real broker."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.writer import MAX_RECORD_BYTES
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.runtime.compression import compress
from tests.support.kafka.own_topics import OwnTopics, delete_topics


def recreate_state(topics: OwnTopics) -> None:
    """Delete the topic of the state with all its records, and create it again."""
    recreate(topics, topics.names.detector_state)


def recreate(topics: OwnTopics, name: str) -> None:
    """Delete a topic with all its records, and create it again."""
    declared = [topic for topic in topics.declared if topic.name == name]
    delete_topics(topics.kafka, declared)
    topic_admin.apply(topics.kafka, declared)


def remove_records(topics: OwnTopics, name: str, before: int, partition: int = 0) -> None:
    """Remove the records before an offset, as retention does. -1 removes all."""
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    for done in admin.delete_records([TopicPartition(name, partition, before)]).values():
        done.result(180)


def state_topic(topics: OwnTopics, detector: str) -> StateTopic:
    """The state of a detector in this test's topic."""
    (declared,) = (topic for topic in topics.declared if topic.name == topics.names.detector_state)
    return StateTopic(topics.kafka, declared.name, detector, declared.partitions)


def write_records(topics: OwnTopics, topic: StateTopic, records: Mapping[tuple[int, str], bytes | None]) -> None:
    """Write records by key group and name, outside of any transaction. None writes a tombstone."""
    producer = Producer({"bootstrap.servers": topics.bootstrap, "message.max.bytes": MAX_RECORD_BYTES, "log_level": 0})
    for (group, name), blob in records.items():
        value = None if blob is None else compress(blob)
        producer.produce(topic.topic, value, topic.key_of(group, name), topic.partition_of(group))
    assert producer.flush(60.0) == 0
