"""The intake of alarms: copies the records of the topic `alarms` to the store.

A task has sent its alarm once. A connection that did not accept it gets it again by the outbox of notifications.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from fraud_ops.alarms import decode_alarm
from fraud_ops.control_plane.service.alarm_log import deliver_alarm, record_alarm
from fraud_ops.control_plane.service.changes import UnitOfWork
from fraud_ops.control_plane.service.store_access import StoreAccess
from fraud_ops.control_plane.sync.topic_consumer import ConsumedTopic, TopicConsumer
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record

__all__ = ["alarm_intake", "apply_record"]

_NAME: Final = "alarms"
_RETRIED_MS: Final = 3_600_000
"""An older record is no news: the topic was recreated, or the store was empty."""


def alarm_intake(
    store: StoreAccess, kafka: KafkaConnection, topic: str, receivers: Callable[[], Sequence[str]] = tuple
) -> TopicConsumer:
    """Create the consumer that applies the topic to the store. `receivers` names the connections that exist."""
    apply = partial(apply_record, receivers)
    return TopicConsumer(store, ConsumedTopic(kafka, topic, _NAME, renewable=True), apply)


def apply_record(receivers: Callable[[], Sequence[str]], work: UnitOfWork, record: Record) -> None:
    """Apply one record. Raises an error of `UNDECODABLE` for an unreadable one."""
    if record.value is None:
        return
    raised = decode_alarm(record.value)
    record_alarm(work.session, raised, record.append_ms)
    if work.now_ms - record.append_ms < _RETRIED_MS:
        missing = [name for name in receivers() if name not in raised.receivers]
        deliver_alarm(work.session, raised.alarm, missing, work.now_ms)
