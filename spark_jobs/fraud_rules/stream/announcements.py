"""Waits for the first record after given offsets, without a request for each look."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import consumer_of, mapped_errors
from fraud_rules.model.lost_records import Offsets

_SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "enable.partition.eof": False,
    "fetch.wait.max.ms": 500,
    "max.partition.fetch.bytes": 16_384,
    "queued.min.messages": 100,
}
"""The records only announce themselves: the broker answers a fetch when one arrives, and the client keeps few."""


class RecordAnnouncements:
    """A client that fetches records to notice them. For one thread."""

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._consumer: Consumer = consumer_of(kafka, _SETTINGS)
        self._places: frozenset[tuple[str, str]] = frozenset()

    def wait(self, starts: Offsets, timeout_s: float) -> bool:
        """Wait for a committed record at one of these offsets, or after it. Return whether one has arrived.

        It may miss a record for half a second after `pause`, and while a broker does not answer, so the caller also
        asks for the ends of the topics from time to time. Raises BrokerUnavailable.
        """
        deadline_s = time.monotonic() + timeout_s
        with mapped_errors(self._kafka):
            self._follow(starts)
            while (left_s := deadline_s - time.monotonic()) > 0:
                message = self._consumer.poll(left_s)
                if message is not None and _is_new(message, starts):
                    return True
        return False

    def pause(self) -> None:
        """Fetch nothing until the next `wait`, which begins at its own offsets."""
        if self._places:
            self._places = frozenset()
            with mapped_errors(self._kafka):
                self._consumer.unassign()

    def _follow(self, starts: Offsets) -> None:
        places = frozenset((topic, place) for topic, each in starts.items() for place in each)
        if places != self._places:
            self._consumer.assign([TopicPartition(topic, int(at), starts[topic][at]) for topic, at in places])
            self._places = places


def _is_new(message: Message, starts: Offsets) -> bool:
    if message.error() is not None:
        return False
    return int(message.offset() or 0) >= starts[str(message.topic())][str(message.partition())]
