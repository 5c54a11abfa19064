"""Reads the outputs that a detector has published, for the verdict."""

from __future__ import annotations

from typing import Any

from fraud_demo.verdict import PublishedOutputs
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import await_settled, read_topic
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.replay.replay import decode_exactly


def read_published(kafka: KafkaConnection, topics: TopicNames) -> PublishedOutputs:
    """Read all outputs once no transaction is open, in the order of the topics. Raises BrokerUnavailable."""
    await_settled(
        kafka, (topics.alerts, topics.shadow_alerts, topics.decisions, topics.late_transactions, topics.quarantine)
    )

    return PublishedOutputs(
        alerts=_documents(kafka, topics.alerts),
        shadow_alerts=_documents(kafka, topics.shadow_alerts),
        late=_documents(kafka, topics.late_transactions),
        quarantined=sum(len(records) for records in read_topic(kafka, topics.quarantine).values()),
        decisions=_documents(kafka, topics.decisions),
    )


def _documents(kafka: KafkaConnection, topic: str) -> list[Any]:
    """Decode the readable records of a topic."""
    records = sorted(read_topic(kafka, topic).items())
    found = (decode_or_skip(topic, each, decode_exactly, partition) for partition, part in records for each in part)
    return [document for document in found if document is not None]
