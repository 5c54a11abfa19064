"""The intake of alarms: copies the records of the topic `alarms` to the store."""

from __future__ import annotations

from typing import Final

from fraud_ops.alarms import decode_alarm
from fraud_ops.control_plane.service.alarm_log import record_alarm
from fraud_ops.control_plane.service.changes import UnitOfWork
from fraud_ops.control_plane.service.store_access import StoreAccess
from fraud_ops.control_plane.sync.topic_consumer import ConsumedTopic, TopicConsumer
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record

__all__ = ["alarm_intake"]

_NAME: Final = "alarms"


def alarm_intake(store: StoreAccess, kafka: KafkaConnection, topic: str) -> TopicConsumer:
    """Create the consumer that applies the topic to the store."""
    return TopicConsumer(store, ConsumedTopic(kafka, topic, _NAME, renewable=True), _apply_record)


def _apply_record(work: UnitOfWork, record: Record) -> None:
    """Apply one record. Raises an error of `UNDECODABLE` for an unreadable one."""
    if record.value is not None:
        record_alarm(work.session, decode_alarm(record.value), record.append_ms)
