"""Undecoded records of the topic `transactions`, from the messages of the Kafka client."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from confluent_kafka import Message

from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.reader import append_ms_of, headers_of, key_of
from fraud_rules.model.schema import TransactionSchema


def raw_transactions(
    messages: Sequence[Message], schema: TransactionSchema, settings: DetectorSettings, *, traces: bool = False
) -> RawTransactions:
    """Convert column by column, without an object for each record, which would cost as much as the decoding.

    Keys and headers are converted only for a schema that reads them, or for `traces`.
    """
    count, producer_times = len(messages), settings.producer_times
    return RawTransactions(
        [message.value() for message in messages],
        np.fromiter([message.partition() or 0 for message in messages], np.int32, count),
        np.fromiter([message.offset() or 0 for message in messages], np.int64, count),
        np.fromiter([append_ms_of(each, producer_times=producer_times) for each in messages], np.int64, count),
        settings.topics.transactions,
        [key_of(message) for message in messages] if schema.reads_keys else None,
        [headers_of(message) for message in messages] if schema.reads_headers or traces else None,
    )
