"""Finds the open transactions that hide records of the input topics, and their producers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from kafka import TopicPartition as Place
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import mapped_errors
from fraud_rules.kafka.topics import admin_client
from fraud_rules.model.open_transaction import OpenTransaction
from fraud_rules.monitoring.liveness import PartitionEnds

__all__ = ["OpenTransactions"]

_TIMEOUT_S: Final = 10.0

_log = logging.getLogger(__name__)


class OpenTransactions:
    """Keeps what it has found, so that it asks Kafka once for each transaction. One thread at a time may use it."""

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._known: dict[tuple[str, int, int], OpenTransaction] = {}

    def oldest(self, ends: Mapping[str, Mapping[int, PartitionEnds]]) -> OpenTransaction | None:
        """The oldest transaction that hides records by these ends; None without one. Raises BrokerUnavailable."""
        hidden = [
            (topic, partition, each.committed)
            for topic, places in ends.items()
            for partition, each in places.items()
            if each.is_hidden
        ]
        self._known = {place: known for place, known in self._known.items() if place in hidden}
        for place in hidden:
            if place not in self._known and (found := self._find(*place)) is not None:
                self._known[place] = found
        return min(self._known.values(), key=lambda each: each.since_ms, default=None)

    def _find(self, topic: str, partition: int, offset: int) -> OpenTransaction | None:
        since_ms = self._append_ms(topic, partition, offset)
        if since_ms is None:
            return None
        producer_id = transactional_id = None
        try:
            with admin_client(self._kafka) as client:
                producer_id = _producer_at(client, Place(topic, partition), offset)
                transactional_id = None if producer_id is None else _transactional_id(client, producer_id)
        except (
            BrokerUnavailable
        ) as error:  # an old broker, or one that does not allow it: the age is known all the same
            _log.warning("the producer at offset %s of %s-%s is unknown: %s", offset, topic, partition, error)
        return OpenTransaction(topic, partition, offset, since_ms, producer_id, transactional_id)

    def _append_ms(self, topic: str, partition: int, offset: int) -> int | None:
        """The append time of the first record of a transaction. None if it has ended meanwhile."""
        settings = {
            "group.id": "fraud-rules",  # required by the client; no offset is ever committed
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "error",
            "log_level": 2,
        }
        consumer = Consumer(self._kafka.confluent(settings))
        try:
            with mapped_errors(self._kafka):
                consumer.assign([TopicPartition(topic, partition, offset)])
                message = consumer.poll(_TIMEOUT_S)
        finally:
            consumer.close()
        return None if message is None or message.error() is not None else message.timestamp()[1]


def _producer_at(client: KafkaAdminClient, place: Place, offset: int) -> int | None:
    """The id of the producer whose open transaction in this partition begins at an offset."""
    producers = client.describe_producers([place])[place].active_producers
    return next((each.producer_id for each in producers if each.current_transaction_start_offset == offset), None)


def _transactional_id(client: KafkaAdminClient, producer_id: int) -> str | None:
    """The name of a producer. None without the right to describe it, or if no coordinator knows its transaction."""
    with suppress(KafkaError):
        listings = client.list_transactions(producer_id_filters=[producer_id])
        return next((str(each.transactional_id) for found in listings.values() for each in found), None)
    return None
