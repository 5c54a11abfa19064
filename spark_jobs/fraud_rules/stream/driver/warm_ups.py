"""Finds the results of warm-ups that a batch can use.

A thread reads the topic `warm-ups`, so that a batch without a new result pays nothing. It also has the workers prepare
a result, while batches continue. The pin of a batch names the results that join the state at its start, so a repeated
batch uses the same ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pyspark.sql import SparkSession

from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpRef, WarmUpResult
from fraud_rules.stream.driver.placement import SteadyExecutor, one_task
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.worker.context import PIN_PROPERTY, WorkerContext
from fraud_rules.stream.worker.prepare_stage import PrepareStage

__all__ = ["WarmUpPreparation", "WarmUpWatch"]

_log = logging.getLogger(__name__)

_POLL_S = 0.5

Prepare: TypeAlias = Callable[[int, WarmUpResult], None]
"""Prepares a result on the workers' host. Receives its offset in `warm-ups`."""


class WarmUpWatch:
    """A daemon thread that collects the first result of each request."""

    def __init__(self, log: WarmUpLog) -> None:
        self.log = log
        self._results: dict[int, tuple[int, WarmUpResult]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._prepare: Prepare = lambda offset, result: None
        self._thread = threading.Thread(target=self._run, name="warm-ups", daemon=True)

    def start(self, prepare: Prepare, wake: Callable[[], None]) -> None:
        """Start the thread. For each new result, it calls `prepare` before a batch can use the result, and then `wake`,
        so that an idle detector runs a batch."""
        self._prepare, self._wake = prepare, wake
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join()

    def result(self, version: int, ref: WarmUpRef) -> WarmUpResult:
        """The result that a pin names for this version. Raises StateDamaged, BrokerUnavailable."""
        with self._lock:
            offset, known = self._results.get(version, (-1, None))
        if known is not None and offset == ref.offset and known.digest == ref.digest:
            return known
        return self.log.read_result(ref)  # an earlier start has pinned it

    def joining(
        self, batch_id: int, starts: Mapping[str, int], rules_end: int, known: Mapping[str, WarmUpRef]
    ) -> dict[str, WarmUpRef]:
        """The results that can join the state at the start of a batch, by version as text.

        `starts` are the offsets at which the batch starts. The job of a result has read no later transaction, so no
        transaction counts twice.
        """
        with self._lock:
            fresh = {version: found for version, found in self._results.items() if str(version) not in known}
        return {
            str(version): result.ref(offset, batch_id)
            for version, (offset, result) in fresh.items()
            if version < rules_end and all(end <= starts.get(at, 0) for at, end in result.ends.items())
        }

    def _run(self) -> None:
        position = 0
        while not self._stop.is_set():
            try:
                with TopicReader(self.log.kafka, self.log.topic) as reader:
                    while not self._stop.wait(_POLL_S):
                        position = self._read(reader, position)
            except Exception:  # noqa: BLE001 - without this thread no warm-up would end
                _log.exception("the results of warm-ups cannot be read; the next attempt follows")

    def _read(self, reader: TopicReader, position: int) -> int:
        first, end = reader.ends()
        for offset, result in list(self.log.results(max(position, first), end, reader)):
            if result.version not in self._results:
                self._prepare(offset, result)
                with self._lock:
                    self._results[result.version] = offset, result
                self._wake()
        return end


class WarmUpPreparation:
    """Has the workers prepare results on the executor of small batches, so that the batch which adds one is short.

    Each key group is a job of its own with one task, so that a batch waits for one key group at most.
    """

    def __init__(self, spark: SparkSession, context: WorkerContext, newest_pin: Callable[[], Pin]) -> None:
        self._spark = spark.sparkContext
        self._context = context
        self._newest_pin = newest_pin
        self._executor = SteadyExecutor(self._spark)
        self._sweeps = True
        self._stop = threading.Event()

    def stop(self) -> None:
        """End a preparation after the current key group."""
        self._stop.set()

    def prepare(self, offset: int, result: WarmUpResult) -> None:
        """Prepare a result that no batch has added. After an error, the batch adds it without preparation."""
        pin = self._newest_pin()
        if result.refused or str(result.version) in pin.warm_ups:
            return
        try:
            self._spark.setLocalProperty(PIN_PROPERTY, pin.encode().decode())  # of this thread
            for part in result.parts:
                if part.rows and not self._stop.is_set():
                    stage = PrepareStage(self._context, offset, result.digest, part.key_group, self._sweeps)
                    self._sweeps = False
                    one_task(self._spark, self._executor.choose()).mapPartitions(stage.run).collect()
        except Exception:  # noqa: BLE001 - the batch reads the rows itself
            _log.exception("the warm-up of rule version %d is added without preparation", result.version)
