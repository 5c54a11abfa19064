"""The two stages of a rebuild: they fan out the transactions of a segment, and evaluate them by key group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from fraud_rules.engine.fanout import EMPTY_BLOB
from fraud_rules.errors import Reason
from fraud_rules.model.offset_ranges import share_of
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.replay.segments import Segment
from fraud_rules.runtime.compression import compress, decompress
from fraud_rules.stream.batch_order import unpack_marks
from fraud_rules.stream.worker.context import WorkerContext, begin_task
from fraud_rules.stream.worker.fanout_stage import FanOutStage
from fraud_rules.stream.worker.rebuild_log import RebuildLog
from fraud_rules.stream.worker.transactions import raw_transactions_in

if TYPE_CHECKING:
    from fraud_rules.replay.rebuild import SegmentEvaluation

PART_SCHEMA: Final = "key_group int, part int, blob binary"
"""Rows between the two stages. `part`: see `replay.segments`."""

HEAD_SCHEMA: Final = "key_group int, head binary, outputs binary"
"""Rows for the driver: the new heads of the changed key groups, and the packed outputs for `Segment.conclude`."""

_PARTS = pa.schema([("key_group", pa.int32()), ("part", pa.int32()), ("blob", pa.binary())])
_HEADS = pa.schema([("key_group", pa.int32()), ("head", pa.binary()), ("outputs", pa.binary())])
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[KeyGroupOutput]).decode


@dataclass(frozen=True, slots=True)
class SegmentStages:
    """Run in the workers.

    `tasks` is the number of tasks of each stage. `rejected` has the rejected records of the rule log, `heads` the head
    of each key group before the segment, `marks` those that the segment before has changed, packed by key group, and
    `state_ends` the end of each partition of the topic `detector-state` before the rebuild. `known_from_ms`: see
    `History`.
    """

    context: WorkerContext
    tasks: int
    segment: Segment
    rejected: Mapping[int, Sequence[Reason]]
    heads: Mapping[int, bytes]
    marks: Mapping[int, bytes]
    state_ends: Sequence[int]
    known_from_ms: int | None

    def fan_out(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read and fan out shares of the segment. Rows in: their numbers, one per task. Rows out: see `PART_SCHEMA`.

        The worker reads the records itself: through a table of Spark, a record costs the JVM more than its decoding.
        """
        begin_task(self.context)
        stage = FanOutStage(self.context)
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        decoded = [
            stage.decode(records).batch
            for number in numbers
            for records in raw_transactions_in(self.context, share_of(self.segment.ranges, number, self.tasks))
        ]
        if not decoded:
            return
        rows = [
            (key_group, part, compress(blob))
            for part, key_group, blob in self._evaluation().fan_out(TransactionBatch.concat(decoded))
        ]
        if rows:
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in zip(*rows, strict=True)], schema=_PARTS)

    def visits(self) -> list[tuple[int, int, bytes]]:
        """A row of `PART_SCHEMA` without transactions for each key group with changed marks, and for all key groups if
        warm-ups join the segment."""
        every = range(self.context.settings.key_groups) if self.segment.warm_ups else ()
        return [(key_group, 0, compress(EMPTY_BLOB)) for key_group in sorted({*every, *self.marks})]

    def evaluate(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in: see `PART_SCHEMA`. Rows out: see `HEAD_SCHEMA`."""
        begin_task(self.context)
        blobs: dict[int, dict[int, list[bytes]]] = {}
        for batch in batches:
            key_groups, parts, packed = (column.to_pylist() for column in batch.columns)
            for key_group, part, blob in zip(key_groups, parts, packed, strict=True):
                blobs.setdefault(key_group, {}).setdefault(part, []).append(decompress(blob))
        if not blobs:
            return
        evaluation, rows = self._evaluation(), list[tuple[int, bytes, bytes]]()
        for key_group, own in sorted(blobs.items()):
            log = self._log(key_group)
            histories = [self.context.recorded_history(warm_up, key_group) for warm_up in self.segment.warm_ups]
            marks = unpack_marks(self.marks.get(key_group))
            outputs = evaluation.evaluate(key_group, own, log, self.context.views(), histories, marks)
            log.send()
            head = log.head()
            if head is not None:
                rows.append((key_group, head, compress(_encode(outputs))))
        self.context.state_topic.flush_chunks()
        if rows:
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in zip(*rows, strict=True)], schema=_HEADS)

    def _log(self, key_group: int) -> RebuildLog:
        context, head = self.context, self.heads.get(key_group)
        complete_to = self.state_ends[context.state_topic.partition_of(key_group)]
        return RebuildLog(key_group, head, partial(context.host_files, key_group), context.state_topic, complete_to)

    def _evaluation(self) -> SegmentEvaluation:
        # Imported here, because Spark also loads this class on the driver, which never needs the engine.
        from fraud_rules.replay.rebuild import SegmentEvaluation

        log, context = self.context.rule_log(), self.context
        timeline_of = cache(lambda rules_end: log.up_to(rules_end, self.rejected))
        return SegmentEvaluation(self.segment, timeline_of, context.schema, context.settings, self.known_from_ms)


def unpack_outputs(packed: bytes) -> list[KeyGroupOutput]:
    """The outputs in a row of `HEAD_SCHEMA`."""
    return _decode(decompress(packed))
