"""Decoded transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.replay.recording import RecordedTransaction
from tests.support.rules import SCHEMA


def decoded(
    values: Sequence[bytes | None],
    append_ms: Iterable[int],
    offsets: Iterable[int] | None = None,
    schema: TransactionSchema = SCHEMA,
) -> TransactionBatch:
    """The readable transactions among the records of a partition. By default, the offsets begin at 0."""
    places = range(len(values)) if offsets is None else offsets
    raw = RawTransactions.of(values, [0] * len(values), [*places], [*append_ms])
    return decode_transactions(raw, schema, RecordLimits()).batch


def decoded_recording(
    records: Sequence[RecordedTransaction], schema: TransactionSchema, limits: RecordLimits
) -> TransactionBatch:
    """The readable transactions of a recording, at their places."""
    values, partitions = [each.value for each in records], [each.partition for each in records]
    offsets, append_ms = [each.offset for each in records], [each.append_ms for each in records]
    return decode_transactions(RawTransactions.of(values, partitions, offsets, append_ms), schema, limits).batch
