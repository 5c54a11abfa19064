"""The intake of labels: copies the records of the topic `labels` to the store, such as chargebacks.

A record is a line of a file of labels in JSON. A record without a usable label is skipped; the audit log has its offset
and the reason.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fraud_control.service.changes import UnitOfWork
from fraud_control.service.labels.saving import LabelOrigin, resolve, save_labels
from fraud_control.service.store_access import StoreAccess
from fraud_control.sync.topic_consumer import ConsumedTopic, TopicConsumer
from fraud_rules.batch.whatif.labels import LabelSource, read_label
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record
from fraud_rules.model.schema import TransactionSchema

_NAME: Final = "labels"
_MAX_BYTES: Final = 65_536


def label_intake(store: StoreAccess, kafka: KafkaConnection, topic: str, schema: TransactionSchema) -> TopicConsumer:
    """Create the consumer that applies the topic to the store."""
    return TopicConsumer(
        store, ConsumedTopic(kafka, topic, _NAME, renewable=True), partial(_apply_record, topic, schema)
    )


def _apply_record(topic: str, schema: TransactionSchema, work: UnitOfWork, record: Record) -> None:
    """Apply one record. Raises an error of `UNDECODABLE` for a record without a usable label."""
    if record.value is None:
        return
    if len(record.value) > _MAX_BYTES:
        raise ValueError(f"has {len(record.value)} bytes, at most {_MAX_BYTES} are allowed")
    (found,) = resolve(work.session, [read_label(record.value, schema)], record.append_ms)
    if not isinstance(found, tuple):
        raise ValueError(found)  # noqa: TRY004 -- the value is wrong: it is a reason
    save_labels(work.session, dict([found]), LabelOrigin(LabelSource.TOPIC, topic, record.append_ms))
