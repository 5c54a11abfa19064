"""Records announce themselves: the broker ends the wait for them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from fraud_rules.model.lost_records import Offsets
from fraud_rules.stream.announcements import RecordAnnouncements
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce

pytestmark = [pytest.mark.integration]
TOPIC_ROLES = ("rules", "transactions")

SOON_S = 60.0
NEVER_S = 0.3


@pytest.fixture
def announcements(topics: OwnTopics) -> RecordAnnouncements:
    return RecordAnnouncements(topics.kafka)


def starts(topics: OwnTopics, *transactions: int, rules: int = 0) -> Offsets:
    places = {str(number): start for number, start in enumerate(transactions)}
    return {topics.names.transactions: places, topics.names.rules: {"0": rules}}


def test_a_record_of_any_partition_ends_the_wait(topics: OwnTopics, announcements: RecordAnnouncements) -> None:
    assert not announcements.wait(starts(topics, 0, 0), NEVER_S)
    produce(topics.bootstrap, topics.names.transactions, [b"{}"], partition=1)
    assert announcements.wait(starts(topics, 0, 0), SOON_S)
    produce(topics.bootstrap, topics.names.rules, [b"{}"])
    assert announcements.wait(starts(topics, 0, 1), SOON_S)


def test_records_that_a_batch_has_read_announce_nothing(topics: OwnTopics, announcements: RecordAnnouncements) -> None:
    assert not announcements.wait(starts(topics, 0, 0), NEVER_S)
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 300, partition=0)
    assert not announcements.wait(starts(topics, 300, 0), NEVER_S)
    produce(topics.bootstrap, topics.names.transactions, [b"{}"], partition=0)
    assert announcements.wait(starts(topics, 300, 0), SOON_S)


def test_a_wait_after_a_pause_begins_at_its_own_offsets(topics: OwnTopics, announcements: RecordAnnouncements) -> None:
    assert not announcements.wait(starts(topics, 0, 0), NEVER_S)
    announcements.pause()
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 5, partition=0)
    assert not announcements.wait(starts(topics, 5, 0), NEVER_S)
    produce(topics.bootstrap, topics.names.transactions, [b"{}"], partition=0)
    assert announcements.wait(starts(topics, 5, 0), SOON_S)


def test_an_open_transaction_announces_its_records_at_its_commit(
    topics: OwnTopics, announcements: RecordAnnouncements
) -> None:
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topics.prefix + "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topics.names.transactions, b"{}", partition=0)
    producer.flush(30)
    assert not announcements.wait(starts(topics, 0, 0), NEVER_S)
    producer.commit_transaction(30)
    assert announcements.wait(starts(topics, 0, 0), SOON_S)
