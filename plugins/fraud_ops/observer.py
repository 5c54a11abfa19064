"""Observes a detector repeatedly. Each observation reads only new records: intents, reports, and progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby

from fraud_ops.verdicts.broker_clock import BrokerClock, detector_skew_ms
from fraud_ops.verdicts.observation import DetectorObservation, NewestProgress
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.attempt import DeploymentReports
from fraud_rules.deploy.deployment_log import deployment_after
from fraud_rules.deploy.intent import IntentLog, read_intents
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reader import Record, newest_append_ms
from fraud_rules.kafka.tail import TopicsTail
from fraud_rules.kafka.transactional_ids import agent_id, detector_id
from fraud_rules.logs.detector_status import BatchProgress, decode_progress, traffic_since
from fraud_rules.model.open_transaction import OpenTransaction
from fraud_rules.monitoring.partition_ends import OpenTransactions, read_partition_ends
from fraud_rules.runtime.clock import SteadyClock, now_ms, steady_ms
from fraud_rules.runtime.lifetime import Closing

_MAX_WRITERS = 60
_BY_HAND = "a start by hand"
_TRAFFIC_SPAN_MS = 300_000
_PROGRESS_OFFSETS = 2_400  # five minutes of a detector with few payments, half a minute of a busy one
_ARRIVAL_INTERVAL_MS = 30_000
_TRANSACTIONS_INTERVAL_MS = 5_000


class DetectorObserver(Closing):
    """Observes one detector. Only one thread at a time may use it.

    If the broker is unreachable, `observe` returns a failed observation and raises no error.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        settings: DetectorSettings,
        clock: Callable[[], int] = now_ms,
        *,
        monotonic_ms: SteadyClock = steady_ms,
        supervisor: str | None = None,
    ) -> None:
        """`clock` reads the clock of this host. `supervisor` is the id of this installation: its supervision records
        show how far that clock differs from the broker's."""
        self._kafka = kafka
        self._settings = settings
        self._monotonic_ms = monotonic_ms
        self._clock = BrokerClock(clock, monotonic_ms)
        self._supervisor = supervisor
        self._tail: TopicsTail | None = None
        self._arrival_read_ms: int | None = None
        self._arrival_ms: int | None = None
        self._ends: TopicEnds | None = None
        self._transactions, self._reports = OpenTransactions(kafka), OpenTransactions(kafka)
        self._transactions_read_ms: int | None = None
        self._open_transaction: OpenTransaction | None = None
        self._hidden_reports: OpenTransaction | None = None
        self._deployment = DeploymentReports()
        self._reset()

    def close(self) -> None:
        """Close the connection. The next observation starts from scratch."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def observe(self) -> DetectorObservation:
        """Read the new records and return the current observation."""
        detector, topics = self._settings.detector, self._settings.topics
        try:
            records = self._open_tail().new()
        except BrokerUnavailable as error:
            self.close()
            return DetectorObservation.failed(detector, self._clock.now_ms(), str(error))
        self._intents += records[topics.detector_intents]
        self._deployment = deployment_after(
            self._deployment, topics.detector_attempts, detector, records[topics.detector_attempts]
        )
        self._add_progress(records[topics.detector_progress])
        self._read_clock(records)
        self._read_transactions()
        return DetectorObservation(
            detector,
            self._clock.now_ms(),
            self._intent_log(),
            self._deployment,
            NewestProgress(*self._progress[-1]) if self._progress else None,
            tuple(self._writers()),
            traffic_since(self._progress, self._since_ms()) if self._progress else None,
            self._arrived_ms(),
            self._clock.skew_ms(),
            self._open_transaction,
            detector_skew_ms(self._progress),
            self._hidden_reports,
        )

    def _read_clock(self, new: Mapping[str, Sequence[Record]]) -> None:
        last = self._deployment.supervision
        if last is not None and last[1].supervisor == self._supervisor:
            self._clock.calibrate(last[0], last[1].at_ms)
        self._clock.add_append_times(record.append_ms for records in new.values() for record in records)

    def _reset(self) -> None:
        self._intents: list[Record] = []
        self._folded: tuple[int, IntentLog] = (0, IntentLog(self._settings.detector))
        self._deployment = DeploymentReports()
        self._progress: deque[tuple[int, BatchProgress]] = deque()
        self._written_by: deque[str] = deque(maxlen=_MAX_WRITERS)

    def _open_tail(self) -> TopicsTail:
        if self._tail is None:
            self._reset()
            topics = self._settings.topics
            self._tail = TopicsTail(
                self._kafka,
                {
                    topics.detector_intents: None,
                    topics.detector_attempts: None,
                    topics.detector_progress: _PROGRESS_OFFSETS,
                },
            )
        return self._tail

    def _intent_log(self) -> IntentLog:
        count, log = self._folded
        if count != len(self._intents):
            log = read_intents(self._settings.detector, self._intents)
            self._folded = (len(self._intents), log)
        return log

    def _add_progress(self, records: Sequence[Record]) -> None:
        name, topic = self._settings.detector.encode(), self._settings.topics.detector_progress
        for record in records:
            progress = decode_or_skip(topic, record, decode_progress) if record.key == name else None
            if progress is not None:
                self._progress.append((record.append_ms, progress))
                self._written_by.append(progress.attempt or _BY_HAND)
        while self._progress and self._progress[0][0] < self._since_ms():
            self._progress.popleft()

    def _since_ms(self) -> int:
        return self._progress[-1][0] - _TRAFFIC_SPAN_MS

    def _arrived_ms(self) -> int | None:
        """The append time of the newest transaction, approximated by the append time of the progress of its batch.

        If no recent batch has read a record, the observer asks the broker, at most once in `_ARRIVAL_INTERVAL_MS`.
        """
        read = next((at_ms for at_ms, each in reversed(self._progress) if each.rows or each.quarantined), None)
        if read is not None or self._settings.health.silent_ms == 0:
            return read
        if self._arrival_read_ms is None or self._monotonic_ms() - self._arrival_read_ms >= _ARRIVAL_INTERVAL_MS:
            with suppress(BrokerUnavailable):  # the next observation reports the unreachable broker
                self._arrival_ms = newest_append_ms(self._kafka, self._settings.topics.transactions)
            self._arrival_read_ms = self._monotonic_ms()
        return self._arrival_ms

    def _read_transactions(self) -> None:
        """Read which transactions hide records of the inputs and of the reports, every `_TRANSACTIONS_INTERVAL_MS`."""
        read_ms, now_ms = self._transactions_read_ms, self._monotonic_ms()
        if read_ms is not None and now_ms - read_ms < _TRANSACTIONS_INTERVAL_MS:
            return
        topics = self._settings.topics
        inputs, reports = (topics.transactions, topics.rules), (topics.detector_attempts, topics.detector_progress)
        self._ends = self._ends or TopicEnds(self._kafka)
        with suppress(BrokerUnavailable):  # the next observation reports the unreachable broker
            ends = read_partition_ends(self._ends, (*inputs, *reports), self._clock.now_ms())
            self._open_transaction = self._transactions.oldest({topic: ends[topic] for topic in inputs})
            hidden = self._reports.oldest({topic: ends[topic] for topic in reports})
            own = (detector_id(self._settings.detector), agent_id(self._settings.detector))
            # A detector or an agent that hangs in its own transaction is not excused by it.
            self._hidden_reports = None if hidden is None or hidden.transactional_id in own else hidden
        self._transactions_read_ms = now_ms

    def _writers(self) -> list[str]:
        return [writer for writer, _ in groupby(self._written_by)]
