"""Writes the records that wake an idle detector."""

from __future__ import annotations

from confluent_kafka import Producer

from fraud_rules.kafka.connection import KafkaConnection

__all__ = ["TickWriter"]


class TickWriter:
    """Ticks are hints: nothing waits for them, and a lost one is followed by another."""

    def __init__(self, kafka: KafkaConnection, topic: str, detector: str) -> None:
        self._topic = topic
        self._key = detector.encode()
        self._producer = Producer(kafka.confluent({"linger.ms": 0, "log_level": 2}))

    def tick(self) -> None:
        """Write one tick."""
        self._producer.produce(self._topic, b"{}", self._key)
        self._producer.poll(0)
