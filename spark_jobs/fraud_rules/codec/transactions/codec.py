"""Decodes the transactions of a source batch. It is exact and fast, and a bad record does not stop it.

There are two readers. The quick reader decodes every record with a typed msgspec decoder built from the schema and
converts column by column; it accepts a record only if the record is certainly valid. Every other record, good or bad,
goes one by one to the careful reader in `record`, which defines the accepted records and names the reason for each
rejection. So a bad record costs some microseconds and does not slow down the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.codec.scalar import format_timestamp, number_of, unit_hint
from fraud_rules.codec.transactions.converters import column_of
from fraud_rules.codec.transactions.field_value import Value, printable
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.codec.transactions.reading import Reading, begin_reading
from fraud_rules.errors import RecordRejected
from fraud_rules.model.declared.field_source import TimeUnit
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


def decode_transactions(records: RawTransactions, schema: TransactionSchema, limits: RecordLimits) -> DecodeResult:
    """Read the transactions of Kafka records.

    A tombstone (None) describes no transaction and is ignored. A record outside the limits is rejected: its
    eventTime must be neither before the floor nor too far ahead of its append time. A record whose append time is
    `NO_APPEND_TIME` is rejected too. No content of a record raises an error. Raises ValueError if the records lack the
    keys, headers or topic that the schema reads, and the errors of `RecordFormat.trees`.
    """
    reading = begin_reading(records, schema, limits.max_bytes)
    careful = _read_carefully(reading)
    at, batch = reading.quick.positions, _batch(records, reading.quick.positions, reading.quick.columns)
    if careful.at:
        others = np.array(careful.at, np.int64)
        at = np.concatenate([at, others])
        order = np.argsort(at)
        at, batch = (
            at[order],
            TransactionBatch.concat([batch, _batch(records, others, careful.columns(schema))]).take(order),
        )
    is_untimed = batch.append_ms == NO_APPEND_TIME
    if is_untimed.any():
        careful.rejects.extend(RejectedRecord(place, UNTIMED, _UNTIMED_DETAIL) for place in at[is_untimed].tolist())
        at, batch = at[~is_untimed], batch.take(~is_untimed)
    times = batch.columns[TIME_FIELD].values
    is_outside = (times < limits.event_time_floor_ms) | (times > batch.append_ms + limits.future_tolerance_ms)
    if is_outside.any():
        declared = schema.field(TIME_FIELD)
        unit = None if declared is None else declared.source.unit
        careful.rejects.extend(_outside(at, batch, np.flatnonzero(is_outside), limits.event_time_floor_ms, unit))
        batch = batch.take(~is_outside)
    return DecodeResult(batch, sorted(careful.rejects, key=lambda reject: reject.index), careful.ignored)


def _batch(records: RawTransactions, at: NDArray[np.int64], columns: dict[str, Column]) -> TransactionBatch:
    """The columns of the records at these positions, as a batch."""
    return TransactionBatch(records.append_ms[at], records.partition[at], records.offset[at], columns)


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


def _read_carefully(reading: Reading) -> _CarefulResult:
    careful = _CarefulResult([], [], [], 0)
    for i in reading.quick.doubtful:
        try:
            row = reading.read(i)
        except RecordRejected as rejected:
            careful.rejects.append(RejectedRecord(i, rejected.reason, rejected.detail))
        except Exception as error:  # noqa: BLE001 - a bug that one record triggers must not stop the others
            careful.rejects.append(RejectedRecord(i, "internal_error", printable(repr(error))))
        else:
            if row is None:
                careful.ignored += 1
                continue
            careful.at.append(i)
            careful.rows.append(row)
    return careful


def _outside(
    at: NDArray[np.int64],
    batch: TransactionBatch,
    rows: NDArray[np.int64],
    floor_ms: int,
    unit: TimeUnit | None,
) -> Iterator[RejectedRecord]:
    """The rejects of rows whose event time is before the floor or too far ahead of their append time."""
    times = batch.columns[TIME_FIELD].values
    for row in rows.tolist():
        time_ms, ahead_ms = int(times[row]), int(times[row]) - int(batch.append_ms[row])
        reason, detail = "future_event_time", f"{TIME_FIELD} is {ahead_ms} ms ahead of its arrival"
        if time_ms < floor_ms:
            floor = format_timestamp(floor_ms)
            reason, detail = "past_event_time", f"{TIME_FIELD} is {format_timestamp(time_ms)}, before {floor}"
        is_exact = unit in (None, TimeUnit.S, TimeUnit.MS)
        hint = "" if unit is TimeUnit.ISO8601 else unit_hint(number_of(time_ms, unit), unit, exact=is_exact)
        yield RejectedRecord(int(at[row]), reason, detail + hint)
