"""Reads ranges of the topic `transactions` with the Kafka client of a Python worker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, pieces
from fraud_rules.logs.transactions import raw_transactions
from fraud_rules.model.offset_ranges import OffsetRanges
from fraud_rules.stream.worker.context import WorkerContext


def raw_transactions_in(context: WorkerContext, ranges: OffsetRanges) -> Iterator[RawTransactions]:
    """Yield the records of partitions with offsets in [start, end), a bounded number of records and bytes at a time.

    Raises the errors of `TopicReader.read_ranges`.
    """
    messages = _reader(context.kafka, context.settings.topics.transactions).read_ranges(ranges)
    for piece in pieces(messages):
        yield raw_transactions(piece, context.schema, context.settings, traces=context.settings.trace_headers)


@cache
def _reader(kafka: KafkaConnection, topic: str) -> TopicReader:
    """The reader of this process. It stays connected."""
    return TopicReader(kafka, topic)
