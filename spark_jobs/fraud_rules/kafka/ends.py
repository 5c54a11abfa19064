"""The ends of many partitions, each set with one request to each broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # stub

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import describe, topic_fault, with_leader

__all__ = ["TopicEnds"]

_TIMEOUT_S: Final = 15.0
_FIRST, _END = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]

Places = Mapping[str, Sequence[int]]
"""Partitions by topic."""


class TopicEnds:
    """A client that stays connected. Every method can raise BrokerUnavailable."""

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._admin = AdminClient(kafka.confluent({"log_level": 2}))

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, sorted."""
        try:
            metadata = self._admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        except KafkaException as error:
            raise self._unavailable(error) from error
        if metadata.error is not None:
            raise BrokerUnavailable(topic_fault(topic, metadata.error))
        return sorted(metadata.partitions)

    def first(self, places: Places) -> dict[str, dict[str, int]]:
        """The first offsets that Kafka still holds, by topic and partition (as text)."""
        return self._list(places, _FIRST)

    def committed(self, places: Places) -> dict[str, dict[str, int]]:
        """The offsets after the last committed records, by topic and partition (as text)."""
        return self._list(places, _END)

    def _list(self, places: Places, at: OffsetSpec) -> dict[str, dict[str, int]]:
        wanted = [TopicPartition(topic, place) for topic, numbers in places.items() for place in numbers]
        found: dict[str, dict[str, int]] = {topic: {} for topic, numbers in places.items() if numbers}
        for place, offset in self._offsets(wanted, at):
            found[place.topic][str(place.partition)] = offset
        return found

    def _offsets(self, wanted: Sequence[TopicPartition], at: OffsetSpec) -> list[tuple[TopicPartition, int]]:
        if not wanted:
            return []
        try:
            found = with_leader(lambda: self._ask(wanted, at))
        except KafkaException as error:
            raise self._unavailable(error) from error
        for place, offset in found:
            if offset < 0:  # the client reports no error if its connection ends before the answer
                raise BrokerUnavailable(f"Kafka at {self._kafka} does not report the ends of {place.topic}")
        return found

    def _ask(self, wanted: Sequence[TopicPartition], at: OffsetSpec) -> list[tuple[TopicPartition, int]]:
        answers = self._admin.list_offsets(
            dict.fromkeys(wanted, at), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT_S
        )
        return [(place, answers[place].result().offset) for place in wanted]

    def _unavailable(self, error: KafkaException) -> BrokerUnavailable:
        return BrokerUnavailable(f"Kafka at {self._kafka}: {describe(error)}")
