"""The ends of many partitions. One request to each broker asks for all of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # stub

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import list_offsets, mapped_errors, partitions_of, with_leader

__all__ = ["TopicEnds"]

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
        return partitions_of(self._kafka, self._admin, topic)

    def first(self, places: Places) -> dict[str, dict[str, int]]:
        """The first offsets that Kafka still holds, by topic and partition (as text)."""
        return self._list(places, _FIRST)

    def committed(self, places: Places) -> dict[str, dict[str, int]]:
        """The offsets after the last committed records, by topic and partition (as text)."""
        return self._list(places, _END)

    def _list(self, places: Places, at: OffsetSpec) -> dict[str, dict[str, int]]:
        wanted = [TopicPartition(topic, place) for topic, numbers in places.items() for place in numbers]
        found: dict[str, dict[str, int]] = {topic: {} for topic, numbers in places.items() if numbers}
        if not wanted:
            return found
        with mapped_errors(self._kafka):
            answers = with_leader(lambda: list_offsets(self._admin, wanted, at, IsolationLevel.READ_COMMITTED))
        for place, answer in zip(wanted, answers, strict=True):
            if answer.offset < 0:  # the client reports no error if its connection ends before the answer
                raise BrokerUnavailable(f"Kafka at {self._kafka} does not report the ends of {place.topic}")
            found[place.topic][str(place.partition)] = answer.offset
        return found
