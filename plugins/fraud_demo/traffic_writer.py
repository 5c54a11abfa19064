"""Sends generated traffic to a topic, each record at its due time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from fraud_demo.traffic import TrafficRecord
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, describe
from fraud_rules.runtime import clock

_FLUSH_S = 30.0
_POLL_EVERY = 500


@dataclass(slots=True)
class SendCounts:
    """The number of sent records, and of the malformed and the planted ones among them."""

    records: int = 0
    malformed: int = 0
    planted: int = 0


class TrafficWriter:
    """Sends records when they are due. One thread at a time may use it."""

    def __init__(self, kafka: KafkaConnection, topic: str) -> None:
        """Raises BrokerUnavailable if the topic is missing."""
        with TopicReader(kafka, topic) as reader:
            reader.partitions()
        self._kafka = kafka
        self._topic = topic
        self._failed: KafkaError | None = None
        self._producer = Producer(
            kafka.confluent(
                {
                    "enable.idempotence": True,
                    "linger.ms": 2,
                    "queue.buffering.max.messages": 1_000_000,
                    "log_level": 2,
                }
            )
        )
        self.sent = SendCounts()

    def send(
        self,
        records: Iterable[TrafficRecord],
        stop: threading.Event,
        on_send: Callable[[TrafficRecord], None] = lambda record: None,
    ) -> SendCounts:
        """Send until the records end or `stop` is set, and wait until the brokers have all sent records.

        Raises BrokerUnavailable if the brokers did not accept a record in time.
        """
        try:
            for record in records:
                if self._failed is not None or self._await(record.due_ms, stop):
                    break
                on_send(record)
                self._produce(record, stop)
            left = self._producer.flush(_FLUSH_S)
        except KafkaException as error:
            raise BrokerUnavailable(f"{self._topic} at {self._kafka}: {describe(error)}") from error
        if self._failed is not None or left:
            said = self._failed.str() if self._failed is not None else f"{left} records not accepted in {_FLUSH_S:g} s"
            raise BrokerUnavailable(f"{self._topic} at {self._kafka}: {said}")
        return self.sent

    def _await(self, due_ms: int, stop: threading.Event) -> bool:
        """Wait until the due time. Return True if `stop` is set first."""
        ahead_s = (due_ms - clock.now_ms()) / 1_000
        if ahead_s > 0:
            self._producer.poll(0)
            return stop.wait(ahead_s)
        return stop.is_set()

    def _produce(self, record: TrafficRecord, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._producer.produce(self._topic, record.value, on_delivery=self._delivered)
            except BufferError:  # the brokers are slower than the traffic, so wait for them
                self._producer.poll(0.1)
                continue
            self.sent.records += 1
            self.sent.malformed += record.transaction_id is None
            self.sent.planted += record.planted is not None
            if self.sent.records % _POLL_EVERY == 0:
                self._producer.poll(0)
            return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = error
