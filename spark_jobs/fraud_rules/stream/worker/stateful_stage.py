"""The second stage: runs the engine on each key group's packed rows, with the state in Spark's state store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from fraud_rules.engine.statelog import restore_image
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.rebuilt_state import restored_state
from fraud_rules.stream.worker.compression import decompress
from fraud_rules.stream.worker.context import WorkerContext, freeze_loaded
from fraud_rules.stream.worker.state import StateStoreLog
from fraud_rules.stream.worker.task_work import TaskWork
from fraud_rules.stream.worker.wire import SIDE_OUTPUT


class KeyGroupProcessor(StatefulProcessor):
    """Spark creates one processor per task and calls it once per key group and batch. `wire` describes the rows."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._work: TaskWork | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._log = StateStoreLog(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Evaluate a key group's part of the batch. Pass side outputs through."""
        key_group, _ = key
        if key_group == SIDE_OUTPUT:
            for row in rows:
                yield Row(key_group=key_group, blob=bytes(row[2]))
            return
        # Imported here, because Spark also loads this class on the driver, which never needs the engine.
        from fraud_rules.engine.engine import KeyGroupEngine

        context = self._context
        if context.restores_now() and self._log.head() is None and (image := restored_state(key_group)) is not None:
            restore_image(self._log, image)
        work = self._work = self._work or TaskWork(context.spill(), context.batch_id())
        engine = KeyGroupEngine(key_group, context.schema, context.settings, self._log, context.views(), progress=work)
        detection_ms = now_ms()
        blobs = [decompress(bytes(row[2])) for row in rows]
        output = engine.process(blobs, context.timeline(), context.batch_id(), detection_ms)
        yield Row(key_group=key_group, blob=context.spill().pack(output.encode(), context.batch_id()))
        work.key_group_done()

    def close(self) -> None:
        """End the task. This object keeps nothing for the next batch; `context` does."""
        freeze_loaded()
