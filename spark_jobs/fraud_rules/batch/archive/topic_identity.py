"""Checks that the topics are those from which the archive was made, by Kafka's ids of them."""

from __future__ import annotations

from collections.abc import Iterable

from fraud_rules.batch.archive.manifest import Manifest
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.errors import ArchiveForeign
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import topic_ids


def check_topics(
    kafka: KafkaConnection, store: ArchiveStore, manifest: Manifest, topics: Iterable[str] | None = None
) -> dict[str, str]:
    """The ids of these topics (default: the archived ones), by name.

    Raises ArchiveForeign if a topic was created again since it was archived, and BrokerUnavailable.
    """
    wanted = sorted(manifest.topic_ids if topics is None else topics)
    ids = topic_ids(kafka, wanted) if wanted else {}
    for topic, topic_id in ids.items():
        known = manifest.topic_ids.get(topic, topic_id)
        if known != topic_id:
            raise ArchiveForeign(
                f"{topic} was created again after {store.root} archived it (its id was {known} and is {topic_id}), or "
                "the archive belongs to another Kafka; archive into a new folder"
            )
    return ids


def is_of_topic(kafka: KafkaConnection, manifest: Manifest, topic: str) -> bool:
    """Whether the archive was made from this topic, as far as it knows the topic's id. Raises BrokerUnavailable."""
    known = manifest.topic_ids.get(topic)
    return known is None or known == topic_ids(kafka, [topic])[topic]
