"""Runs a whole small batch in one task: reads, decodes, fans out and evaluates.

The task reads the records itself. To plan a query costs the JVM several times as much as the engine needs for a small
batch, and a small batch needs no query: Spark runs this function on a fixed dataset with one element. A large batch has
many tasks in two stages, `FanOutStage` and `EngineStage`. Both ways give the same outputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fraud_rules.stream.worker.context import WorkerContext, begin_task
from fraud_rules.stream.worker.engine_stage import EngineStage
from fraud_rules.stream.worker.fanout_stage import FanOutStage
from fraud_rules.stream.worker.transactions import raw_transactions_in
from fraud_rules.stream.worker.wire import SIDE_OUTPUT, OutputRow

__all__ = ["SmallBatch"]


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """Runs in a worker on the records that the driver names, see `BatchOrder`."""

    context: WorkerContext

    def run(self, element: Iterable[int]) -> Iterator[OutputRow]:
        """Read and evaluate the records."""
        begin_task(self.context)
        deque(element, maxlen=0)  # Spark ends a worker that leaves its input unread
        records = raw_transactions_in(self.context, self.context.order().ranges)
        rows, side_outputs = FanOutStage(self.context).spread(records)
        yield from (OutputRow(SIDE_OUTPUT, each) for each in side_outputs)
        if rows:
            yield from EngineStage(self.context).evaluate(sorted(rows.items()))
