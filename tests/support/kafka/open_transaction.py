"""A transaction of another program that stays open on a topic, and hides all later records from readers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.support.kafka.own_topics import OwnTopics


@contextmanager
def open_transaction(topics: OwnTopics, *names: str) -> Iterator[Producer]:
    """A record of an open transaction in partition 0 of each topic. At the end of the block it is aborted."""
    settings = {"bootstrap.servers": topics.bootstrap, "transactional.id": f"other-{uuid.uuid4().hex[:8]}"}
    producer = Producer(settings)
    producer.init_transactions()
    producer.begin_transaction()
    for name in names:
        producer.produce(name, b"hidden", b"other", partition=0)
    producer.flush()
    try:
        yield producer
    finally:
        producer.abort_transaction()
