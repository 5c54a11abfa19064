"""Damages of topics, most of them of `detector-state`, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Producer

from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.writer import MAX_RECORD_BYTES
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.runtime.compression import compress
from tests.support.kafka.own_topics import OwnTopics

Change = Callable[[str, bytes], bytes | None]
"""The new content of a head or chunk, from its name and content. None removes the record."""


def recreate_state(topics: OwnTopics) -> None:
    """Delete the topic of the state with all its records, and create it again."""
    recreate(topics, topics.names.detector_state)


def recreate(topics: OwnTopics, name: str) -> None:
    """Delete a topic with all its records, and create it again."""
    declared = [topic for topic in topics.declared if topic.name == name]
    topic_admin.delete(topics.kafka, declared)
    topic_admin.apply(topics.kafka, declared)


def state_topic(topics: OwnTopics, detector: str) -> StateTopic:
    """The state of a detector in this test's topic."""
    (declared,) = (topic for topic in topics.declared if topic.name == topics.names.detector_state)
    return StateTopic(topics.kafka, declared.name, detector, declared.partitions)


@contextmanager
def damaged_state(topics: OwnTopics, detector: str, change: Change) -> Iterator[None]:
    """Change records of all key groups, and write the original records again at the end of the block."""
    topic = state_topic(topics, detector)
    await_settled(topics.kafka, [topic.topic])
    known = {(group, name): blob for group, log in topic.read_all().items() for name, blob in log.items()}
    found = {place: change(place[1], blob) for place, blob in known.items()}
    harmed = {place: blob for place, blob in found.items() if blob != known[place]}
    assert harmed, "the change has no effect"
    write_records(topics, topic, harmed)
    yield
    write_records(topics, topic, {place: known[place] for place in harmed})


def write_records(topics: OwnTopics, topic: StateTopic, records: Mapping[tuple[int, str], bytes | None]) -> None:
    """Write records by key group and name, outside of any transaction. None writes a tombstone."""
    producer = Producer({"bootstrap.servers": topics.bootstrap, "message.max.bytes": MAX_RECORD_BYTES, "log_level": 0})
    for (group, name), blob in records.items():
        value = None if blob is None else compress(blob)
        producer.produce(topic.topic, value, topic.key_of(group, name), topic.partition_of(group))
    assert producer.flush(60.0) == 0
