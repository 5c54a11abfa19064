"""Decodes raw records and fans them out: one packed row per key group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fraud_rules.codec.transactions.codec import DecodeResult, decode_transactions
from fraud_rules.engine.fanout import EMPTY_BLOB, fan_out, null_keys
from fraud_rules.model.schema import TIME_FIELD
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.runtime.compression import compress
from fraud_rules.spark.append_times import append_ms_of_column
from fraud_rules.stream.worker.context import WorkerContext, begin_task
from fraud_rules.stream.worker.wire import SIDE_OUTPUT, SideOutput, UnreadableRecord, quantiles_ms

if TYPE_CHECKING:
    from fraud_rules.engine.task_rows import RowRange

__all__ = ["FanOutStage", "RawTransactions"]

MAX_REJECTED_BYTES = 4_194_304
"""The most quarantined bytes in one row. A single larger record gets a row of its own."""

_KEYED = pa.schema([("key_group", pa.int32()), ("blob", pa.binary())])


@dataclass(frozen=True, slots=True)
class RawTransactions:
    """The undecoded records of the topic `transactions`, one element per record."""

    values: list[bytes | None]
    partition: NDArray[np.int32]
    offset: NDArray[np.int64]
    append_ms: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FanOutStage:
    """Runs in a worker on one partition of a source batch."""

    context: WorkerContext

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Columns in: value, partition, offset, append time (us, null for a record without one). Rows out: see
        `wire.KEYED_SCHEMA`."""
        begin_task(self.context)
        packed = self.pack(map(raw_transactions, batches))
        rows = [(group, blob if group == SIDE_OUTPUT else compress(blob)) for group, blob in packed]
        if rows:
            groups, blobs = zip(*rows, strict=True)
            columns = [pa.array(groups, pa.int32()), pa.array(blobs, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=_KEYED)

    def pack(self, parts: Iterable[RawTransactions]) -> Iterator[tuple[int, bytes]]:
        """Yield key groups with packed rows, and the side outputs."""
        decoded = self._decode_all(parts)
        yield from ((SIDE_OUTPUT, each) for each in decoded.side_outputs)
        if decoded.batch is not None:
            yield from fan_out(decoded.batch, self.context.timeline(), self.context.settings.key_groups).items()
        yield from ((group, EMPTY_BLOB) for group in decoded.visited)

    def spread(self, records: Iterable[RawTransactions]) -> tuple[dict[int, list[RowRange]], list[bytes]]:
        """The rows by key group, and the side outputs. A key group without rows is visited if all are."""
        from fraud_rules.engine.task_rows import spread

        decoded = self._decode_all(records)
        rows: dict[int, list[RowRange]] = {}
        if decoded.batch is not None:
            rows = spread(decoded.batch, self.context.timeline(), self.context.settings.key_groups)
        for group in decoded.visited:
            rows.setdefault(group, [])
        return rows, decoded.side_outputs

    def _decode_all(self, parts: Iterable[RawTransactions]) -> _Decoded:
        accepted: list[TransactionBatch] = []
        side_outputs: list[bytes] = []
        ignored, order = 0, self.context.order()
        for records in parts:
            if not records.values:
                continue
            decoded = self.decode(records)
            accepted.append(decoded.batch)
            ignored += decoded.ignored
            side_outputs += [SideOutput(rejected=rejected).encode() for rejected in _rejected(records, decoded)]
        batch = TransactionBatch.concat(accepted) if accepted else None
        if batch is not None:
            nulls = int(null_keys(batch, self.context.timeline()).sum())
            side_outputs.append(_account(batch, ignored, nulls).encode())
        visits_all = order.visits_all or bool(order.pin.joining())
        return _Decoded(batch, side_outputs, range(self.context.settings.key_groups if visits_all else 0))

    def decode(self, records: RawTransactions) -> DecodeResult:
        """Decode the records."""
        return decode_transactions(
            records.values,
            records.partition,
            records.offset,
            records.append_ms,
            self.context.schema,
            self.context.settings.record_limits,
        )


class _Decoded(NamedTuple):
    """The decoded transactions (None without records), the side outputs, and the key groups to visit in any case."""

    batch: TransactionBatch | None
    side_outputs: list[bytes]
    visited: range


def _account(batch: TransactionBatch, ignored: int, nulls: int) -> SideOutput:
    return SideOutput(
        len(batch),
        ignored,
        quantiles_ms(batch.append_ms),
        event_quantiles_ms=quantiles_ms(batch.columns[TIME_FIELD].values),
        append_total_ms=int(batch.append_ms.sum()),
        null_keys=nulls,
    )


def raw_transactions(batch: pa.RecordBatch) -> RawTransactions:
    """The records of a batch of `FanOutStage.run`."""
    values, partition, offset, append_us = batch.columns
    return RawTransactions(values.to_pylist(), partition.to_numpy(), offset.to_numpy(), append_ms_of_column(append_us))


def _rejected(records: RawTransactions, decoded: DecodeResult) -> Iterator[tuple[UnreadableRecord, ...]]:
    """Split the rejected records into portions of bounded size."""
    portion: list[UnreadableRecord] = []
    size = 0
    for reject in decoded.rejects:
        raw = records.values[reject.index] or b""
        if portion and size + len(raw) > MAX_REJECTED_BYTES:
            yield tuple(portion)
            portion, size = [], 0
        size += len(raw)
        partition, offset = int(records.partition[reject.index]), int(records.offset[reject.index])
        append_ms = int(records.append_ms[reject.index])
        portion.append(UnreadableRecord(partition, offset, append_ms, reject.reason, reject.detail, raw))
    if portion:
        yield tuple(portion)
