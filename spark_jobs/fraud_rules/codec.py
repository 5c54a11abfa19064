"""Transactions from the bytes of a source batch: exact, fast, and never stopped by a bad record.

Two readers. The quick one decodes every record with a typed msgspec decoder built from the schema and converts column
by column; it accepts a record only when it is certain. Every other record, good or bad, goes one by one to the
careful reader in `record`, which defines what is accepted and names the reason for what is not. So a bad record costs
some microseconds and slows nothing else.

How the quick reader is certain that no member name occurs twice: each member has a colon of its own, so a record with
as many colons as declared members were found in it has these members and no other. When the count differs, the record
is split into its members, declared or not, of which the last of each name remains: with as many colons as remaining
members plus the colons inside their values, none can have been dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fraud_rules.columns import column_of, quick_reader
from fraud_rules.errors import RecordRejected
from fraud_rules.record import MAX_RECORD_BYTES, Value, printable, read_record
from fraud_rules.schema import TIME_FIELD, TransactionSchema
from fraud_rules.transaction import Column, TransactionBatch


@dataclass(frozen=True, slots=True)
class Reject:
    """A record for quarantine: its position among the values, a stable reason (see `record`), and detail for people."""

    index: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of n values: accepted rows in their order, rejects by index, and the number of tombstones ignored.

    The three add up to n.
    """

    batch: TransactionBatch
    rejects: list[Reject]
    ignored: int


def decode_transactions(
    values: Sequence[bytes | None],
    partition: ArrayLike,
    offset: ArrayLike,
    append_ms: ArrayLike,
    schema: TransactionSchema,
    future_tolerance_ms: int,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Decoded:
    """Read the values of n Kafka records; `partition`, `offset` and `append_ms` hold n integers each.

    A tombstone (None) says nothing about any transaction and is ignored. A record whose eventTime is more than
    `future_tolerance_ms` ahead of its append time is rejected. Raises nothing for any bytes.
    """
    source = _Source(np.asarray(append_ms, np.int64), np.asarray(partition, np.int32), np.asarray(offset, np.int64))
    reading = quick_reader(schema).read(values, max_record_bytes)
    careful = _read_carefully(values, reading.unsure, schema, max_record_bytes)
    at, batch = reading.at, source.batch(reading.at, reading.columns)
    if careful.at:
        others = np.array(careful.at, np.int64)
        at = np.concatenate([at, others])
        order = np.argsort(at)
        at, batch = (
            at[order],
            TransactionBatch.concat([batch, source.batch(others, careful.columns(schema))]).take(order),
        )
    is_early = batch.columns[TIME_FIELD].values > batch.append_ms + future_tolerance_ms
    if is_early.any():
        careful.rejects.extend(_early(at, batch, np.flatnonzero(is_early)))
        batch = batch.take(~is_early)
    return Decoded(batch, sorted(careful.rejects, key=lambda reject: reject.index), careful.ignored)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where n values come from."""

    append_ms: NDArray[np.int64]
    partition: NDArray[np.int32]
    offset: NDArray[np.int64]

    def batch(self, at: NDArray[np.int64], columns: dict[str, Column]) -> TransactionBatch:
        """The columns of the values at these positions, as a batch."""
        return TransactionBatch(self.append_ms[at], self.partition[at], self.offset[at], columns)


@dataclass(slots=True)
class _Careful:
    """What the careful reader made of the values given to it."""

    at: list[int]
    rows: list[tuple[Value, ...]]
    rejects: list[Reject]
    ignored: int

    def columns(self, schema: TransactionSchema) -> dict[str, Column]:
        cells = zip(*self.rows, strict=True)
        return {field.name: column_of(field, list(column)) for field, column in zip(schema.fields, cells, strict=True)}


def _read_carefully(
    values: Sequence[bytes | None], positions: Sequence[int], schema: TransactionSchema, max_record_bytes: int
) -> _Careful:
    careful = _Careful([], [], [], 0)
    for i in positions:
        value = values[i]
        if value is None:
            careful.ignored += 1
            continue
        try:
            row = read_record(value, schema, max_record_bytes)
        except RecordRejected as rejected:
            careful.rejects.append(Reject(i, rejected.reason, rejected.detail))
        except Exception as error:  # noqa: BLE001 - a fault of ours in one record must not stop the others
            careful.rejects.append(Reject(i, "internal_error", printable(repr(error))))
        else:
            careful.at.append(i)
            careful.rows.append(row)
    return careful


def _early(at: NDArray[np.int64], batch: TransactionBatch, rows: NDArray[np.int64]) -> Iterator[Reject]:
    times = batch.columns[TIME_FIELD].values
    for row in rows.tolist():
        ahead_ms = int(times[row]) - int(batch.append_ms[row])
        yield Reject(int(at[row]), "future_event_time", f"{TIME_FIELD} is {ahead_ms} ms ahead of its arrival")
