"""Checks whether Kafka still holds the records that are not archived yet."""

from __future__ import annotations

from fraud_rules.batch.archive.manifest import Manifest
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.errors import ArchiveBehind
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import topic_starts


def check_kept(kafka: KafkaConnection, topics: TopicNames, manifest: Manifest) -> None:
    """Raise ArchiveBehind if retention has removed transactions before they were archived."""
    archived = manifest.ends.get(topics.transactions, {})
    for partition, first in topic_starts(kafka, topics.transactions).items():
        end = archived.get(str(partition))
        if end is not None and first > end:
            raise ArchiveBehind(
                f"{topics.transactions}-{partition}: records {end} to {first} were removed before they were archived"
            )
