"""Reads ranges of the topic `transactions` with the Kafka client of a Python worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final

import numpy as np
from confluent_kafka import Message

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, append_ms_of
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.fanout_stage import RawTransactions

__all__ = ["raw_transactions_in"]

_AT_ONCE: Final = 50_000


def raw_transactions_in(context: WorkerContext, ranges: Mapping[int, tuple[int, int]]) -> Iterator[RawTransactions]:
    """Yield the records of partitions with offsets in [start, end), a bounded number at a time.

    Raises the errors of `TopicReader.read_ranges`.
    """
    messages = _reader(context.kafka, context.settings.topics.transactions).read_ranges(ranges)
    while piece := list(islice(messages, _AT_ONCE)):
        yield _raw(piece, producer_times=context.settings.producer_times)


def _raw(messages: Sequence[Message], *, producer_times: bool) -> RawTransactions:
    """Convert column by column, without an object for each record, which would cost as much as the decoding."""
    count = len(messages)
    return RawTransactions(
        [message.value() for message in messages],
        np.fromiter([message.partition() or 0 for message in messages], np.int32, count),
        np.fromiter([message.offset() or 0 for message in messages], np.int64, count),
        np.fromiter([append_ms_of(each, producer_times=producer_times) for each in messages], np.int64, count),
    )


@cache
def _reader(kafka: KafkaConnection, topic: str) -> TopicReader:
    """The reader of this process. It stays connected."""
    return TopicReader(kafka, topic)
