"""Decodes raw records and fans them out: one packed row per key group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fraud_rules.codec.transactions.codec import DecodeResult, RejectedRecord, decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions, trace_headers
from fraud_rules.engine.fanout import EMPTY_BLOB, fan_out, null_keys
from fraud_rules.model.offset_ranges import share_of
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.runtime.compression import compress
from fraud_rules.stream.worker.context import WorkerContext, begin_task
from fraud_rules.stream.worker.field_figures import nulls_of, texts_of
from fraud_rules.stream.worker.transactions import raw_transactions_in
from fraud_rules.stream.worker.wire import SIDE_OUTPUT, OutputRow, SideOutput, Trace, UnreadableRecord, quantiles_ms

if TYPE_CHECKING:
    from fraud_rules.engine.task_rows import RowRange

MAX_REJECTED_BYTES = 4_194_304
"""The most quarantined bytes in one row. A single larger record gets a row of its own."""

MAX_TRACES = 10_000
"""The most traces in one row."""


@dataclass(frozen=True, slots=True)
class FanOutStage:
    """Runs in a worker. `tasks` is the number of tasks that share the records of a large batch."""

    context: WorkerContext
    tasks: int = 1

    def run(self, elements: Iterable[int]) -> Iterator[OutputRow]:
        """Read and fan out the share of this task, whose number is the only element. The blobs of key groups are
        compressed.

        The worker reads the records itself: through a table of Spark, a record costs the JVM more than its decoding.
        """
        begin_task(self.context)
        (number,) = elements
        records = raw_transactions_in(self.context, share_of(self.context.order().ranges, number, self.tasks))
        for group, blob in self.pack(records):
            yield OutputRow(group, blob if group == SIDE_OUTPUT else compress(blob))

    def pack(self, parts: Iterable[RawTransactions]) -> Iterator[tuple[int, bytes]]:
        """Yield key groups with packed rows, and the side outputs."""
        decoded = self._decode_all(parts)
        yield from ((SIDE_OUTPUT, each) for each in decoded.side_outputs)
        if decoded.batch is not None:
            yield from fan_out(decoded.batch, *self._placing()).items()
        yield from ((group, EMPTY_BLOB) for group in decoded.visited)

    def spread(self, records: Iterable[RawTransactions]) -> tuple[dict[int, list[RowRange]], list[bytes]]:
        """The rows by key group, and the side outputs. A key group without rows is visited if all are."""
        from fraud_rules.engine.task_rows import spread

        decoded = self._decode_all(records)
        rows: dict[int, list[RowRange]] = {}
        if decoded.batch is not None:
            rows = spread(decoded.batch, *self._placing())
        for group in decoded.visited:
            rows.setdefault(group, [])
        return rows, decoded.side_outputs

    def _placing(self) -> tuple[RuleTimeline, TransactionSchema, int]:
        """What determines the key groups of a transaction: the rules, the schema, and the number of key groups."""
        return self.context.timeline(), self.context.schema, self.context.settings.key_groups

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
            if self.context.settings.trace_headers:
                side_outputs += [SideOutput(traces=traces).encode() for traces in _traces(records)]
        batch = TransactionBatch.concat(accepted) if accepted else None
        if batch is not None:
            nulls = int(null_keys(batch, self.context.timeline(), self.context.schema).sum())
            side_outputs.append(_account(batch, ignored, nulls).encode())
        every = range(self.context.settings.key_groups)
        visits_all = order.visits_all or bool(order.pin.joining())
        return _Decoded(batch, side_outputs, every if visits_all else order.marks.keys())

    def decode(self, records: RawTransactions) -> DecodeResult:
        """Decode the records."""
        return decode_transactions(records, self.context.schema, self.context.settings.record_limits)


class _Decoded(NamedTuple):
    """The decoded transactions (None without records), the side outputs, and the key groups to visit in any case."""

    batch: TransactionBatch | None
    side_outputs: list[bytes]
    visited: Collection[int]


def _account(batch: TransactionBatch, ignored: int, nulls: int) -> SideOutput:
    return SideOutput(
        len(batch),
        ignored,
        quantiles_ms(batch.append_ms),
        event_quantiles_ms=quantiles_ms(batch.columns[TIME_FIELD].values),
        append_total_ms=int(batch.append_ms.sum()),
        null_keys=nulls,
        nulls=nulls_of(batch),
        texts=texts_of(batch),
    )


def _rejected(records: RawTransactions, decoded: DecodeResult) -> Iterator[tuple[UnreadableRecord, ...]]:
    """Split the rejected records into portions of bounded size."""
    portion: list[UnreadableRecord] = []
    size = 0
    for reject in decoded.rejects:
        record = _unreadable(records, reject)
        if portion and size + record.size > MAX_REJECTED_BYTES:
            yield tuple(portion)
            portion, size = [], 0
        size += record.size
        portion.append(record)
    if portion:
        yield tuple(portion)


def _traces(records: RawTransactions) -> Iterator[tuple[Trace, ...]]:
    """The traces of the records, in portions of bounded size."""
    portion: list[Trace] = []
    places = zip(records.partition.tolist(), records.offset.tolist(), records.headers or (), strict=True)
    for partition, offset, headers in places:
        if headers and (own := trace_headers(headers)):
            portion.append(Trace(partition, offset, tuple(own.items())))
        if len(portion) == MAX_TRACES:
            yield tuple(portion)
            portion = []
    if portion:
        yield tuple(portion)


def _unreadable(records: RawTransactions, reject: RejectedRecord) -> UnreadableRecord:
    i = reject.index
    return UnreadableRecord(
        int(records.partition[i]),
        int(records.offset[i]),
        int(records.append_ms[i]),
        reject.reason,
        reject.detail,
        records.values[i] or b"",
        None if records.keys is None else records.keys[i],
        () if records.headers is None else tuple(records.headers[i]),
    )
