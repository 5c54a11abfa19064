"""Finds the results of warm-ups that a batch can use.

A thread reads the topic `warm-ups`, so that a batch without a new result pays nothing. It also has the workers prepare
a result, while batches continue. The pin of a batch names the results that join the state at its start, so a repeated
batch uses the same ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TypeAlias

from pyspark.sql import SparkSession

from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpRef, WarmUpResult
from fraud_rules.runtime.lifetime import BackgroundWork
from fraud_rules.stream.batch_order import BatchOrder
from fraud_rules.stream.driver.evaluator import Evaluator
from fraud_rules.stream.driver.executors import ReadyExecutors
from fraud_rules.stream.driver.placement import cores, located
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.prepare_stage import PrepareStage

_log = logging.getLogger(__name__)

_POLL_S = 0.5

Prepare: TypeAlias = Callable[[int, WarmUpResult], None]
"""Prepares a result on the workers' host. Receives its offset in `warm-ups`."""


class WarmUpWatch(BackgroundWork):
    """A daemon thread that collects the first result of each request. It keeps a result until a pin says that it has
    ended."""

    def __init__(self, log: WarmUpLog) -> None:
        self.log = log
        self._results: dict[int, tuple[int, WarmUpResult]] = {}
        self._end = 0
        self._lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None
        self._prepare: Prepare = lambda offset, result: None
        super().__init__("warm-ups")

    def follow(self, prepare: Prepare, wake: Callable[[], None], position: int = 0) -> None:
        """Start the thread at this offset of the topic. For each new result, it calls `prepare` before a batch can use
        the result, and then `wake`, so that an idle detector runs a batch."""
        self._prepare, self._wake, self._end = prepare, wake, position
        self.start()

    @property
    def result_count(self) -> int:
        """The number of results in memory."""
        return len(self._results)

    def result(self, version: int, ref: WarmUpRef) -> WarmUpResult:
        """The result that a pin names for this version. Raises StateDamaged, BrokerUnavailable."""
        with self._lock:
            offset, known = self._results.get(version, (-1, None))
        if known is not None and offset == ref.offset and known.digest == ref.digest:
            return known
        return self.log.read_result(ref)  # an earlier start has pinned it

    def ending(self, previous: Pin, starts: Mapping[str, int], rules_end: int) -> tuple[dict[int, WarmUpRef], int]:
        """The results that can end with the batch after `previous`, by version, and the offset below which every result
        has ended then.

        `starts` are the offsets at which the batch starts. The job of a result has read no later transaction, so no
        transaction counts twice. A result of a record at or after `rules_end` is ignored: no detector has asked for it.
        """
        with self._lock:
            self._results = {at: found for at, found in self._results.items() if found[0] >= previous.warm_ups_end}
            fresh = {at: found for at, found in self._results.items() if str(at) not in previous.warm_ups}
            end = max(self._end, previous.warm_ups_end)
        ready, waiting = dict[int, WarmUpRef](), [end]
        for version, (offset, result) in sorted(fresh.items()):
            if not all(at <= starts.get(partition, 0) for partition, at in result.ends.items()):
                waiting.append(offset)
            elif version < rules_end:
                ready[version] = result.ref(offset, previous.batch_id + 1)
        return ready, max(previous.warm_ups_end, min(waiting))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with TopicReader(self.log.kafka, self.log.topic) as reader:
                    while not self._stop.wait(_POLL_S):
                        self.read(reader)
            except Exception:  # noqa: BLE001 - without this thread no warm-up would end
                _log.exception("the results of warm-ups cannot be read; the next attempt follows")

    def read(self, reader: TopicReader) -> None:
        """Read the new results. Only the thread calls this once it runs."""
        first, end = reader.ends()
        for offset, result in list(self.log.results(max(self._end, first), end, reader)):
            if result.version not in self._results:
                self._prepare(offset, result)
                with self._lock:
                    self._results[result.version] = offset, result
                self._wake()
        with self._lock:
            self._end = max(self._end, end)


class WarmUpPreparation:
    """Has the workers prepare results on the executor of small batches, so that the batch which adds one is short.

    Each key group is a job of its own with one task, so that a batch waits for one key group at most.
    """

    def __init__(
        self,
        spark: SparkSession,
        context: WorkerContext,
        executors: ReadyExecutors,
        evaluator: Evaluator,
        newest_pin: Callable[[], Pin],
    ) -> None:
        self._spark = spark.sparkContext
        self._context = context
        self._newest_pin = newest_pin
        self._executors = executors
        self._evaluator = evaluator
        self._sweeps = True
        self._stop = threading.Event()

    def stop(self) -> None:
        """End a preparation after the current key group."""
        self._stop.set()

    def prepare(self, offset: int, result: WarmUpResult) -> None:
        """Prepare a result that no batch has added. After an error, the batch adds it without preparation."""
        pin = self._newest_pin()
        if result.fault or str(result.version) in pin.warm_ups or offset < pin.warm_ups_end:
            return
        try:
            context = self._context.of_batch(BatchOrder(pin))
            for part in result.parts:
                if part.rows and not self._stop.is_set():
                    stage = PrepareStage(context, offset, result.digest, part.key_group, self._sweeps)
                    self._sweeps = False
                    self._run(stage)
        except Exception:  # noqa: BLE001 - the batch reads the rows itself
            _log.exception("the warm-up of rule version %d is added without preparation", result.version)

    def _run(self, stage: PrepareStage) -> None:
        location = self._executors.steady()
        has_core = cores(self._spark, location) > 1
        with nullcontext() if has_core else self._evaluator.suspended():
            located(self._spark, [location]).mapPartitions(stage.run).collect()
