"""Prepares the history of a warm-up on a host, before a pin names its result, see `engine.prepared`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.model.ruleset import Grouping, GroupingInForce
from fraud_rules.runtime.compression import compress
from fraud_rules.stream.worker.context import WorkerContext, begin_task

_NICE: Final = 10


@dataclass(frozen=True, slots=True)
class PrepareStage:
    """Runs in a worker for one key group, under the rules of a pin. `offset` and `digest` name the result. With
    `sweeps`, it first removes the histories that an earlier start has prepared."""

    context: WorkerContext
    offset: int
    digest: str
    key_group: int
    sweeps: bool

    def run(self, element: Iterable[int]) -> Iterator[int]:
        """Prepare the history, and yield the number of its rows.

        A thread prepares it, because a thread can have a lower priority than the batches, and a worker cannot raise its
        own priority again.
        """
        begin_task(self.context)
        list(element)  # Spark ends a worker that leaves its input unread
        groupings = self.context.timeline().latest.groupings
        with ThreadPoolExecutor(1, initializer=_yield_cores) as thread:
            yield thread.submit(self._prepare, groupings).result()

    def _prepare(self, groupings: Mapping[Grouping, GroupingInForce]) -> int:
        from fraud_rules.engine.prepared import prepare_history

        context = self.context
        if self.sweeps:
            context.discard_prepared()
        history = context.warm_history(self.offset, self.digest, self.key_group)
        grouping, rows = groupings.get(history.fields), history.rows
        if grouping is not None and len(rows) and not grouping.long_rules:
            folder = context.prepared_folder(self.offset, self.digest, self.key_group)
            store = StateChunks(context.state_topic, self.key_group)
            prepare_history(history.version, grouping, rows, history.begins_ms, context.schema, folder, store)
        return len(rows)


def _yield_cores() -> None:
    """Lower the priority of this thread. On Linux, each thread has its own."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


@dataclass(frozen=True, slots=True)
class StateChunks:
    """The topic `detector-state` as a `ChunkStore`. No head names these chunks before a batch adds the history."""

    topic: StateTopic
    key_group: int

    def send(self, name: str, content: bytes) -> None:
        self.topic.send_chunks(self.key_group, [(name, compress(content))])

    def flush(self) -> None:
        self.topic.flush_chunks()
