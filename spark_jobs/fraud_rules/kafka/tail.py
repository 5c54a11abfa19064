"""Polls the ends of a few topics for new records, at little cost."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record, available_messages, consumer_of, describe, record_of, watermarks
from fraud_rules.runtime.lifetime import Closing

_TIMEOUT_S = 10.0
_POLL_S = 0.2
_TRANSIENT = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


class TopicsTail(Closing):
    """Follows partition 0 of topics. It reads committed records only. One thread at a time may use it.

    `last` is the number of offsets before the end at which reading starts, by topic; None starts at the beginning. The
    client fetches every `wait_ms`, so that a busy topic does not cost a request per record.
    """

    def __init__(self, kafka: KafkaConnection, last: Mapping[str, int | None], wait_ms: int = 1_000) -> None:
        self._kafka = kafka
        self._last = last
        self._has_started = False
        further = {"fetch.wait.max.ms": wait_ms, "fetch.min.bytes": 1_048_576, "log_level": 0}
        self._consumer = consumer_of(kafka, further)

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def new(self) -> dict[str, list[Record]]:
        """The records by topic since the last call; the first call returns all. Raises BrokerUnavailable."""
        found: dict[str, list[Record]] = {topic: [] for topic in self._last}
        try:
            # Only a metadata request shows that the broker is unreachable.
            self._consumer.list_topics(next(iter(self._last)), timeout=_TIMEOUT_S)
            unread = {} if self._has_started else self._begin()
            self._has_started = True
            self._read(unread, found)
        except KafkaException as error:
            raise BrokerUnavailable(f"Kafka at {self._kafka}: {describe(error)}") from error
        return found

    def _read(self, unread: dict[str, int], found: dict[str, list[Record]]) -> None:
        """Read the available records, and wait until the topics in `unread` are read up to their ends.

        The ends are fixed when reading starts, because a topic that grows all the time has no final end.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            messages = available_messages(self._consumer, _POLL_S if unread else 0)
            if any(message.topic() in unread for message in messages):
                deadline = time.monotonic() + _TIMEOUT_S
            for topic in self._collect(messages, found, unread):
                unread.pop(topic, None)
            if not messages and not unread:
                return
            if unread and time.monotonic() > deadline:
                raise BrokerUnavailable(f"{', '.join(sorted(unread))} at {self._kafka} cannot be read to the end")

    def _begin(self) -> dict[str, int]:
        """Seek to the start offsets. Return the current end of each topic with unread records."""
        places, ends = [], {}
        for topic, last in self._last.items():
            first, end = watermarks(self._consumer, TopicPartition(topic, 0)) or (0, 0)
            places.append(TopicPartition(topic, 0, first if last is None else max(first, end - last)))
            if places[-1].offset < end:
                ends[topic] = end
        self._consumer.assign(places)
        return ends

    def _collect(self, messages: list[Message], found: dict[str, list[Record]], ends: Mapping[str, int]) -> set[str]:
        """Add the records to `found`. Return the topics that are read up to their ends."""
        ended = set()
        for message in messages:
            topic, error = str(message.topic()), message.error()
            if error is None:
                record = record_of(message)
                found[topic].append(record)
                if topic in ends and record.offset >= ends[topic] - 1:
                    ended.add(topic)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(topic)
            elif error.code() not in _TRANSIENT:
                raise BrokerUnavailable(f"{topic} at {self._kafka}: {error.str()}")
        return ended
