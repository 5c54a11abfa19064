"""Runs a whole small batch in one task: decodes, fans out and evaluates.

A stage costs the JVM more than a small batch costs the engine, so a small batch has only one. For a large batch, the
driver runs `FanOutStage` and `EngineStage` as two stages with many tasks. Both ways give the same outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from fraud_rules.stream.worker.context import WorkerContext, freeze_loaded
from fraud_rules.stream.worker.engine_stage import EngineStage
from fraud_rules.stream.worker.fanout_stage import FanOutStage
from fraud_rules.stream.worker.wire import SIDE_OUTPUT, OutputRow, output_batch

__all__ = ["WholeStage"]


@dataclass(frozen=True, slots=True)
class WholeStage:
    """Runs in a worker on all records of a source batch."""

    context: WorkerContext

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Columns in: see `FanOutStage.run`. Rows out: see `wire`."""
        freeze_loaded()
        blobs: dict[int, list[bytes]] = {}
        rows: list[OutputRow] = []
        for key_group, blob in FanOutStage(self.context).pack(batches):
            if key_group == SIDE_OUTPUT:
                rows.append(OutputRow(key_group, blob))
            else:
                blobs.setdefault(key_group, []).append(blob)
        yield from output_batch([*rows, *EngineStage(self.context).evaluate(blobs)])
