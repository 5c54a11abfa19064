"""Runs the engine on the packed rows of key groups. In a large batch, they come from the driver, see `batch_jobs`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fraud_rules.engine.task_rows import RowRange

from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.compression import decompress
from fraud_rules.stream.batch_order import unpack_marks
from fraud_rules.stream.worker.context import WorkerContext, begin_task
from fraud_rules.stream.worker.driver_link import TaskWork, pack, received
from fraud_rules.stream.worker.wire import OutputRow


@dataclass(frozen=True, slots=True)
class EngineStage:
    """Runs in a worker on the rows of some key groups. `wire` describes the rows."""

    context: WorkerContext

    def run(self, elements: Iterable[int]) -> Iterator[OutputRow]:
        """Evaluate the rows that the driver hands out to this task, whose number is the only element."""
        begin_task(self.context)
        (number,) = elements
        blobs: dict[int, list[bytes]] = {}
        marks: dict[int, bytes] = {}
        for row in received(self.context.channel, self.context.pin().batch_id, number):
            own = blobs.setdefault(row.key_group, [])
            if row.blob is not None:
                own.append(row.blob)
            if row.marks is not None:
                marks[row.key_group] = row.marks
        if blobs:
            yield from self._evaluate_packed(blobs, marks)

    def _evaluate_packed(self, blobs: Mapping[int, Sequence[bytes]], marks: Mapping[int, bytes]) -> Iterator[OutputRow]:
        from fraud_rules.engine.task_rows import rows_of_blobs

        yield from self.evaluate(blobs, lambda key_group: rows_of_blobs(map(decompress, blobs[key_group])), marks)

    def evaluate(
        self, key_groups: Collection[int], rows_of: Callable[[int], Sequence[RowRange]], marks: Mapping[int, bytes]
    ) -> Iterator[OutputRow]:
        """Evaluate the rows of each key group, in ascending order of the key groups. `marks` are those of the order."""
        # Imported here, because Spark also loads this class on the driver, which never needs the engine.
        from fraud_rules.engine.engine import KeyGroupEngine

        context = self.context
        pin, has_sent = context.pin(), False
        work = TaskWork(context.channel, pin.batch_id)
        views, timeline = context.views(), context.timeline()
        limit_bytes = context.settings.row_output_bytes
        with context.shared_read(key_groups) as shared:
            for key_group in sorted(key_groups):
                log = context.state_log(key_group, work, shared.read)
                engine = KeyGroupEngine(
                    key_group, context.schema, context.settings, log, views, progress=work, meter=context.rule_meter()
                )
                histories = context.histories(key_group)
                changed = unpack_marks(marks.get(key_group))
                output = engine.process_rows(rows_of(key_group), timeline, pin.batch_id, now_ms(), histories, changed)
                delta = log.delta()
                has_sent |= log.has_sent
                state = None if delta is None else delta.encode()
                yield OutputRow(key_group, pack(context.channel, output.encode(), limit_bytes), state)
                for history in histories:
                    history.discard_prepared()
                work.key_group_done()
        if has_sent:
            context.state_topic.flush_chunks()
