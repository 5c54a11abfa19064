"""Measures the records of a topic that a reader has not read yet, and finds the transaction that hides them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reader import TopicReader, first_uncommitted
from fraud_rules.model.open_transaction import OpenTransaction

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unread:
    """The committed end of a topic, and the append time of its first unread record, None if there is none.

    Transaction markers occupy offsets, so the position of a reader that has read every record may be below the end.
    """

    end: int
    since_ms: int | None


def read_unread(kafka: KafkaConnection, topic: str, position: int) -> Unread:
    """The unread records of partition 0 from a position on. Raises BrokerUnavailable."""
    with TopicReader(kafka, topic) as reader:
        first, end = reader.ends()
        record = next(reader.read(max(first, position), end), None)
    return Unread(end, None if record is None else record.append_ms)


def open_transactions(kafka: KafkaConnection, topics: Iterable[str]) -> list[OpenTransaction]:
    """The open transactions that hide records of topics, by partition. Topics may be missing.

    Raises BrokerUnavailable.
    """
    ends = TopicEnds(kafka)
    names = list(topics)
    gone = ends.missing(names)
    places = {topic: ends.partitions(topic) for topic in names if topic not in gone}
    committed, written = ends.committed(places), ends.written(places)
    hidden = [
        (topic, partition, committed[topic][str(partition)])
        for topic, partitions in places.items()
        for partition in partitions
        if committed[topic][str(partition)] < written[topic][str(partition)]
    ]
    found = (open_transaction_at(kafka, *place) for place in hidden)
    return [each for each in found if each is not None]


def open_transaction_at(kafka: KafkaConnection, topic: str, partition: int, offset: int) -> OpenTransaction | None:
    """The open transaction whose first record has this offset. None if it has ended meanwhile.

    Raises BrokerUnavailable. A broker that does not report the producer to this client leaves it unknown.
    """
    from fraud_rules.kafka.topics import admin_client

    first = first_uncommitted(kafka, topic, partition, offset)
    if first is None:
        return None
    producer_id = transactional_id = None
    try:
        with admin_client(kafka) as client:
            producer_id = _producer_at(client, topic, partition, offset)
            transactional_id = None if producer_id is None else _transactional_id(client, producer_id)
    except BrokerUnavailable as error:
        _log.warning("the producer at offset %s of %s-%s is unknown: %s", offset, topic, partition, error)
    return OpenTransaction(topic, partition, offset, first.append_ms, producer_id, transactional_id)


def _producer_at(client: KafkaAdminClient, topic: str, partition: int, offset: int) -> int | None:
    """The id of the producer whose open transaction in this partition begins at an offset."""
    from kafka import TopicPartition

    place = TopicPartition(topic, partition)
    producers = client.describe_producers([place])[place].active_producers
    return next((each.producer_id for each in producers if each.current_transaction_start_offset == offset), None)


def _transactional_id(client: KafkaAdminClient, producer_id: int) -> str | None:
    """The name of a producer. None without the right to describe it, or if no coordinator knows its transaction."""
    from kafka.errors import KafkaError

    with suppress(KafkaError):
        listings = client.list_transactions(producer_id_filters=[producer_id])
        return next((str(each.transactional_id) for found in listings.values() for each in found), None)
    return None
