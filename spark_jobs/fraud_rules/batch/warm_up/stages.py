"""The two stages of the job: read the past and split it by key group, then collect the history of each key group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from fraud_rules.batch.archive.files import transactions_by_group
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.warm_up.sources import ArchivedPart, TopicPart
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.fanout import in_arrival_order, rows_by_key_group
from fraud_rules.engine.role_rows import role_rows
from fraud_rules.engine.warm_up import chunks_of, collect_history, sum_chunks_of
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.transactions import raw_transactions
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpPart
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.model.warm_up import WarmUpRequest
from fraud_rules.runtime.compression import compress, decompress

KEYED_SCHEMA: Final = "key_group int, blob binary"
"""Packed and compressed rows of one key group."""

PART_SCHEMA: Final = "request int, part binary"
"""An encoded `WarmUpPart`, and the position of its request."""

_KEYED: Final = pa.schema([("key_group", pa.int32()), ("blob", pa.binary())])
_ROWS: Final = 200_000
_encode = msgspec.msgpack.Encoder().encode
decode_part = msgspec.msgpack.Decoder(WarmUpPart).decode


@dataclass(frozen=True, slots=True)
class PastReader:
    """Runs in a worker: reads the parts of the past with these numbers, for requests of one grouping."""

    requests: Sequence[WarmUpRequest]
    parts: Sequence[ArchivedPart | TopicPart]
    archive: ArchiveStore
    schema: TransactionSchema
    settings: DetectorSettings
    kafka: KafkaConnection

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read a column of numbers of parts, and yield rows of `KEYED_SCHEMA`."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = self.parts[number]
                pieces = self._archived(part) if isinstance(part, ArchivedPart) else self._recorded(part)
                for rows in pieces:
                    yield from self._keyed(rows)

    def _archived(self, part: ArchivedPart) -> Iterator[TransactionBatch]:
        for rows in transactions_by_group(self.archive, part.file, self.schema):
            yield rows.before(part.ends)

    def _recorded(self, part: TopicPart) -> Iterator[TransactionBatch]:
        """Read a part without an object for each record, which would cost as much as the decoding."""
        messages: list[Message] = []
        with TopicReader(self.kafka, self.settings.topics.transactions) as reader:
            for message in reader.read_ranges({part.partition: (part.start, part.end)}):
                messages.append(message)
                if len(messages) == _ROWS:
                    yield self._decoded(messages)
                    messages = []
        yield self._decoded(messages)

    def _decoded(self, messages: Sequence[Message]) -> TransactionBatch:
        raw = raw_transactions(messages, self.schema, self.settings)
        return decode_transactions(raw, self.schema, self.settings.record_limits).batch

    def _keyed(self, rows: TransactionBatch) -> Iterator[pa.RecordBatch]:
        fields = self.requests[0].fields
        rows = role_rows(rows, self.schema.entity_of(fields))
        rows = rows.take(np.logical_or.reduce([each.concerns(rows) for each in self.requests]))
        for key_group, mine in rows_by_key_group(rows, fields, self.settings.key_groups).items():
            blob = compress(mine.pack())
            columns = [pa.array([key_group], pa.int32()), pa.array([blob], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=_KEYED)


@dataclass(frozen=True, slots=True)
class RequestedPart:
    """A request, and the offset after the last transaction of its past, by partition."""

    request: WarmUpRequest
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class CollectStage:
    """Runs in a worker: collects the histories of some key groups, and writes their rows to `warm-ups`."""

    requests: Sequence[RequestedPart]
    schema: TransactionSchema
    settings: DetectorSettings
    log: WarmUpLog

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read rows of `KEYED_SCHEMA`, and yield a row of `PART_SCHEMA` for each key group."""
        blobs: dict[int, list[bytes]] = {}
        for batch in batches:
            for key_group, blob in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                blobs.setdefault(key_group, []).append(blob)
        for key_group in sorted(blobs):
            packed = [TransactionBatch.unpack(decompress(blob)) for blob in blobs.pop(key_group)]
            rows = in_arrival_order(TransactionBatch.concat(packed))
            parts = [self._collect(key_group, requested, rows) for requested in self.requests]
            columns = [
                pa.array(range(len(parts)), pa.int32()),
                pa.array([_encode(part) for part in parts], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=["request", "part"])

    def _collect(self, key_group: int, requested: RequestedPart, rows: TransactionBatch) -> WarmUpPart:
        request = requested.request
        history = collect_history(request, [rows.before(requested.ends)], self.schema, self.settings)
        sums = sum_chunks_of(history)
        chunks = self.log.write_chunks(request.version, key_group, [*chunks_of(history), *sums])
        begins_ms, *series_times_ms = history.times_ms
        return WarmUpPart(
            key_group, len(history.load()), begins_ms, chunks, len(sums), len(history.sums), *series_times_ms
        )
