"""Reads from Kafka whether payments are evaluated: once, or every two seconds in a thread."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.intent import IntentLog, read_intents
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reader import Record
from fraud_rules.kafka.tail import TopicsTail
from fraud_rules.logs.detector_status import BatchProgress, decode_progress
from fraud_rules.model.open_transaction import OpenTransaction
from fraud_rules.monitoring.liveness import Liveness, PartitionEnds, liveness, starts_since
from fraud_rules.monitoring.partition_ends import OpenTransactions, read_partition_ends
from fraud_rules.runtime import clock
from fraud_rules.runtime.lifetime import BackgroundWork, Closing

_PROGRESS_OFFSETS: Final = 60  # about thirty batches with their transaction markers, maybe of several detectors
_POLL_S: Final = 2.0
_ENDS_KEPT_MS: Final = 10_000
"""Older end offsets count as unknown, because Kafka does not answer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs at one time. `transactions` is None if their topic is missing."""

    read_ms: int
    missing: tuple[str, ...]
    transactions: Mapping[int, PartitionEnds] | None
    open_transaction: OpenTransaction | None


class LivenessReader(Closing):
    """Keeps the last answers of Kafka. Only one thread at a time may call `poll`; any thread may call `liveness`."""

    def __init__(self, kafka: KafkaConnection, settings: DetectorSettings) -> None:
        self._kafka = kafka
        self._settings = settings
        self._clients: tuple[TopicsTail, TopicEnds] | None = None
        self._transactions = OpenTransactions(kafka)
        self._records: list[Record] = []
        self._intents = IntentLog(settings.detector)
        self._newest: tuple[int, BatchProgress] | None = None
        self._inputs: _Inputs | None = None

    def close(self) -> None:
        """Close the connections. The next read opens them again."""
        if self._clients is not None:
            self._clients[0].close()
            self._clients = None

    def poll(self) -> None:
        """Read the new records. Raises BrokerUnavailable; the next read then starts from the beginning."""
        topics = self._settings.topics
        try:
            tail, ends = self._opened()
            new = tail.new()
            self._inputs = self._read_inputs(ends)
        except BrokerUnavailable:
            self.close()
            raise
        self._add_progress(new[topics.detector_progress])
        if new[topics.detector_intents]:
            self._records += new[topics.detector_intents]
            self._intents = read_intents(self._settings.detector, self._records)

    def liveness(self, skew_ms: int = 0) -> Liveness:
        """The liveness now, by the last read. `skew_ms` is how far this machine's clock is ahead of the broker's."""
        newest, inputs, intents = self._newest, self._inputs, self._intents
        since_ms = None if newest is None else newest[0]
        now_ms = clock.now_ms()
        if inputs is not None and now_ms - inputs.read_ms > _ENDS_KEPT_MS:
            inputs = None
        return liveness(
            newest,
            None if inputs is None else inputs.transactions,
            self._settings.topics.transactions,
            max(now_ms - skew_ms, since_ms or 0),  # the broker's clock has passed `since_ms`, so now is not earlier
            self._settings.tick_ms,
            starts=starts_since(intents, since_ms),
            asked_ms=intents.valid[0].append_ms if intents.valid else None,
            missing=() if inputs is None else inputs.missing,
            open_transaction=None if inputs is None else inputs.open_transaction,
        )

    def _read_inputs(self, ends: TopicEnds) -> _Inputs:
        """The state of the topics that the next batch needs."""
        topics, now_ms = self._settings.topics, clock.now_ms()
        needed = (topics.transactions, topics.rules, topics.detector_state)
        missing = tuple(ends.missing(needed))
        read = [topic for topic in (topics.transactions, topics.rules) if topic not in missing]
        found = read_partition_ends(ends, read, now_ms)
        return _Inputs(now_ms, missing, found.get(topics.transactions), self._transactions.oldest(found))

    def _opened(self) -> tuple[TopicsTail, TopicEnds]:
        if self._clients is None:
            topics = self._settings.topics
            self._records = []
            begin = {topics.detector_progress: _PROGRESS_OFFSETS, topics.detector_intents: None}
            self._clients = TopicsTail(self._kafka, begin), TopicEnds(self._kafka)
        return self._clients

    def _add_progress(self, records: list[Record]) -> None:
        topic, detector = self._settings.topics.detector_progress, self._settings.detector.encode()
        for record in records:
            if record.key == detector:
                progress = decode_or_skip(topic, record, decode_progress)
                if progress is not None:
                    self._newest = record.append_ms, progress


class LivenessWatch(BackgroundWork):
    """Reads the liveness every two seconds in a thread. During an outage the number of waiting payments is unknown."""

    def __init__(self, kafka: KafkaConnection, settings: DetectorSettings) -> None:
        super().__init__("liveness")
        self._reader = LivenessReader(kafka, settings)
        self._polled = False
        self._fault = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def liveness(self) -> Liveness | None:
        """The newest answer; None before the first one."""
        return self._reader.liveness() if self._polled else None

    def _run(self) -> None:
        with self._reader:
            while not self._stop.is_set():
                try:
                    self._reader.poll()
                    self._polled, self._fault = True, ""
                except BrokerUnavailable as error:
                    if str(error) != self._fault:
                        _log.warning("the waiting payments cannot be counted: %s", error)
                    self._fault = str(error)
                self._stop.wait(_POLL_S)
