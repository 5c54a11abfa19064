"""Reads what a few topics have gained since the last read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, Message, TopicPartition

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import (
    Record,
    available_messages,
    committed_ends,
    consumer_of,
    mapped_errors,
    record_of,
    watermarks,
)
from fraud_rules.runtime.lifetime import Closing

_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.2
_TRANSIENT: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


class TopicsTail(Closing):
    """Reads partition 0 of topics, committed records only. One thread at a time may use it.

    `last` is the number of offsets before the end at which reading starts, by topic; None starts at the beginning.
    Between two reads it fetches nothing, so that a busy topic does not cost a request per record.
    """

    def __init__(self, kafka: KafkaConnection, last: Mapping[str, int | None]) -> None:
        self._kafka = kafka
        self._last = last
        self._next: dict[str, int] = {}
        self._consumer = consumer_of(kafka, {"log_level": 0})

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def new(self) -> dict[str, list[Record]]:
        """The records by topic since the last call, up to the present ends; the first call returns all.

        Raises BrokerUnavailable. The next call then reads the same records again.
        """
        found: dict[str, list[Record]] = {topic: [] for topic in self._last}
        with mapped_errors(self._kafka):
            ends = self._ends()
            unread = {topic: end for topic, end in ends.items() if end > self._next[topic]}
            if unread:
                self._consumer.assign([TopicPartition(topic, 0, self._next[topic]) for topic in unread])
                try:
                    self._read(unread, found)
                finally:
                    self._consumer.unassign()
        self._next = ends
        return found

    def _ends(self) -> dict[str, int]:
        """The present ends by topic. Raises BrokerUnavailable if one is before a record that has been read."""
        if not self._next:
            self._next = {topic: self._start(topic, last) for topic, last in self._last.items()}
        ends = committed_ends(self._consumer, [TopicPartition(topic, 0) for topic in self._last])
        for end in ends:
            if end.offset < self._next[end.topic]:
                raise BrokerUnavailable(f"{end.topic} at {self._kafka} ends before offset {self._next[end.topic]}")
        return {end.topic: end.offset for end in ends}

    def _start(self, topic: str, last: int | None) -> int:
        first, end = watermarks(self._consumer, TopicPartition(topic, 0)) or (0, 0)
        return first if last is None else max(first, end - last)

    def _read(self, ends: Mapping[str, int], found: Mapping[str, list[Record]]) -> None:
        """Read the topics up to these ends. A topic that grows all the time has no final end."""
        unread = dict(ends)
        deadline = time.monotonic() + _TIMEOUT_S
        while unread:
            messages = available_messages(self._consumer, _POLL_S)
            if any(message.topic() in unread for message in messages):
                deadline = time.monotonic() + _TIMEOUT_S
            elif time.monotonic() > deadline:
                raise BrokerUnavailable(f"{', '.join(sorted(unread))} at {self._kafka} cannot be read to the end")
            for message in messages:
                if self._is_transient(message):
                    continue
                topic, offset = str(message.topic()), int(message.offset() or 0)
                if message.error() is None and offset < ends[topic]:
                    found[topic].append(record_of(message))
                    offset += 1
                if offset >= ends[topic]:
                    unread.pop(topic, None)

    def _is_transient(self, message: Message) -> bool:
        """Whether the message is an error that passes. It has no topic. Raises BrokerUnavailable for other errors."""
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return False
        if error.code() not in _TRANSIENT:
            raise BrokerUnavailable(f"{message.topic()} at {self._kafka}: {error.str()}")
        return True
