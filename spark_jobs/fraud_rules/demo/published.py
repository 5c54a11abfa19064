"""What a detector has published, read from its topics for the verdict."""

from __future__ import annotations

from fraud_rules.demo.verdict import Published
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import await_settled, read_topic
from fraud_rules.replay import decode_exactly
from fraud_rules.settings import TopicNames

__all__ = ["read_published"]


def read_published(kafka: KafkaConnection, topics: TopicNames) -> Published:
    """Everything there is once no transaction is open, in the order of the topics. Raises BrokerUnavailable."""
    await_settled(kafka, (topics.alerts, topics.shadow_alerts, topics.late_transactions, topics.quarantine))

    def values(topic: str) -> list[bytes]:
        records = read_topic(kafka, topic)
        return [record.value or b"" for partition in sorted(records) for record in records[partition]]

    return Published(
        alerts=[decode_exactly(value) for value in values(topics.alerts)],
        shadow_alerts=[decode_exactly(value) for value in values(topics.shadow_alerts)],
        late=[decode_exactly(value) for value in values(topics.late_transactions)],
        quarantined=len(values(topics.quarantine)),
    )
