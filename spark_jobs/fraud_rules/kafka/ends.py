"""The ends of many partitions. One request to each broker asks for all of its partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property, partial

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # stub
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
    TopicDescription,
)

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import (
    committed_ends,
    consumer_of,
    list_offsets,
    mapped_errors,
    partitions_of,
    topic_ids,
)

_FIRST, _END = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]

_TIMEOUT_S = 15.0
_CONNECTED_S = 10.0
"""How long a broker that has answered counts as connected. Brokers close connections after minutes without requests."""

Places = Mapping[str, Sequence[int]]
"""Partitions by topic."""


class TopicEnds:
    """A client that stays connected. Every method can raise BrokerUnavailable."""

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._admin = AdminClient(kafka.confluent({"log_level": 2}))
        self._answered_s = float("-inf")

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, sorted."""
        return partitions_of(self._kafka, self._admin, topic)

    def ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Kafka's ids of topics, by name. A topic that was deleted and created again has a new id."""
        return topic_ids(self._kafka, topics, self._admin)

    def missing(self, topics: Sequence[str]) -> list[str]:
        """The topics that do not exist."""
        with mapped_errors(self._kafka):
            answers = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=_TIMEOUT_S)
            return [topic for topic, answer in answers.items() if not _exists(answer)]

    def first(self, places: Places) -> dict[str, dict[str, int]]:
        """The first offsets that Kafka still holds, by topic and partition (as text)."""
        return self._ends(places, _FIRST, IsolationLevel.READ_COMMITTED)

    def committed(self, places: Places) -> dict[str, dict[str, int]]:
        """The offsets after the last committed records, by topic and partition (as text). An open transaction hides the
        records behind it, so these ends say what can be read, not what has been written.

        A consumer asks for them in half the time of an AdminClient, and every batch waits for the answer.
        """
        return self._checked(self._asked(places, partial(committed_ends, self._consumer)))

    @cached_property
    def _consumer(self) -> Consumer:
        return consumer_of(self._kafka, {})

    def written(self, places: Places) -> dict[str, dict[str, int]]:
        """The offsets after the last records, those of open transactions included, by topic and partition (as text)."""
        return self._ends(places, _END, IsolationLevel.READ_UNCOMMITTED)

    def since(self, places: Places, append_ms: int) -> dict[str, dict[str, int]]:
        """The offsets of the first records with this append time (epoch ms) or a later one, by topic and partition (as
        text). A partition without such a record is missing."""
        spec = OffsetSpec.for_timestamp(append_ms)
        found = self._list(places, spec, IsolationLevel.READ_UNCOMMITTED)
        return {topic: {at: offset for at, offset in each.items() if offset >= 0} for topic, each in found.items()}

    def _ends(self, places: Places, spec: OffsetSpec, isolation: IsolationLevel) -> dict[str, dict[str, int]]:
        return self._checked(self._list(places, spec, isolation))

    def _checked(self, found: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        for topic, offsets in found.items():
            if min(offsets.values()) < 0:  # the client reports no error if its connection ends before the answer
                raise BrokerUnavailable(f"Kafka at {self._kafka} does not report the ends of {topic}")
        return found

    def _list(self, places: Places, spec: OffsetSpec, isolation: IsolationLevel) -> dict[str, dict[str, int]]:
        def ask(asked: Sequence[TopicPartition]) -> Sequence[ListOffsetsResultInfo]:
            self._await_connection(asked[0].topic)
            answers = list_offsets(self._admin, asked, spec, isolation)
            self._answered_s = time.monotonic()
            return answers

        return self._asked(places, ask)

    def _asked(
        self,
        places: Places,
        ask: Callable[[Sequence[TopicPartition]], Sequence[TopicPartition | ListOffsetsResultInfo]],
    ) -> dict[str, dict[str, int]]:
        """The offsets that `ask` returns for partitions, in their order."""
        wanted = [TopicPartition(topic, place) for topic, numbers in places.items() for place in numbers]
        found: dict[str, dict[str, int]] = {topic: {} for topic, numbers in places.items() if numbers}
        if not wanted:
            return found
        with mapped_errors(self._kafka):
            answers = ask(wanted)
        for place, answer in zip(wanted, answers, strict=True):
            found[place.topic][str(place.partition)] = answer.offset
        return found

    def _await_connection(self, topic: str) -> None:
        """Wait until a broker is connected, unless one has answered lately. Raises KafkaException.

        The client looks for the leaders of partitions at once, and again after three seconds. Without a connected
        broker, the first attempt fails. Never ask for the cluster here: if a broker answers that no broker is alive,
        as one does that has lost the controller, `describe_cluster` of librdkafka 2.16 aborts the process.
        """
        if time.monotonic() > self._answered_s + _CONNECTED_S:
            self._admin.list_topics(topic, timeout=_TIMEOUT_S)


def _exists(answer: Future[TopicDescription]) -> bool:
    """Whether a topic exists. One that this client may not describe counts as existing. Raises KafkaException."""
    try:
        answer.result()
    except KafkaException as error:
        code = error.args[0].code()
        if code not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            raise
        return bool(code == KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return True
