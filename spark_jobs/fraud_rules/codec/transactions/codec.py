"""Decodes the transactions of a source batch. It is exact and fast, and a bad record does not stop it.

There are two readers. The quick reader decodes every record with a typed msgspec decoder built from the schema and
converts column by column; it accepts a record only if the record is certainly valid. Every other record, good or bad,
goes one by one to the careful reader in `record`, which defines the accepted records and names the reason for each
rejection. So a bad record costs some microseconds and does not slow down the others.

The quick reader proves by counting colons that no member name occurs twice. Each member has a colon of its own. If a
record has as many colons as the reader found declared members in it, the record has these members and no other. If the
counts differ, the reader splits the record into its members, declared or not. Splitting keeps the last member of each
name. If the colons are as many as the remaining members plus the colons inside their values, splitting has dropped no
member.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fraud_rules.codec.scalar import format_timestamp, unit_hint
from fraud_rules.codec.transactions.columns import column_of, quick_reader
from fraud_rules.codec.transactions.record import Value, printable, read_record
from fraud_rules.errors import RecordRejected
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

NO_APPEND_TIME: Final = -1
"""The append time of a record to which the broker gave none, because its topic had the producers' timestamps."""

UNTIMED: Final = "no_append_time"
"""The reason for the rejection of such a record."""

_UNTIMED_DETAIL: Final = "its timestamp is its producer's, because the topic had message.timestamp.type=CreateTime"


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record for quarantine: its position among the values, a stable reason (see `record`), and a readable detail."""

    index: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """The result for n values: accepted rows in their order, rejects by index, and the number of ignored tombstones.

    The three counts add up to n.
    """

    batch: TransactionBatch
    rejects: list[RejectedRecord]
    ignored: int


def decode_transactions(
    values: Sequence[bytes | None],
    partition: ArrayLike,
    offset: ArrayLike,
    append_ms: ArrayLike,
    schema: TransactionSchema,
    limits: RecordLimits,
) -> DecodeResult:
    """Read the values of n Kafka records; `partition`, `offset` and `append_ms` hold n integers each.

    A tombstone (None) describes no transaction and is ignored. A record outside the limits is rejected: its
    eventTime must be neither before the floor nor too far ahead of its append time. A record whose append time is
    `NO_APPEND_TIME` is rejected too. No content of a record raises an error.
    """
    source = _Source(np.asarray(append_ms, np.int64), np.asarray(partition, np.int32), np.asarray(offset, np.int64))
    reading = quick_reader(schema).read(values, limits.max_bytes)
    careful = _read_carefully(values, reading.doubtful, schema, limits.max_bytes)
    at, batch = reading.positions, source.batch(reading.positions, reading.columns)
    if careful.at:
        others = np.array(careful.at, np.int64)
        at = np.concatenate([at, others])
        order = np.argsort(at)
        at, batch = (
            at[order],
            TransactionBatch.concat([batch, source.batch(others, careful.columns(schema))]).take(order),
        )
    is_untimed = batch.append_ms == NO_APPEND_TIME
    if is_untimed.any():
        careful.rejects.extend(RejectedRecord(place, UNTIMED, _UNTIMED_DETAIL) for place in at[is_untimed].tolist())
        at, batch = at[~is_untimed], batch.take(~is_untimed)
    times = batch.columns[TIME_FIELD].values
    is_outside = (times < limits.event_time_floor_ms) | (times > batch.append_ms + limits.future_tolerance_ms)
    if is_outside.any():
        careful.rejects.extend(_outside(at, batch, np.flatnonzero(is_outside), limits.event_time_floor_ms))
        batch = batch.take(~is_outside)
    return DecodeResult(batch, sorted(careful.rejects, key=lambda reject: reject.index), careful.ignored)


@dataclass(frozen=True, slots=True)
class _Source:
    """The positions of n values in Kafka, and their append times."""

    append_ms: NDArray[np.int64]
    partition: NDArray[np.int32]
    offset: NDArray[np.int64]

    def batch(self, at: NDArray[np.int64], columns: dict[str, Column]) -> TransactionBatch:
        """The columns of the values at these positions, as a batch."""
        return TransactionBatch(self.append_ms[at], self.partition[at], self.offset[at], columns)


@dataclass(slots=True)
class _CarefulResult:
    """The careful reader's result: rows with their positions `at`, rejects, and the number of ignored tombstones."""

    at: list[int]
    rows: list[tuple[Value, ...]]
    rejects: list[RejectedRecord]
    ignored: int

    def columns(self, schema: TransactionSchema) -> dict[str, Column]:
        cells = zip(*self.rows, strict=True)
        return {field.name: column_of(field, list(column)) for field, column in zip(schema.fields, cells, strict=True)}


def _read_carefully(
    values: Sequence[bytes | None], positions: Sequence[int], schema: TransactionSchema, max_record_bytes: int
) -> _CarefulResult:
    careful = _CarefulResult([], [], [], 0)
    for i in positions:
        value = values[i]
        if value is None:
            careful.ignored += 1
            continue
        try:
            row = read_record(value, schema, max_record_bytes)
        except RecordRejected as rejected:
            careful.rejects.append(RejectedRecord(i, rejected.reason, rejected.detail))
        except Exception as error:  # noqa: BLE001 - a bug that one record triggers must not stop the others
            careful.rejects.append(RejectedRecord(i, "internal_error", printable(repr(error))))
        else:
            careful.at.append(i)
            careful.rows.append(row)
    return careful


def _outside(
    at: NDArray[np.int64], batch: TransactionBatch, rows: NDArray[np.int64], floor_ms: int
) -> Iterator[RejectedRecord]:
    """The rejects of rows whose event time is before the floor or too far ahead of their append time."""
    times = batch.columns[TIME_FIELD].values
    for row in rows.tolist():
        time_ms, ahead_ms = int(times[row]), int(times[row]) - int(batch.append_ms[row])
        reason, detail = "future_event_time", f"{TIME_FIELD} is {ahead_ms} ms ahead of its arrival"
        if time_ms < floor_ms:
            floor = format_timestamp(floor_ms)
            reason, detail = "past_event_time", f"{TIME_FIELD} is {format_timestamp(time_ms)}, before {floor}"
        yield RejectedRecord(int(at[row]), reason, detail + unit_hint(time_ms))
