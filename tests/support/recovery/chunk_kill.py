"""Kills a detector between the chunks that its tasks write and the transaction that would name them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from fraud_rules.engine.state.head import decode_head
from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.state_topic import HEAD, StateTopic
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.state_damage import state_topic
from tests.support.processes.running_detector import RunningDetector
from tests.support.processes.signals import send_signal
from tests.support.waiting import until


def kill_after_a_chunk(detector: RunningDetector, topics: OwnTopics) -> bool:
    """Kill all processes when a task has written a chunk. Return whether the batch of the chunk was not written.

    Tasks must write all chunks, see `with_constants`.
    """
    topic = state_topic(topics, detector.installation.settings.detector)
    members = detector.members()
    await_chunk(topic)
    send_signal(members, signal.SIGKILL)
    detector.kill()
    return bool(_orphans(topic))


def await_chunk(topic: StateTopic) -> None:
    """Return once another chunk is in the topic, committed or not."""
    consumer = Consumer(
        topic.kafka.confluent(
            {
                "group.id": "chunks",
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 5,
                "log_level": 0,
            }
        )
    )
    with contextlib.closing(consumer):
        places = [TopicPartition(topic.topic, partition) for partition in range(topic.partitions)]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place)[1]
        consumer.assign(places)
        until(_next_chunk(consumer), "a task writes a chunk", every_s=0.0)


def _next_chunk(consumer: Consumer) -> Callable[[], bool]:
    def has_come() -> bool:
        message = consumer.poll(0.05)
        if message is None or message.error() is not None or message.value() is None:
            return False
        return not (message.key() or b"").endswith(b"/" + HEAD.encode())

    return has_come


def _orphans(topic: StateTopic) -> set[tuple[int, str]]:
    """The chunks that no head names."""
    await_settled(topic.kafka, [topic.topic])
    logs = topic.read_all()
    named = {(group, info.name) for group, log in logs.items() if HEAD in log for info in decode_head(log[HEAD]).chunks}
    return {(group, name) for group, log in logs.items() for name in log if name != HEAD} - named
