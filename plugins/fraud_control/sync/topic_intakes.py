"""The intakes of labels and alarms: consumers that apply the topics `labels` and `alarms` to the store.

A label, such as that of a chargeback, is a line of a file of labels in JSON. A record without a usable label is
skipped; the audit log has its offset and the reason. A task reports its alarm each time that it runs. The store decides
whether the alarm is news, as for the alarms of the servers, and delivers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from fraud_control.service.alarm_log import OLD_MS, admit_alarm
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.labels.saving import LabelOrigin, resolve, save_labels
from fraud_control.service.store_access import StoreAccess
from fraud_control.sync.topic_consumer import ConsumedTopic, TopicConsumer
from fraud_ops.alarms import decode_alarm
from fraud_rules.batch.whatif.labels import LabelSource, read_label
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record
from fraud_rules.model.schema import TransactionSchema

_MAX_LABEL_BYTES: Final = 65_536


def label_intake(store: StoreAccess, kafka: KafkaConnection, topic: str, schema: TransactionSchema) -> TopicConsumer:
    """Create the consumer that applies the topic to the store."""
    source = ConsumedTopic(kafka, topic, "labels", renewable=True)
    return TopicConsumer(store, source, partial(_apply_label, topic, schema))


def _apply_label(topic: str, schema: TransactionSchema, work: UnitOfWork, record: Record) -> None:
    """Apply one record. Raises an error of `UNDECODABLE` for a record without a usable label."""
    if record.value is None:
        return
    if len(record.value) > _MAX_LABEL_BYTES:
        raise ValueError(f"has {len(record.value)} bytes, at most {_MAX_LABEL_BYTES} are allowed")
    (found,) = resolve(work.session, [read_label(record.value, schema)], record.append_ms)
    if not isinstance(found, tuple):
        raise ValueError(found)  # noqa: TRY004 -- the value is wrong: it is a reason
    save_labels(work.session, dict([found]), LabelOrigin(LabelSource.TOPIC, topic, record.append_ms))


def alarm_intake(
    store: StoreAccess, kafka: KafkaConnection, topic: str, receivers: Callable[[], Sequence[str]]
) -> TopicConsumer:
    """Create the consumer that applies the topic to the store. `receivers` names the connections that exist."""
    source = ConsumedTopic(kafka, topic, "alarms", renewable=True)
    return TopicConsumer(store, source, partial(apply_alarm, receivers))


def apply_alarm(receivers: Callable[[], Sequence[str]], work: UnitOfWork, record: Record) -> None:
    """Apply one record. Raises an error of `UNDECODABLE` for an unreadable one.

    An alarm that is older than a day is not delivered: the store has lost its position in the topic.
    """
    if record.value is None:
        return
    raised, is_recent = decode_alarm(record.value), work.now_ms - record.append_ms < OLD_MS
    admit_alarm(work.session, raised, receivers() if is_recent else (), record.append_ms, work.now_ms)
