"""A topic of the state that the broker compacts as often as it can."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fraud_rules.engine.state.head import decode_head
from fraud_rules.logs.state_topic import HEAD
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import read_all
from tests.support.kafka.state_damage import state_topic
from tests.support.kafka.timed_topics import set_topic

CLEANED_AT_ONCE: Final = {
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1",
    "delete.retention.ms": "0",
}


def configure_state(topics: OwnTopics, **settings: str) -> None:
    """Change settings of the topic. An underscore in a name stands for a dot."""
    for name, value in settings.items():
        set_topic(topics.bootstrap, topics.names.detector_state, name.replace("_", "."), value)


def compact_continuously(topics: OwnTopics) -> None:
    """Let the broker compact the topic as often as it can, and remove tombstones at once."""
    configure_state(topics, **{name.replace(".", "_"): value for name, value in CLEANED_AT_ONCE.items()})


def has_compacted(topics: OwnTopics, detector: str) -> bool:
    """Whether the broker has removed most of the old heads of a key group."""
    topic = state_topic(topics, detector)
    keys = Counter(message.key() for message in read_all(topics.bootstrap, topic.topic))
    newest = {group: decode_head(log[HEAD]).version for group, log in topic.read_all().items() if HEAD in log}
    return any(version > 10 and 2 * keys[topic.key_of(group, HEAD)] < version for group, version in newest.items())
