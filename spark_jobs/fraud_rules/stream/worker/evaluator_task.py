"""Evaluates small batches: one task that stays, and evaluates one batch after the other.

To start a Spark job costs more than the engine needs for a small batch. So this task asks the driver for the next batch
itself, by the driver's channel. A large batch has many tasks in two stages, `FanOutStage` and `EngineStage`. Both ways
give the same outputs.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fraud_rules.stream.batch_order import BatchOrder
from fraud_rules.stream.worker.context import WorkerContext, begin_task
from fraud_rules.stream.worker.driver_link import Exchange
from fraud_rules.stream.worker.engine_stage import EngineStage
from fraud_rules.stream.worker.fanout_stage import FanOutStage
from fraud_rules.stream.worker.transactions import raw_transactions_in
from fraud_rules.stream.worker.wire import SIDE_OUTPUT, OutputRow


@dataclass(frozen=True, slots=True)
class EvaluatorTask:
    """Runs in a worker until the driver ends it, see `driver.evaluator`. `job` is the driver's number of its job."""

    context: WorkerContext
    job: int

    def run(self, element: Iterable[int]) -> Iterator[int]:
        """Evaluate the batches that the driver requests. Yields nothing."""
        deque(element, maxlen=0)  # Spark ends a worker that leaves its input unread
        assert self.context.channel is not None
        with Exchange(self.context.channel, self.job) as exchange:
            while (request := exchange.next_request()) is not None:
                exchange.reply(self._evaluate(BatchOrder.decode(request)))
                gc.collect()  # while the driver writes the outputs
        yield from ()

    def _evaluate(self, order: BatchOrder) -> Iterator[OutputRow]:
        context = self.context.of_batch(order)
        begin_task(context)
        rows, side_outputs = FanOutStage(context).spread(raw_transactions_in(context, order.ranges))
        yield from (OutputRow(SIDE_OUTPUT, each) for each in side_outputs)
        if rows:
            yield from EngineStage(context).evaluate(rows, rows.__getitem__, order.marks)
