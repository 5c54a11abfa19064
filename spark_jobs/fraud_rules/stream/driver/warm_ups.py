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

from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpRef, WarmUpResult

__all__ = ["WarmUpWatch"]

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
