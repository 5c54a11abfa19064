"""The intake of alarms: applies the records of the topic `alarms` to the store, and delivers those that are news.

A task reports its alarm each time that it runs. The store decides, as for the alarms of the servers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from fraud_control.service.alarm_log import OLD_MS, admit_alarm
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.store_access import StoreAccess
from fraud_control.sync.topic_consumer import ConsumedTopic, TopicConsumer
from fraud_ops.alarms import decode_alarm
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record

_NAME: Final = "alarms"


def alarm_intake(
    store: StoreAccess, kafka: KafkaConnection, topic: str, receivers: Callable[[], Sequence[str]]
) -> TopicConsumer:
    """Create the consumer that applies the topic to the store. `receivers` names the connections that exist."""
    apply = partial(apply_record, receivers)
    return TopicConsumer(store, ConsumedTopic(kafka, topic, _NAME, renewable=True), apply)


def apply_record(receivers: Callable[[], Sequence[str]], work: UnitOfWork, record: Record) -> None:
    """Apply one record. Raises an error of `UNDECODABLE` for an unreadable one.

    An alarm that is older than a day is not delivered: the store has lost its position in the topic.
    """
    if record.value is None:
        return
    raised, is_recent = decode_alarm(record.value), work.now_ms - record.append_ms < OLD_MS
    admit_alarm(work.session, raised, receivers() if is_recent else (), record.append_ms, work.now_ms)
